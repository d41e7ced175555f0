"""Admission: what it counts, which callers it refuses, which connections it finds overdue."""

from __future__ import annotations

import pytest

from penstock.errors import OverloadedError, UnavailableError
from penstock.server.calls.admission import Admission
from penstock.server.settings import ServerSettings
from penstock.testing.manual_clock import ManualClock

LIMITS = ServerSettings(
    streams_max=3, peer_streams_max=2, memory_bytes_max=100, peer_memory_bytes_max=60, stall_ms=1_000, idle_ms=5_000
)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def admission(clock: ManualClock) -> Admission:
    return Admission(LIMITS, clock)


def test_streams_are_counted_for_each_connection_and_together(admission: Admission) -> None:
    with admission.stream("a"), admission.stream("a"):
        with pytest.raises(OverloadedError, match="the connection has too many"), admission.stream("a"):
            pass
        with (
            admission.stream("b"),
            pytest.raises(OverloadedError, match="the server has too many"),
            admission.stream("c"),
        ):
            pass
        assert admission.counts()["streams"] == 2
    assert admission.counts()["streams"] == 0


def test_bytes_are_counted_for_each_connection_and_together(admission: Admission) -> None:
    with admission.stream("a") as a, admission.stream("a") as other, admission.stream("b") as b:
        for stream in (a, other, b):
            admission.begin_call(stream)
        admission.hold(a, 60)
        with pytest.raises(OverloadedError, match="the connection has too much"):
            admission.hold(other, 1)
        admission.hold(b, 40)
        with pytest.raises(OverloadedError, match="the server has too much"):
            admission.hold(b, 41)
        assert admission.counts()["bytes"] == 100
        for stream in (a, other, b):
            admission.end_call(stream)
    assert admission.counts() == {"streams": 0, "calls": 0, "bytes": 0}


def test_reply_is_held_in_place_of_its_request(admission: Admission) -> None:
    with admission.stream("a") as stream:
        admission.begin_call(stream)
        for size in (60, 10, 60, 0, 5):
            admission.hold(stream, size)
            assert admission.counts()["bytes"] == size
        admission.end_call(stream)
        assert admission.counts()["bytes"] == 0


def test_slots_are_limited_by_kind_and_released(admission: Admission) -> None:
    for _ in range(3):
        admission.reserve_slot("calls", 1)
        admission.reserve_slot("waits", 1)
        with pytest.raises(OverloadedError, match="too many calls under way"):
            admission.reserve_slot("calls", 1)
        admission.release_slot("calls")
        admission.release_slot("waits")


def test_unread_reply_makes_a_connection_overdue(admission: Admission, clock: ManualClock) -> None:
    with admission.stream("slow") as slow, admission.stream("busy") as busy:
        admission.begin_call(slow)
        admission.begin_call(busy)
        admission.begin_send(slow)
        clock.advance(999)
        assert admission.overdue() == set()
        clock.advance(1)
        assert admission.overdue() == {"slow"}
        admission.end_call(slow)
        assert admission.overdue() == set()


def test_connection_is_idle_only_when_all_its_streams_are(admission: Admission, clock: ManualClock) -> None:
    with admission.stream("a"), admission.stream("a") as used, admission.stream("b"):
        clock.advance(5_000)
        admission.begin_call(used)
        assert admission.overdue() == {"b"}
        admission.end_call(used)
        assert admission.overdue() == {"b"}
        clock.advance(5_000)
        assert admission.overdue() == {"a", "b"}


def test_closed_admission_refuses_streams_and_waits_for_calls(admission: Admission) -> None:
    with admission.stream("a") as stream:
        admission.begin_call(stream)
        assert not admission.close(wait_ms=0)
        admission.end_call(stream)
        assert admission.close(wait_ms=0)
        with pytest.raises(UnavailableError, match="stopping"):
            admission.stream("b").__enter__()
        with pytest.raises(UnavailableError, match="stopping"):
            admission.reserve_slot("calls", 9)


def test_caller_with_a_name_has_a_share_of_the_streams_over_all_its_connections() -> None:
    admission = Admission(ServerSettings(streams_max=4), ManualClock())
    with admission.stream("a", "ann"), admission.stream("b", "ann"), admission.stream("c", "ann"):
        with (
            pytest.raises(OverloadedError, match="ann has its share of the server's streams"),
            admission.stream("d", "ann"),
        ):
            pass
        with (
            admission.stream("e", "bob"),
            pytest.raises(OverloadedError, match="too many"),
            admission.stream("f", "bob"),
        ):
            pass
    with admission.stream("a", "ann"), admission.stream("a", "ann"), admission.stream("a", "ann"):
        pass


def test_caller_with_a_name_has_a_share_of_the_bytes_in_flight() -> None:
    admission = Admission(ServerSettings(memory_bytes_max=100, peer_memory_bytes_max=100), ManualClock())
    with admission.stream("a", "ann") as a, admission.stream("b", "ann") as b, admission.stream("c", "bob") as c:
        admission.hold(a, 70)
        admission.hold(b, 5)
        with pytest.raises(OverloadedError, match="ann has its share of the bytes in flight"):
            admission.hold(b, 6)
        admission.hold(c, 25)
        for stream in (a, b, c):
            admission.hold(stream, 0)
        # A single call may be larger than the share.
        admission.hold(a, 100)
        admission.hold(a, 0)


def test_caller_with_a_name_waits_for_its_own_share_of_the_memory_for_large_calls() -> None:
    clock = ManualClock()
    admission = Admission(ServerSettings(call_bytes_max=100, wait_ms_max=1, wait_slice_ms=1), clock)

    def waited() -> bool:
        clock.advance(1)
        return False

    with admission.stream("a", "ann") as a, admission.stream("b", "ann") as b, admission.stream("c", "bob") as c:
        admission.reserve_large(a, 70, waited)
        with pytest.raises(OverloadedError, match="ann has its share of the memory"):
            admission.reserve_large(b, 10, waited)
        admission.reserve_large(c, 30, waited)
        with pytest.raises(OverloadedError, match="too many large calls"):
            admission.reserve_large(b, 1, waited)
        admission.release_large(a)
        admission.release_large(c)
        admission.reserve_large(b, 100, waited)


def test_caller_with_a_name_has_a_share_of_the_slots_of_each_kind(admission: Admission) -> None:
    for kind in ("calls", "waits"):
        for _ in range(3):
            admission.reserve_slot(kind, 4, "ann")
        with pytest.raises(OverloadedError, match=f"ann has its share of the {kind} under way"):
            admission.reserve_slot(kind, 4, "ann")
        admission.reserve_slot(kind, 4, "bob")
        admission.release_slot(kind, "ann")
