"""The gate: what it counts, whom it turns away, whom it finds overdue."""

from __future__ import annotations

import pytest

from penstock.errors import OverloadedError, UnavailableError
from penstock.server.calls.admission import Gate
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


def test_caller_with_a_name_has_a_share_of_the_streams_over_all_its_connections() -> None:
    gate = Gate(ServerSettings(streams_max=4), ManualClock())
    with gate.stream("a", "ann"), gate.stream("b", "ann"), gate.stream("c", "ann"):
        with pytest.raises(OverloadedError, match="ann has its share of the server's streams"), gate.stream("d", "ann"):
            pass
        with gate.stream("e", "bob"), pytest.raises(OverloadedError, match="too many"), gate.stream("f", "bob"):
            pass
    with gate.stream("a", "ann"), gate.stream("a", "ann"), gate.stream("a", "ann"):
        pass


def test_caller_with_a_name_has_a_share_of_the_bytes_in_flight() -> None:
    gate = Gate(ServerSettings(memory_bytes_max=100, peer_memory_bytes_max=100), ManualClock())
    with gate.stream("a", "ann") as a, gate.stream("b", "ann") as b, gate.stream("c", "bob") as c:
        gate.hold(a, 70)
        gate.hold(b, 5)
        with pytest.raises(OverloadedError, match="ann has its share of the bytes in flight"):
            gate.hold(b, 6)
        gate.hold(c, 25)
        for stream in (a, b, c):
            gate.hold(stream, 0)
        # A single call may be larger than the share.
        gate.hold(a, 100)
        gate.hold(a, 0)


def test_caller_with_a_name_waits_for_its_own_share_of_the_room_for_large_calls() -> None:
    clock = ManualClock()
    gate = Gate(ServerSettings(call_bytes_max=100, wait_ms_max=1, wait_slice_ms=1), clock)

    def waited() -> bool:
        clock.advance(1)
        return False

    with gate.stream("a", "ann") as a, gate.stream("b", "ann") as b, gate.stream("c", "bob") as c:
        gate.make_room(a, 70, waited)
        with pytest.raises(OverloadedError, match="ann has its share of the room"):
            gate.make_room(b, 10, waited)
        gate.make_room(c, 30, waited)
        with pytest.raises(OverloadedError, match="too many large calls"):
            gate.make_room(b, 1, waited)
        gate.give_room(a)
        gate.give_room(c)
        gate.make_room(b, 100, waited)


def test_caller_with_a_name_has_a_share_of_the_places_of_each_kind(gate: Gate) -> None:
    for kind in ("calls", "waits"):
        for _ in range(3):
            gate.take_place(kind, 4, "ann")
        with pytest.raises(OverloadedError, match=f"ann has its share of the {kind} under way"):
            gate.take_place(kind, 4, "ann")
        gate.take_place(kind, 4, "bob")
        gate.give_place(kind, "ann")
