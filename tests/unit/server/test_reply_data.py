"""Replies over a real stream: batches as data where they fit, as frames where they do not."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import flight

from penstock.client.remote.node import RemoteNode
from penstock.errors import InvalidError, LimitError, UnsupportedError
from penstock.model.node.calls import LookupCall, OpenScan, PullChanges
from penstock.model.place.bucket import TableBucket
from penstock.server.server import Server
from penstock.server.settings import ServerSettings
from penstock.wire.calls import LIST_DATABASES, LOOKUP, NEXT_PAGE, OPEN_SCANNER
from penstock.wire.fault import read_fault
from penstock.wire.frame import CALL_STREAM, PROTOCOL_VERSION, FrameKind, decode_frame
from penstock.wire.reply import is_last

BUCKET = TableBucket("default.orders", None, 0)
OPEN = OpenScan(1, 0, BUCKET)
Start = Callable[..., Server]
Reach = Callable[..., RemoteNode]


class RawStream:
    """One stream of calls, message by message."""

    def __init__(self, server: Server) -> None:
        self.client = flight.FlightClient(f"grpc://127.0.0.1:{server.port}")
        self.writer, self.reader = self.client.do_exchange(flight.FlightDescriptor.for_command(CALL_STREAM))

    def ask(self, message: pa.Buffer | bytes) -> list[flight.FlightStreamChunk]:
        self.writer.write_metadata(message)
        chunks = [self.reader.read_chunk()]
        while not is_last(chunks[-1].app_metadata):
            chunks.append(self.reader.read_chunk())
        return chunks

    def close(self) -> None:
        self.writer.close()
        self.client.close()


@pytest.fixture
def raw(start: Start) -> Iterator[RawStream]:
    stream = RawStream(start())
    yield stream
    stream.close()


def large(rows: int = 50_000) -> pa.RecordBatch:
    return pa.record_batch({"id": list(range(rows)), "note": ["x" * 9] * rows})


def test_rows_of_pages_travel_as_data_and_other_replies_between_them_as_frames(node: Any, raw: RawStream) -> None:
    batches = [large(), large(1)]
    node.script(batches)

    first = raw.ask(OPEN_SCANNER.encode_request(1, {"call": OPEN}))
    names = raw.ask(LIST_DATABASES.encode_request(2, {}))
    second = raw.ask(NEXT_PAGE.encode_request(3, {"scanner_id": "s-1", "call_seq_id": 1}))

    assert [chunk.data for chunk in (*first, *names, *second)] == [batches[0], None, batches[1]]
    assert LIST_DATABASES.decode_reply(2, names[0].app_metadata) == ["default"]
    assert NEXT_PAGE.decode_reply(3, second[0].app_metadata, [second[0].data]).batch == batches[1]


def test_rows_of_another_schema_come_as_a_frame_on_the_same_stream(node: Any, raw: RawStream) -> None:
    node.script([large()])
    keys = pa.record_batch({"id": [2, 3]})

    raw.ask(OPEN_SCANNER.encode_request(1, {"call": OPEN}))
    (answer,) = raw.ask(LOOKUP.encode_request(2, {"call": LookupCall(1, 0, keys)}))
    (page,) = raw.ask(NEXT_PAGE.encode_request(3, {"scanner_id": "s-1", "call_seq_id": 0}))

    assert answer.data is None
    assert LOOKUP.decode_reply(2, answer.app_metadata).batch["id"].to_pylist() == [2, 3]
    assert page.data == large()


def test_large_batches_arrive_with_their_columns_at_words(node: Any, raw: RawStream) -> None:
    node.script([large(20_000 + n) for n in range(20)])
    raw.ask(OPEN_SCANNER.encode_request(1, {"call": OPEN}))

    for number in range(20):
        (chunk,) = raw.ask(NEXT_PAGE.encode_request(7, {"scanner_id": "s-1", "call_seq_id": number}))
        buffers = [buffer for column in chunk.data.columns for buffer in column.buffers() if buffer is not None]
        assert [buffer.address % 8 for buffer in buffers] == [0] * len(buffers)


def test_calls_on_rows_of_several_kinds_are_answered_over_one_connection(node: Any, start: Start, reach: Reach) -> None:
    batches = [large(), large(5)]
    node.script(batches)
    remote = reach(start())

    for _ in range(3):
        page = remote.scan.open(OPEN)
        again = remote.scan.next_page("s-1", 1)
        found = remote.lookup.rows(LookupCall(1, 0, pa.record_batch({"id": [2]})))
        changes = remote.changes.pull(PullChanges(1, 0, {BUCKET: (0, None)}))

        assert [page.batch, again.batch] == batches
        assert found.batch["id"].to_pylist() == [2]
        assert [change.batch for change in changes] == batches[:1]


def test_reply_that_is_too_large_is_told_and_the_stream_goes_on(node: Any, start: Start, reach: Reach) -> None:
    batches = [large(), large(5)]
    node.script(batches)
    remote = reach(start(ServerSettings(reply_bytes_max=1 << 16)))

    with pytest.raises(LimitError, match="ask for less"):
        remote.scan.open(OPEN)
    assert remote.scan.next_page("s-1", 1).batch == batches[1]


@pytest.mark.parametrize("version", [PROTOCOL_VERSION - 1, PROTOCOL_VERSION + 1])
def test_client_of_another_protocol_is_told_so(version: int, raw: RawStream) -> None:
    request = bytearray(LIST_DATABASES.encode_request(1, {}).to_pybytes())
    request[2] = version

    (answer,) = raw.ask(bytes(request))
    frame = decode_frame(answer.app_metadata)
    error = read_fault(frame.header["error"])

    assert frame.kind is FrameKind.ERROR
    assert isinstance(error, UnsupportedError)
    assert error.facts == {"protocol": version, "known": PROTOCOL_VERSION}
    assert LIST_DATABASES.decode_reply(2, raw.ask(LIST_DATABASES.encode_request(2, {}))[0].app_metadata) == ["default"]


class OddServer(flight.FlightServerBase):  # type: ignore[misc]
    """Answers every message with what it was given, as a server should not."""

    def __init__(self, messages: list[tuple[pa.RecordBatch | None, bytes | None]]) -> None:
        super().__init__("grpc://127.0.0.1:0")
        self.messages = messages

    def do_exchange(self, context: Any, descriptor: Any, reader: Any, writer: Any) -> None:
        begun = False
        for _ in reader:
            for batch, metadata in self.messages:
                if batch is None:
                    writer.write_metadata(metadata)
                    continue
                if not begun:
                    writer.begin(batch.schema)
                    begun = True
                writer.write_with_metadata(batch, metadata) if metadata is not None else writer.write_batch(batch)


@pytest.mark.parametrize(
    "messages",
    [
        [(large(3), b"junk that is no frame")],
        [(large(3), struct.pack("<2sBBI", b"PS", 2, 1, 2) + b"{}")],
        [(large(3), b" "), (None, LIST_DATABASES.encode_reply(1, ["shop"]).frame().to_pybytes())],
    ],
)
def test_client_refuses_data_that_no_header_counts(messages: list[tuple[pa.RecordBatch | None, bytes | None]]) -> None:
    with OddServer(messages) as server:
        remote = RemoteNode(f"penstock://127.0.0.1:{server.port}")
        with pytest.raises(InvalidError):
            remote.catalog.list_databases()
        remote.close()
