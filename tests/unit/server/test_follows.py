"""Calls that follow another on their stream are done only if that one succeeded."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import flight

from penstock.client.remote.node import RemoteNode
from penstock.errors import AlreadyExistsError, InvalidError, PenstockError, UnavailableError
from penstock.server.server import Server
from penstock.wire.calls import CREATE_DATABASE, LIST_DATABASES
from penstock.wire.frame import CALL_STREAM, PROTOCOL_VERSION

Start = Callable[..., Server]
Reach = Callable[..., RemoteNode]
Make = Callable[..., Any]


def answers(server: Server, *requests: pa.Buffer | bytes) -> list[PenstockError | None]:
    """Send all requests at once, and return what became of each."""
    outcomes: list[PenstockError | None] = []
    with flight.FlightClient(f"grpc://127.0.0.1:{server.port}") as client:
        writer, reader = client.do_exchange(flight.FlightDescriptor.for_command(CALL_STREAM))
        for request in requests:
            writer.write_metadata(request)
        for number, _ in enumerate(requests):
            try:
                CREATE_DATABASE.decode_reply(number, reader.read_chunk().app_metadata)
                outcomes.append(None)
            except PenstockError as error:
                outcomes.append(error)
        writer.close()
    return outcomes


def create(number: int, name: str, *, follows: bool) -> pa.Buffer:
    return CREATE_DATABASE.encode_request(number, {"name": name, "if_not_exists": False}, follows=follows)


def test_what_follows_a_failure_is_not_done_however_much_there_is(node: Any, start: Start) -> None:
    outcomes = answers(
        start(),
        create(0, "a", follows=False),
        create(1, "default", follows=True),
        create(2, "b", follows=True),
        create(3, "c", follows=True),
        create(4, "d", follows=False),
        create(5, "e", follows=True),
    )

    assert [type(outcome) for outcome in outcomes] == [
        type(None),
        AlreadyExistsError,
        UnavailableError,
        UnavailableError,
        type(None),
        type(None),
    ]
    assert node.databases == ["a", "d", "default", "e"]


@pytest.mark.parametrize("word", [1, "yes", None, []])
def test_word_that_is_neither_yes_nor_no_is_refused(node: Any, start: Start, word: object) -> None:
    header = json.dumps({"id": 0, "call": LIST_DATABASES.name, "args": {}, "follows": word}).encode()
    (outcome,) = answers(start(), struct.pack("<2sBBI", b"PS", PROTOCOL_VERSION, 0, len(header)) + header)

    assert isinstance(outcome, InvalidError)
    assert node.principals == []


def test_writes_sent_ahead_are_answered_in_order(node: Any, start: Start, reach: Reach, make_write: Make) -> None:
    remote = reach(start())
    writes = remote.tables.write_stream()
    writes.send(make_write(1, 0))
    writes.send(make_write(2, 1))
    first = writes.result()
    writes.send(make_write(3, 2))

    assert [first.rows, writes.result().rows, writes.result().rows] == [1, 2, 3]
    writes.close()
    writes.close()
    assert [batch.num_rows for batch in node.batches] == [1, 2, 3]
    assert remote.catalog.list_databases() == ["default"]


def test_stream_that_owes_answers_is_given_up_and_the_connection_goes_on(
    start: Start, reach: Reach, make_write: Make
) -> None:
    remote = reach(start())
    writes = remote.tables.write_stream()
    writes.send(make_write(1, 0))

    writes.close()

    assert remote.catalog.list_databases() == ["default"]
