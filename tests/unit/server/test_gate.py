"""The gate: what it counts, whom it turns away, whom it finds overdue."""

from __future__ import annotations

import pytest

from penstock.errors import OverloadedError, UnavailableError
from penstock.server.gate import Gate
from penstock.server.settings import ServerSettings
from penstock.testing.manual_clock import ManualClock

LIMITS = ServerSettings(
    streams_max=3, peer_streams_max=2, memory_bytes_max=100, peer_memory_bytes_max=60, stall_ms=1_000, idle_ms=5_000
)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def gate(clock: ManualClock) -> Gate:
    return Gate(LIMITS, clock)


def test_streams_are_counted_for_each_connection_and_together(gate: Gate) -> None:
    with gate.stream("a"), gate.stream("a"):
        with pytest.raises(OverloadedError, match="the connection has too many"), gate.stream("a"):
            pass
        with gate.stream("b"), pytest.raises(OverloadedError, match="the server has too many"), gate.stream("c"):
            pass
        assert gate.counts()["streams"] == 2
    assert gate.counts()["streams"] == 0


def test_bytes_are_counted_for_each_connection_and_together(gate: Gate) -> None:
    with gate.holding("a", 60):
        with pytest.raises(OverloadedError, match="the connection has too much"), gate.holding("a", 1):
            pass
        with gate.holding("b", 40), pytest.raises(OverloadedError, match="the server has too much"):
            gate.holding("c", 1).__enter__()
    assert gate.counts()["bytes"] == 0


def test_places_are_given_back_after_an_error(gate: Gate) -> None:
    for _ in range(3):
        with pytest.raises(ZeroDivisionError), gate.working("calls", 1):
            raise ZeroDivisionError
    with gate.working("calls", 1), pytest.raises(OverloadedError, match="calls"):
        gate.working("calls", 1).__enter__()


def test_unread_reply_makes_a_connection_overdue(gate: Gate, clock: ManualClock) -> None:
    with gate.stream("slow") as slow, gate.stream("busy") as busy, gate.call(slow), gate.call(busy):
        with gate.sending(slow):
            clock.advance(999)
            assert gate.overdue() == set()
            clock.advance(1)
            assert gate.overdue() == {"slow"}
        assert gate.overdue() == set()


def test_connection_is_idle_only_when_all_its_streams_are(gate: Gate, clock: ManualClock) -> None:
    with gate.stream("a"), gate.stream("a") as used, gate.stream("b"):
        clock.advance(5_000)
        with gate.call(used):
            assert gate.overdue() == {"b"}
        assert gate.overdue() == {"b"}
        clock.advance(5_000)
        assert gate.overdue() == {"a", "b"}


def test_closed_gate_lets_nobody_in_and_waits_for_calls(gate: Gate) -> None:
    with gate.stream("a") as stream:
        with gate.call(stream):
            assert not gate.close(wait_ms=0)
        assert gate.close(wait_ms=0)
        with pytest.raises(UnavailableError, match="stopping"):
            gate.stream("b").__enter__()
        with pytest.raises(UnavailableError, match="stopping"):
            gate.working("calls", 9).__enter__()
