"""Requests in pieces at a server: what it holds of them, and for how long."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import flight
from tests.kit.waiting import wait_until

from penstock.client.remote.node import RemoteNode
from penstock.errors import InvalidError, LimitError, PenstockError, PermissionDeniedError, UnavailableError
from penstock.model.node.calls import LookupCall
from penstock.server.access.tokens import hash_token, make_token
from penstock.server.server import Server
from penstock.server.settings import ServerSettings
from penstock.wire.calls import LIST_DATABASES, WRITE
from penstock.wire.fault import read_fault
from penstock.wire.frame import CALL_STREAM, FrameKind, decode_frame
from penstock.wire.piece import Pieces

Start = Callable[..., Server]
Reach = Callable[..., RemoteNode]
Make = Callable[..., Any]
SMALL = ServerSettings(request_bytes_max=4_096, call_bytes_max=200_000, wait_slice_ms=10)


def held(server: Server) -> int:
    return server.admission.counts()["bytes"]


class Raw:
    """A stream of calls, message by message."""

    def __init__(self, server: Server) -> None:
        self.client = flight.FlightClient(server.url.replace("penstock", "grpc"))
        self.writer, self.reader = self.client.do_exchange(flight.FlightDescriptor.for_command(CALL_STREAM))

    def ask(self, message: pa.Buffer) -> PenstockError | None:
        self.writer.write_metadata(message)
        frame = decode_frame(self.reader.read_chunk().app_metadata)
        return read_fault(frame.header["error"]) if frame.kind is FrameKind.ERROR else None

    def close(self) -> None:
        self.reader.cancel()
        self.client.close()


def pieces_of(write: Any, call_id: int = 1) -> list[pa.Buffer]:
    return [piece for piece, _ in Pieces(call_id, WRITE.draft_request(call_id, {"call": write}), 4_096)]


def test_large_calls_of_all_kinds_arrive_whole(node: Any, start: Start, reach: Reach, make_write: Make) -> None:
    server = start(SMALL)
    remote = reach(server)
    keys = pa.record_batch({"id": list(range(5_000))})

    assert remote.tables.write(make_write(5_000)).rows == 5_000
    assert node.batches == [make_write(5_000).batch]
    assert remote.lookup.rows(LookupCall(1, 0, keys)).batch["id"] == keys["id"]
    with pytest.raises(InvalidError, match="a database name"):
        remote.catalog.create_database("x" * 10_000)
    wait_until(lambda: held(server) == 0)


def test_large_calls_need_a_token_and_travel_by_tls(
    node: Any, start: Start, reach: Reach, make_write: Make, certificates: Path
) -> None:
    token = make_token()
    (certificates / "tokens").write_text(f"ann:{hash_token(token)}\n")
    tls = {"tls_cert": certificates / "server.pem", "tls_key": certificates / "server.key"}
    server = start(SMALL, token_file=certificates / "tokens", **tls)
    trusted = {"ca": certificates / "ca.pem"}

    assert reach(server, token=token, tls=trusted).tables.write(make_write(5_000)).rows == 5_000
    with pytest.raises(PermissionDeniedError):
        reach(server, token=make_token(), tls=trusted).tables.write(make_write(5_000))
    assert node.batches == [make_write(5_000).batch]
    wait_until(lambda: held(server) == 0)


def test_pieces_of_a_client_that_went_away_are_let_go_at_once(node: Any, start: Start, make_write: Make) -> None:
    server = start(SMALL)
    raw = Raw(server)
    first, second, *_ = pieces_of(make_write(5_000))
    assert raw.ask(first) is None
    assert raw.ask(second) is None
    assert held(server) > 60_000

    raw.close()
    wait_until(lambda: held(server) == 0)
    assert node.batches == []


def test_another_call_on_the_stream_ends_a_request_in_pieces(node: Any, start: Start, make_write: Make) -> None:
    server = start(SMALL)
    raw = Raw(server)
    first, second, third, *rest = pieces_of(make_write(5_000))
    for piece in (first, second):
        assert raw.ask(piece) is None
    assert raw.ask(LIST_DATABASES.encode_request(2, {})) is None
    wait_until(lambda: held(server) == 0)
    assert isinstance(raw.ask(third), InvalidError)

    for piece in (first, second, first, second, third, *rest):
        assert raw.ask(piece) is None
    assert node.batches == [make_write(5_000).batch]
    raw.close()


def test_too_large_a_call_is_refused_before_it_is_sent(start: Start) -> None:
    server = start(SMALL)
    raw = Raw(server)
    refusal = raw.ask(next(iter(Pieces(1, Huge(), 4_096)))[0])  # type: ignore[arg-type]

    assert isinstance(refusal, LimitError)
    assert (refusal.facts["most"], held(server)) == (200_000, 0)
    raw.close()


class Huge:
    """A request that is far larger than memory."""

    size = 1 << 50


def test_large_calls_wait_for_room_and_fail_when_the_server_stops(node: Any, start: Start, make_write: Make) -> None:
    server = start(SMALL)
    one, other = Raw(server), Raw(server)
    first, *rest = pieces_of(make_write(8_000))
    assert one.ask(first) is None
    wait_until(lambda: server.admission.counts()["calls"] == 0)
    other.writer.write_metadata(first)
    wait_until(lambda: server.admission.counts()["calls"] == 1)
    for piece in rest:
        assert one.ask(piece) is None
    assert decode_frame(other.reader.read_chunk().app_metadata).kind is FrameKind.REPLY

    wait_until(lambda: server.admission.counts()["calls"] == 0)
    one.writer.write_metadata(first)
    wait_until(lambda: server.admission.counts()["calls"] == 1)
    closing = threading.Thread(target=server.close)
    closing.start()
    answer = decode_frame(one.reader.read_chunk().app_metadata)
    assert isinstance(read_fault(answer.header["error"]), UnavailableError)
    closing.join()
    one.close()
    other.close()


def test_client_learns_how_much_a_server_takes_once(start: Start, reach: Reach, make_write: Make) -> None:
    remote = reach(start(SMALL))
    large = WRITE.draft_request(1, {"call": make_write(5_000)})
    assert remote.calls._requests.travels_at_once(large)
    remote.tables.write(make_write(5_000))

    assert not remote.calls._requests.travels_at_once(large)
    assert remote.calls._requests.travels_at_once(WRITE.draft_request(1, {"call": make_write(10)}))


@pytest.mark.parametrize("rows", [1, 5_000])
def test_writes_sent_ahead_go_by_themselves_where_they_need_pieces(
    start: Start, reach: Reach, make_write: Make, rows: int
) -> None:
    remote = reach(start(SMALL))
    remote.tables.write(make_write(5_000))
    writes = remote.tables.write_stream()
    if rows == 1:
        writes.send(make_write(rows))
        assert writes.result().rows == rows
    else:
        with pytest.raises(LimitError, match="by itself"):
            writes.send(make_write(rows))
    writes.close()
    assert remote.tables.write(make_write(rows)).rows == rows
