"""Streams of a connection: which is lent to whom, and which are kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa
import pytest
from pyarrow import flight

from penstock.client.remote.call_streams import IDLE_STREAMS_MAX, CallStreams
from penstock.server.server import Server
from penstock.wire.calls import LIST_DATABASES

Start = Callable[..., Server]


@pytest.fixture
def streams(start: Start) -> Iterator[CallStreams]:
    port = start().port
    made = CallStreams(lambda: flight.FlightClient(f"grpc://127.0.0.1:{port}"), flight.FlightCallOptions())
    yield made
    made.close()


def ask(streams: CallStreams, subject: object = None) -> None:
    request: pa.Buffer = LIST_DATABASES.encode_request(1, {})
    answer = streams.ask(request, rows=0, timeout_ms=10_000, subject=subject)
    assert LIST_DATABASES.decode_reply(1, answer.frame) == ["default"]


def test_each_subject_has_streams_of_its_own_and_other_calls_take_any(streams: CallStreams) -> None:
    for subject in ("a", "b", "a", None, "b", None):
        ask(streams, subject)

    assert sorted(str(stream.subject) for stream in streams._idle) == ["a", "b"]


def test_stream_that_served_no_rows_yet_is_taken_for_a_subject(streams: CallStreams) -> None:
    ask(streams)
    ask(streams, "a")

    assert [stream.subject for stream in streams._idle] == ["a"]


def test_the_stream_that_was_not_used_for_longest_is_ended_when_there_are_too_many(
    streams: CallStreams,
) -> None:
    for number in range(IDLE_STREAMS_MAX + 3):
        ask(streams, number)

    assert [stream.subject for stream in streams._idle] == list(range(3, IDLE_STREAMS_MAX + 3))


def test_streams_that_nobody_used_for_a_while_are_ended(streams: CallStreams) -> None:
    ask(streams, "a")
    ask(streams, "b")
    streams._idle[0].used_at -= 3_600

    ask(streams, "b")

    assert [stream.subject for stream in streams._idle] == ["b"]
