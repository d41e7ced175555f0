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
    with gate.stream("a") as a, gate.stream("a") as other, gate.stream("b") as b:
        for stream in (a, other, b):
            gate.begin_call(stream)
        gate.hold(a, 60)
        with pytest.raises(OverloadedError, match="the connection has too much"):
            gate.hold(other, 1)
        gate.hold(b, 40)
        with pytest.raises(OverloadedError, match="the server has too much"):
            gate.hold(b, 41)
        assert gate.counts()["bytes"] == 100
        for stream in (a, other, b):
            gate.end_call(stream)
    assert gate.counts() == {"streams": 0, "calls": 0, "bytes": 0}


def test_reply_is_held_in_place_of_its_request(gate: Gate) -> None:
    with gate.stream("a") as stream:
        gate.begin_call(stream)
        for size in (60, 10, 60, 0, 5):
            gate.hold(stream, size)
            assert gate.counts()["bytes"] == size
        gate.end_call(stream)
        assert gate.counts()["bytes"] == 0


def test_places_are_limited_by_kind_and_given_back(gate: Gate) -> None:
    for _ in range(3):
        gate.take_place("calls", 1)
        gate.take_place("waits", 1)
        with pytest.raises(OverloadedError, match="too many calls under way"):
            gate.take_place("calls", 1)
        gate.give_place("calls")
        gate.give_place("waits")


def test_unread_reply_makes_a_connection_overdue(gate: Gate, clock: ManualClock) -> None:
    with gate.stream("slow") as slow, gate.stream("busy") as busy:
        gate.begin_call(slow)
        gate.begin_call(busy)
        gate.begin_send(slow)
        clock.advance(999)
        assert gate.overdue() == set()
        clock.advance(1)
        assert gate.overdue() == {"slow"}
        gate.end_call(slow)
        assert gate.overdue() == set()


def test_connection_is_idle_only_when_all_its_streams_are(gate: Gate, clock: ManualClock) -> None:
    with gate.stream("a"), gate.stream("a") as used, gate.stream("b"):
        clock.advance(5_000)
        gate.begin_call(used)
        assert gate.overdue() == {"b"}
        gate.end_call(used)
        assert gate.overdue() == {"b"}
        clock.advance(5_000)
        assert gate.overdue() == {"a", "b"}


def test_closed_gate_lets_nobody_in_and_waits_for_calls(gate: Gate) -> None:
    with gate.stream("a") as stream:
        gate.begin_call(stream)
        assert not gate.close(wait_ms=0)
        gate.end_call(stream)
        assert gate.close(wait_ms=0)
        with pytest.raises(UnavailableError, match="stopping"):
            gate.stream("b").__enter__()
        with pytest.raises(UnavailableError, match="stopping"):
            gate.take_place("calls", 9)
