"""Hostile clients: whatever they send, hold or leave unread, the server lives, answers, and serves the others.

The server runs in a process of its own, so that a crash is seen as one and its memory can be measured.
"""

from __future__ import annotations

import json
import random
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from dataclasses import replace
from typing import Any

import psutil
import pyarrow as pa
import pytest
from pyarrow import flight

import penstock
from penstock.client.remote.node import RemoteNode
from penstock.errors import InvalidError, LimitError, OverloadedError, PenstockError
from penstock.model.node.calls import LookupCall, OpenScan, Operation, PullChanges, WriteCall
from penstock.model.node.owner import AcquireOwner
from penstock.model.place.bucket import TableBucket
from penstock.model.table.spec import make_spec
from penstock.model.table.table import TableInfo
from penstock.testing.server import ServerProcess
from penstock.wire import calls
from penstock.wire.fault import from_flight
from penstock.wire.frame import CALL_STREAM, FrameKind, decode_frame, frame_of
from penstock.wire.piece import Pieces

SEED = 20_240
REQUEST_BYTES_MAX = 4 << 20
ROWS = 20_000
FOREIGN = (pa.ArrowException, OSError, StopIteration)
NOTE = "x" * 100


def rows_of(start: int, end: int) -> pa.RecordBatch:
    return pa.record_batch({"id": list(range(start, end)), "note": [NOTE] * (end - start)})


class Target:
    """A server under attack, and an honest client of it."""

    def __init__(self, process: ServerProcess) -> None:
        self.process = process
        self.honest = RemoteNode(process.url, timeout_ms=30_000)
        self.location = process.url.replace("penstock", "grpc")
        self.info: TableInfo = self.honest.catalog.create_table(
            "orders", make_spec("id BIGINT, note STRING, PRIMARY KEY (id)")
        )
        self.bucket: TableBucket = self.honest.catalog.buckets(self.info.table_id)[0]
        for start in range(0, ROWS, 5_000):
            self.honest.tables.write(self.write_call(rows_of(start, start + 5_000)))

    def write_call(self, batch: pa.RecordBatch) -> WriteCall:
        return WriteCall(self.info.table_id, self.info.schema_id, Operation.UPSERT, batch)

    def serves(self) -> None:
        """Make sure that the very same process still answers, rightly."""
        assert psutil.Process(self.process.pid).status() != psutil.STATUS_ZOMBIE, self.process.log[-2_000:]
        keys = pa.record_batch({"id": [ROWS - 1]})
        found = self.honest.lookup.rows(LookupCall(self.info.table_id, self.info.schema_id, keys))
        assert found.batch.to_pylist() == [{"id": ROWS - 1, "note": NOTE, "_found": True}]

    def rss_mb(self) -> float:
        return float(psutil.Process(self.process.pid).memory_info().rss / (1 << 20))

    def requests(self) -> list[bytes]:
        """Return a good request of every kind that carries something to bend."""
        table: dict[str, Any] = {"table_id": self.info.table_id, "schema_id": self.info.schema_id}
        keys = pa.record_batch({"id": [1, 2, 3]})
        good: list[tuple[Any, dict[str, Any]]] = [
            (calls.WRITE, {"call": self.write_call(rows_of(0, 50))}),
            (calls.LOOKUP, {"call": LookupCall(**table, keys=keys)}),
            (calls.OPEN_SCANNER, {"call": OpenScan(**table, bucket=self.bucket, limit=5, page_bytes=4_096)}),
            (calls.PULL, {"call": PullChanges(**table, positions={self.bucket: (0, 10)}, max_bytes=4_096)}),
            (calls.OPEN_CUT, {"table_id": self.info.table_id, "as_of": {self.bucket: 5}, "buckets": [self.bucket]}),
            (calls.CREATE_TABLE, {"path": "twin", "spec": make_spec("a INT, PRIMARY KEY (a)"), "if_not_exists": True}),
            (calls.READ_TOKEN, {"token": b"\x00" * 40}),
            (calls.STATS, {"table_id": self.info.table_id}),
        ]
        return [call.encode_request(1, arguments).to_pybytes() for call, arguments in good]


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    directory = tmp_path_factory.mktemp("hostile") / "data"
    with ServerProcess(directory, settings={"request.max-bytes": REQUEST_BYTES_MAX, "log.fsync": "never"}) as process:
        target = Target(process)
        with closing(target.honest):
            yield target


@pytest.fixture
def dice() -> random.Random:
    print(f"seed={SEED}")
    return random.Random(SEED)


@pytest.fixture
def bystander(target: Target) -> Iterator[None]:
    """Let an honest client work through the whole test; each of its calls must succeed, in seconds."""
    stop = threading.Event()
    slowest = [0.0]
    failures: list[PenstockError] = []

    def work() -> None:
        keys = pa.record_batch({"id": [7]})
        with closing(RemoteNode(target.process.url, timeout_ms=30_000)) as remote:
            while not stop.wait(0.005):
                start = time.monotonic()
                try:
                    remote.lookup.rows(LookupCall(target.info.table_id, target.info.schema_id, keys))
                except PenstockError as error:
                    failures.append(error)
                slowest[0] = max(slowest[0], time.monotonic() - start)

    thread = threading.Thread(target=work)
    thread.start()
    yield
    stop.set()
    thread.join()
    assert not failures, failures[:3]
    assert slowest[0] < 10, slowest


def bend(dice: random.Random, good: bytes) -> bytes:
    """Return the bytes, damaged in one of the ways in which bytes are."""
    bad = bytearray(good)
    at = dice.randrange(len(bad))
    match dice.randrange(8):
        case 0 | 1:
            for _ in range(dice.randint(1, 8)):
                bad[dice.randrange(len(bad))] = dice.randrange(256)
        case 2:
            bad[at : at + 4] = dice.choice(
                (b"\xff\xff\xff\xff", b"\xff\xff\xff\x7f", b"\x00\x00\x00\x00", b"\x00\x00\x00\x80")
            )
        case 6 | 7:
            # One plausible byte far behind the header: the damage that gets furthest.
            bad[dice.randrange(len(bad) // 2, len(bad))] = dice.randrange(128)
        case 3:
            del bad[at:]
        case 4:
            bad[at:at] = dice.randbytes(dice.randint(1, 64))
        case _:
            bad[at : at + 16] = bad[: dice.randint(0, 64)]
    return bytes(bad)


class RawStream:
    """A stream of calls by hand, opened again when the server has ended it."""

    def __init__(self, location: str) -> None:
        self._client = flight.FlightClient(location, generic_options=[("grpc.use_local_subchannel_pool", 1)])
        self._open()

    def _open(self) -> None:
        descriptor = flight.FlightDescriptor.for_command(CALL_STREAM)
        self.writer, self.reader = self._client.do_exchange(descriptor, flight.FlightCallOptions(timeout=60))

    def ask(self, message: bytes) -> FrameKind | None:
        """Return the kind of the reply, None if the server ended the stream."""
        try:
            self.writer.write_metadata(message)
            return decode_frame(self.reader.read_chunk().app_metadata).kind
        except FOREIGN:
            self.close()
            self._open()
            return None

    def close(self) -> None:
        with suppress(*FOREIGN):
            self.writer.close()


@pytest.mark.usefixtures("bystander")
def test_thousands_of_mutated_messages_are_each_answered(target: Target, dice: random.Random) -> None:
    good = target.requests()
    answers: dict[FrameKind | None, int] = {}
    with closing(RawStream(target.location)) as stream:
        assert [stream.ask(request) for request in good[:3]] == [FrameKind.REPLY] * 3
        for _ in range(4_000):
            kind = stream.ask(bend(dice, dice.choice(good)))
            answers[kind] = answers.get(kind, 0) + 1

    print(answers)
    assert answers[FrameKind.ERROR] > 2_000
    target.serves()


@pytest.mark.usefixtures("bystander")
def test_random_messages_descriptors_and_tickets_are_refused(target: Target, dice: random.Random) -> None:
    client = flight.FlightClient(target.location)
    ticket = target.requests()[2]
    with closing(RawStream(target.location)) as stream:
        assert all(stream.ask(dice.randbytes(dice.randint(1, 300))) is FrameKind.ERROR for _ in range(300))
    refused = 0
    for _ in range(300):
        bad = dice.choice((dice.randbytes(dice.randint(0, 200)), bend(dice, ticket)))
        try:
            client.do_get(flight.Ticket(bad), flight.FlightCallOptions(timeout=30)).read_all()
        except FOREIGN as error:
            refused += isinstance(from_flight(error), PenstockError)
    assert refused > 150
    for command in (b"", b"other", dice.randbytes(1_000)):
        writer, reader = client.do_exchange(flight.FlightDescriptor.for_command(command))
        with pytest.raises(flight.FlightServerError, match="streams of calls only"):
            reader.read_chunk()
        with suppress(*FOREIGN):
            writer.close()
    target.serves()


@pytest.mark.usefixtures("bystander")
def test_calls_that_are_not_offered_are_refused(target: Target) -> None:
    client = flight.FlightClient(target.location)
    descriptor = flight.FlightDescriptor.for_path("orders")
    options = flight.FlightCallOptions(timeout=30)

    def put() -> None:
        writer, _ = client.do_put(descriptor, rows_of(0, 1).schema, options)
        with suppress(*FOREIGN):
            writer.write_batch(rows_of(0, 1))
        writer.close()

    attempts: list[Callable[[], object]] = [
        put,
        lambda: list(client.do_action(flight.Action("drop", b"x" * 1_000), options)),
        lambda: client.get_flight_info(descriptor, options),
        lambda: client.get_schema(descriptor, options),
        lambda: list(client.list_flights(options=options)),
        lambda: client.list_actions(options),
    ]
    for attempt in attempts:
        with pytest.raises(FOREIGN, match="unsupported: the server answers streams of calls") as refused:
            attempt()
        assert "Traceback" not in str(refused.value)
    target.serves()


@pytest.mark.usefixtures("bystander")
def test_data_instead_of_a_frame_is_refused(target: Target) -> None:
    client = flight.FlightClient(target.location)
    for _ in range(50):
        writer, reader = client.do_exchange(flight.FlightDescriptor.for_command(CALL_STREAM))
        writer.begin(rows_of(0, 1).schema)
        writer.write_with_metadata(rows_of(0, 100), b"metadata")
        with pytest.raises(flight.FlightServerError, match="no frame"):
            reader.read_chunk()
        with suppress(*FOREIGN):
            writer.close()
    target.serves()


@pytest.mark.usefixtures("bystander")
def test_batches_of_wrong_schemas_change_nothing(target: Target, dice: random.Random) -> None:
    types = [pa.int8(), pa.float64(), pa.bool_(), pa.list_(pa.int64()), pa.struct([("a", pa.int64())]), pa.date32()]
    before = target.honest.changes.offsets(target.info.table_id)
    for _ in range(200):
        names = dice.sample(["id", "note", "other", "", "_op", "\u202e", "n" * 300], dice.randint(1, 5))
        schema = pa.schema([(name, dice.choice(types)) for name in names])
        if {"id": pa.int8(), "note": pa.string()} == dict(zip(schema.names, schema.types, strict=True)):
            continue
        batch = pa.RecordBatch.from_pylist([dict.fromkeys(names)] * dice.randint(1, 3), schema=schema)
        with pytest.raises(InvalidError):
            target.honest.tables.write(target.write_call(batch))
    assert target.honest.changes.offsets(target.info.table_id) == before
    target.serves()


@pytest.mark.usefixtures("bystander")
def test_oversized_bodies_are_refused_and_nothing_of_them_is_kept(target: Target) -> None:
    batch = pa.record_batch({"id": list(range(100_000)), "note": ["y" * 300] * 100_000})
    assert batch.nbytes > 7 * REQUEST_BYTES_MAX
    target.serves()
    before_mb = target.rss_mb()

    message = calls.WRITE.encode_request(1, {"call": target.write_call(batch)}).to_pybytes()
    with closing(RawStream(target.location)) as stream:
        assert [stream.ask(message) for _ in range(12)] == [FrameKind.ERROR] * 12

    target.serves()
    assert target.rss_mb() < before_mb + 300


@pytest.mark.usefixtures("bystander")
def test_requests_in_pieces_that_are_never_finished_cost_nothing(target: Target, dice: random.Random) -> None:
    batch = pa.record_batch({"id": list(range(100_000)), "note": ["y" * 300] * 100_000})
    draft = calls.WRITE.draft_request(1, {"call": target.write_call(batch)})
    pieces = [piece.to_pybytes() for piece, _ in Pieces(1, draft, 100_000)]
    before_mb = target.rss_mb()

    for _ in range(40):
        with closing(RawStream(target.location)) as stream:
            assert [stream.ask(piece) for piece in pieces[: dice.randint(1, 20)]].count(FrameKind.ERROR) == 0
            assert stream.ask(dice.choice(pieces[100:])) is FrameKind.ERROR
    with closing(RawStream(target.location)) as stream:
        for _ in range(300):
            stream.ask(bend(dice, dice.choice(pieces[:3])))

    target.serves()
    assert target.rss_mb() < before_mb + 300


@pytest.mark.usefixtures("bystander")
def test_random_bytes_at_the_port_are_hung_up_on(target: Target, dice: random.Random) -> None:
    host, port = "127.0.0.1", int(target.location.rpartition(":")[2])
    preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
    for number in range(150):
        with socket.create_connection((host, port), timeout=10) as connection, suppress(OSError):
            connection.sendall((preface if number % 2 else b"") + dice.randbytes(dice.randint(1, 2_000)))
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(1 << 16):
                pass
    target.serves()


class Recorder:
    """Stands between a client and the server and notes what the client sends."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.sent = bytearray()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        client, _ = self._listener.accept()
        server = socket.create_connection(("127.0.0.1", self._port))
        back = threading.Thread(target=self._copy, args=(server, client, bytearray()))
        back.start()
        self._copy(client, server, self.sent)
        back.join()
        client.close()
        server.close()

    @staticmethod
    def _copy(source: socket.socket, drain: socket.socket, note: bytearray) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 16):
                note += data
                drain.sendall(data)
        with suppress(OSError):
            drain.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        self._thread.join()
        self._listener.close()


def record_session(target: Target, use: Callable[[flight.FlightClient], None]) -> bytes:
    port = int(target.location.rpartition(":")[2])
    with closing(Recorder(port)) as recorder, flight.FlightClient(f"grpc://127.0.0.1:{recorder.port}") as client:
        use(client)
    return bytes(recorder.sent)


@pytest.mark.usefixtures("bystander")
def test_mutated_recordings_of_whole_connections_break_nothing(target: Target, dice: random.Random) -> None:
    def frames(client: flight.FlightClient) -> None:
        writer, reader = client.do_exchange(flight.FlightDescriptor.for_command(CALL_STREAM))
        for request in target.requests()[:3]:
            writer.write_metadata(request)
            reader.read_chunk()
        writer.close()

    def data(client: flight.FlightClient) -> None:
        writer, reader = client.do_exchange(flight.FlightDescriptor.for_command(CALL_STREAM))
        writer.begin(rows_of(0, 1).schema)
        with suppress(*FOREIGN):
            writer.write_batch(rows_of(0, 50))
            reader.read_chunk()
        with suppress(*FOREIGN):
            writer.close()

    recordings = [record_session(target, use) for use in (frames, data)]
    port = int(target.location.rpartition(":")[2])
    for number in range(400):
        replay = bytearray(recordings[number % 2])
        for _ in range(dice.randint(1, 4)):
            # Beyond the preface and the settings, where the messages are.
            replay[dice.randrange(100, len(replay))] = dice.randrange(256)
        with socket.create_connection(("127.0.0.1", port), timeout=10) as connection, suppress(OSError):
            connection.sendall(replay)
            # Until the server hangs up or has nothing more to say: hanging up first would spare it the work.
            connection.settimeout(0.02)
            while connection.recv(1 << 16):
                pass
    target.serves()


@pytest.mark.usefixtures("bystander")
def test_clients_that_stop_reading_cost_a_bounded_amount(target: Target) -> None:
    target.serves()
    before_mb = target.rss_mb()
    page = PullChanges(target.info.table_id, target.info.schema_id, {target.bucket: (0, ROWS)}, max_bytes=16 << 20)
    request = calls.PULL.encode_request(1, {"call": page})
    with ExitStack() as stack:
        for _ in range(20):
            stream = RawStream(target.location)
            stack.callback(stream.close)
            stack.callback(stream.reader.cancel)
            for _ in range(50):  # fifty pages asked for, none read
                stream.writer.write_metadata(request)
        for _ in range(20):
            target.serves()
        grown_mb = target.rss_mb() - before_mb
        print(f"grown by {grown_mb:.0f} MB")
        assert grown_mb < 500
    target.serves()


@pytest.mark.usefixtures("bystander")
def test_streams_held_open_are_capped_for_one_connection(target: Target) -> None:
    client = flight.FlightClient(target.location, generic_options=[("grpc.use_local_subchannel_pool", 1)])
    request = target.requests()[-1]
    refused = 0
    held = []
    for _ in range(300):
        writer, reader = client.do_exchange(flight.FlightDescriptor.for_command(CALL_STREAM))
        held.append(writer)
        try:
            writer.write_metadata(request)
            reader.read_chunk()
        except FOREIGN as error:
            refused += isinstance(from_flight(error), OverloadedError)
    assert refused == 300 - 256
    target.serves()
    for writer in held:
        with suppress(*FOREIGN):
            writer.close()
    target.serves()


def leaves(said: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the way to every value in what a request says."""
    yield path
    if isinstance(said, dict | list):
        for key in said if isinstance(said, dict) else range(len(said)):
            yield from leaves(said[key], (*path, key))


def put_at(said: Any, path: tuple[Any, ...], value: object) -> Any:
    """Return what a request says with another value at one place."""
    if not path:
        return value
    changed = said.copy()
    changed[path[0]] = put_at(said[path[0]], path[1:], value)
    return changed


@pytest.mark.usefixtures("bystander")
def test_any_value_anywhere_in_a_request_is_answered_in_a_few_words(target: Target) -> None:
    numbers = (-1, 1 << 31, 1 << 62, (1 << 63) - 1, 1 << 63, -(1 << 63), 10**30, 1.5, float("nan"), True)
    texts = ("", "a\x00b", "\x1b[31m", "\ud800", "\udcff", "../..", "\u202e", "x" * (1 << 20), "x" * ((1 << 20) + 1))
    others: tuple[object, ...] = (None, [], {}, [[]], [None] * 10)
    longest = 0
    with closing(RawStream(target.location)) as stream:
        for request in target.requests():
            frame = decode_frame(pa.py_buffer(request))
            said = frame.header["args"]
            for path in leaves(said):
                for value in (*numbers, *texts, *others):
                    header = {**frame.header, "args": put_at(said, path, value)}
                    # Without its batch: what the header says is looked at first.
                    stream.writer.write_metadata(frame_of(frame.kind, json.dumps(header).encode()))
                    answer = stream.reader.read_chunk().app_metadata
                    found = decode_frame(answer)
                    assert found.header.get("error", {}).get("code") != "internal", (header["call"], path, found.header)
                    if found.kind is FrameKind.ERROR:
                        longest = max(longest, answer.size)
    # A text may be named in an error; of a megabyte that was sent a part is.
    assert longest < 100_000
    target.serves()


@pytest.mark.parametrize("kind", ["owner", "page", "scan"])
def test_token_with_any_bit_changed_is_refused_as_invalid(target: Target, kind: str) -> None:
    with penstock.connect(target.process.url) as connection, ExitStack() as stack:
        table = connection.table("orders")
        use: Callable[[bytes], object] = connection.resume_scan
        if kind == "owner":
            owner = table.acquire_owner("bits")
            stack.callback(owner.release)
            token = owner.token()
            use = lambda changed: table.upsert([{"id": 1, "note": NOTE}], owner=changed)  # noqa: E731
        elif kind == "page":
            token = stack.enter_context(connection.scanner(table, 0, page_bytes=1024)).open().resume_token
        else:
            scan = stack.enter_context(table.scan())
            next(scan)
            token = scan.resume_token
        for bit in range(8 * len(token)):
            changed = bytearray(token)
            changed[bit // 8] ^= 1 << bit % 8
            with pytest.raises(InvalidError):
                use(bytes(changed))
    target.serves()


def test_names_of_readers_owners_and_buckets_are_short(target: Target) -> None:
    # The server keeps them: thousands of readers of a megabyte each were gigabytes.
    long = "x" * 5_000
    pull = PullChanges(target.info.table_id, target.info.schema_id, {target.bucket: (0, 1)}, reader_id=long)
    wrong = {TableBucket(long, None, 0): (0, 1)}
    attempts: list[Callable[[], object]] = [
        lambda: target.honest.changes.pull(pull),
        lambda: target.honest.changes.pull(replace(pull, reader_id="r", positions=wrong)),
        lambda: target.honest.owners.acquire(AcquireOwner(target.info.table_id, "o", incarnation=long)),
        lambda: target.honest.owners.acquire(AcquireOwner(target.info.table_id, "o", holder=long)),
    ]
    for attempt in attempts:
        with pytest.raises(LimitError, match="a name in the message is too long"):
            attempt()


def test_a_hundred_thousand_unknown_buckets_are_refused_in_a_moment(target: Target) -> None:
    many = {TableBucket("default.orders", f"day={number}", 0): (0, None) for number in range(100_000)}
    with pytest.raises(PenstockError) as refused:
        target.honest.changes.pull(PullChanges(target.info.table_id, target.info.schema_id, many))
    assert not refused.value.retriable
    with pytest.raises(PenstockError):
        target.honest.scan.open_cut(target.info.table_id, as_of=dict.fromkeys(many, 0))
    target.serves()


def test_server_dies_of_nothing_but_its_own_end(target: Target) -> None:
    target.serves()
    assert "Traceback" not in target.process.log, target.process.log[-3_000:]
