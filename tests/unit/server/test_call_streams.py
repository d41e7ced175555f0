"""Streams of a connection: which is lent for which call, and which are kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa
import pytest
from pyarrow import flight

from penstock.client.remote.call_stream import CallStream
from penstock.client.remote.call_streams import CallStreams
from penstock.client.remote.idle_streams import IdleStreams
from penstock.errors import ClosedError
from penstock.server.server import Server
from penstock.wire.calls import LIST_DATABASES

Start = Callable[..., Server]
REQUEST: pa.Buffer = LIST_DATABASES.encode_request(1, {})


class Time:
    """A monotonic clock that a test moves."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def idle(time: Time) -> IdleStreams:
    return IdleStreams(streams_max=4, seconds_max=60, monotonic=time)


@pytest.fixture
def streams(start: Start, idle: IdleStreams) -> Iterator[CallStreams]:
    port = start().port
    made = CallStreams(lambda: flight.FlightClient(f"grpc://127.0.0.1:{port}"), flight.FlightCallOptions(), idle=idle)
    yield made
    made.close()


def ask(streams: CallStreams, affinity: object = None) -> CallStream:
    with streams.lend(affinity) as stream:
        answer = stream.ask(REQUEST, timeout_ms=10_000)
    assert LIST_DATABASES.decode_reply(1, answer.frame) == ["default"]
    return stream


def affinities(idle: IdleStreams) -> list[object]:
    return [stream.affinity for stream in idle]


def test_each_affinity_has_streams_of_its_own_and_other_calls_take_any(streams: CallStreams, idle: IdleStreams) -> None:
    for affinity in ("a", "b", "a", None, "b", None):
        ask(streams, affinity)

    assert affinities(idle) == ["a", "b"]


def test_stream_that_served_no_rows_yet_is_taken_for_an_affinity(streams: CallStreams, idle: IdleStreams) -> None:
    ask(streams)
    ask(streams, "a")

    assert affinities(idle) == ["a"]


def test_the_stream_that_was_not_used_for_longest_is_ended_when_there_are_too_many(
    streams: CallStreams, idle: IdleStreams
) -> None:
    for number in range(7):
        ask(streams, number)

    assert affinities(idle) == [3, 4, 5, 6]


def test_streams_that_were_not_used_for_a_while_are_ended(streams: CallStreams, idle: IdleStreams, time: Time) -> None:
    ask(streams, "a")
    time.seconds = 50
    ask(streams, "b")
    time.seconds = 100

    ask(streams, "b")

    assert affinities(idle) == ["b"]


def test_stream_that_is_given_back_before_its_answer_came_is_broken_and_takes_the_idle_ones_with_it(
    streams: CallStreams, idle: IdleStreams
) -> None:
    first, other = streams.lend(), streams.lend()
    other.give_back()
    first.send(REQUEST, timeout_ms=10_000)

    first.give_back()

    assert first.broken
    assert list(idle) == []
    assert ask(streams) not in (first, other)


def test_stream_whose_call_ended_by_an_error_is_broken(streams: CallStreams, idle: IdleStreams) -> None:
    with pytest.raises(KeyError), streams.lend() as stream:
        raise KeyError

    assert stream.broken
    assert list(idle) == []


def test_stream_that_is_given_back_after_its_connection_broke_is_not_kept(
    streams: CallStreams, idle: IdleStreams
) -> None:
    broken, other = streams.lend(), streams.lend()
    broken.send(REQUEST, timeout_ms=10_000)
    broken.give_back()

    other.give_back()

    assert list(idle) == []


def test_closed_connection_lends_nothing_and_keeps_nothing(streams: CallStreams, idle: IdleStreams) -> None:
    lent = streams.lend()
    streams.close()
    lent.give_back()

    with pytest.raises(ClosedError, match="connect again"):
        streams.lend()
    assert list(idle) == []
