"""A server among misbehaving clients, for as long as PENSTOCK_SOAK_SECONDS says: the well-behaved ones get every row.

Kept out of the usual run: `PENSTOCK_SOAK_SECONDS=600 pytest -m slow tests/process/test_hostile_soak.py -s`.
"""

from __future__ import annotations

import os
import random
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path

import psutil
import pyarrow as pa
import pytest
from pyarrow import flight
from tests.kit.faulty_node import without_patience

import penstock
from penstock.client.remote.node import RemoteNode
from penstock.errors import PenstockError
from penstock.model.node.calls import OpenScan, PullChanges
from penstock.server.access.tokens import hash_token, make_token
from penstock.testing.server import ServerProcess
from penstock.wire import calls
from penstock.wire.frame import CALL_STREAM

SECONDS = float(os.environ.get("PENSTOCK_SOAK_SECONDS", "60"))
SEED = 77
ROWS = 5_000
GROWTH_MB_MAX = 600
FOREIGN = (pa.ArrowException, OSError, StopIteration)


class Crowd:
    """Clients of one server: what the bad ones do, what the good ones must get."""

    def __init__(self, process: ServerProcess, tokens: dict[str, str]) -> None:
        self.process = process
        self.tokens = tokens
        self.done = threading.Event()
        self.counts: Counter[str] = Counter()
        self.wrong: list[str] = []
        self.port = int(process.url.rpartition(":")[2])
        with penstock.connect(process.url, token=tokens["good"]) as connection:
            table = connection.create_table("shared", "id BIGINT, note STRING, PRIMARY KEY (id)")
            table.upsert(pa.table({"id": range(ROWS), "note": ["x" * 200] * ROWS}))
            self.info = table.info
            self.bucket = next(iter(table.offsets()))

    def half_open(self, dice: random.Random) -> None:
        held = [socket.create_connection(("127.0.0.1", self.port), timeout=5) for _ in range(5)]
        for connection in held:
            with suppress(OSError):
                connection.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[: dice.randint(1, 24)])
        self.done.wait(dice.random())
        for connection in held:
            connection.close()

    def torn(self, dice: random.Random) -> None:
        with self._raw() as client:
            writer, reader = client.do_exchange(self._descriptor(), self._options("bad"))
            for _ in range(dice.randint(1, 5)):
                writer.write_metadata(self._pull(4_096))
            reader.read_chunk()
            self._cut_off(writer, reader)

    def unread(self, dice: random.Random) -> None:
        with self._raw() as client:
            writer, reader = client.do_exchange(self._descriptor(), self._options("bad"))
            for _ in range(30):
                writer.write_metadata(self._pull(1 << 20))
            self.done.wait(2 * dice.random())
            self._cut_off(writer, reader)

    def abandoned(self, dice: random.Random) -> None:
        with closing(RemoteNode(self.process.url, token=self.tokens["bad"])) as remote:
            for _ in range(20):
                remote.scan.open(OpenScan(self.info.table_id, self.info.schema_id, self.bucket, page_bytes=1_024))

    def huge_filter(self, dice: random.Random) -> None:
        with penstock.connect(self.process.url, token=self.tokens["heavy"]) as connection:
            values = " OR ".join(f"id = {number}" for number in range(dice.choice((100, 4_000, 6_000))))
            without_patience(connection).table("shared").scan(filter=values).to_arrow()

    def stranger(self, dice: random.Random) -> None:
        with penstock.connect(self.process.url, token=dice.choice(("", "x" * 1_000, make_token()))) as connection:
            without_patience(connection).list_databases()

    def behave(self, name: str) -> None:
        """Write, look up, scan and follow a table of one's own; all must be as written."""
        dice = random.Random(name)
        with penstock.connect(self.process.url, token=self.tokens["good"]) as connection:
            table = connection.create_table(name, "id BIGINT, v BIGINT, PRIMARY KEY (id)", buckets=2)
            oracle: dict[int, int] = {}
            stream = table.changes(start="earliest", follow=True)
            followed: dict[int, int] = {}
            while not self.done.is_set():
                rows = {dice.randrange(500): dice.randrange(1_000) for _ in range(20)}
                table.upsert([{"id": key, "v": value} for key, value in rows.items()])
                oracle |= rows
                key = dice.choice(list(oracle))
                self._check(table.get(id=key) == {"id": key, "v": oracle[key]}, f"{name}: get {key}")
                found = {row["id"]: row["v"] for row in table.scan().to_arrow().to_pylist()}
                self._check(found == oracle, f"{name}: scan")
                while followed != oracle and not self.done.is_set():
                    for row in next(stream).to_pylist():
                        if row["_change_type"] != "-U":
                            followed[row["id"]] = row["v"]
                self.counts["rounds checked"] += 1
            stream.close()

    def misbehave(self, act: Callable[[random.Random], None], seed: int) -> None:
        dice = random.Random(seed)
        while not self.done.is_set():
            try:
                act(dice)
                self.counts[act.__name__] += 1
            except (PenstockError, *FOREIGN):
                self.counts[f"{act.__name__}, refused"] += 1

    @staticmethod
    def _cut_off(writer: flight.MetadataRecordBatchWriter, reader: flight.MetadataRecordBatchReader) -> None:
        reader.cancel()
        with suppress(*FOREIGN):
            writer.close()

    def _check(self, right: bool, what: str) -> None:
        if not right:
            self.wrong.append(what)

    def _raw(self) -> flight.FlightClient:
        options = [("grpc.use_local_subchannel_pool", 1)]
        return flight.FlightClient(self.process.url.replace("penstock", "grpc"), generic_options=options)

    def _descriptor(self) -> flight.FlightDescriptor:
        return flight.FlightDescriptor.for_command(CALL_STREAM)

    def _options(self, who: str) -> flight.FlightCallOptions:
        bearer = b"Bearer " + self.tokens[who].encode()
        return flight.FlightCallOptions(timeout=30, headers=[(b"authorization", bearer)])

    def _pull(self, size: int) -> pa.Buffer:
        page = PullChanges(self.info.table_id, self.info.schema_id, {self.bucket: (0, ROWS)}, max_bytes=size)
        return calls.PULL.encode_request(1, {"call": page})


@pytest.fixture
def crowd(tmp_path: Path) -> Iterator[Crowd]:
    tokens = {name: make_token() for name in ("good", "bad", "heavy")}
    file = tmp_path / "tokens"
    file.write_text("".join(f"{name}:{hash_token(token)}\n" for name, token in tokens.items()))
    file.chmod(0o600)
    with ServerProcess(tmp_path / "data", arguments=("--token-file", str(file))) as process:
        yield Crowd(process, tokens)


@pytest.mark.slow
@pytest.mark.timeout(SECONDS + 120)
def test_well_behaved_clients_get_every_row_among_misbehaving_ones(crowd: Crowd) -> None:
    print(f"seed={SEED} seconds={SECONDS:.0f}")
    bad = (crowd.half_open, crowd.torn, crowd.unread, crowd.abandoned, crowd.huge_filter, crowd.stranger)
    failures: list[BaseException] = []

    def behave(name: str) -> None:
        try:
            crowd.behave(name)
        except BaseException as error:  # noqa: BLE001 - whatever it is, a well-behaved client was failed
            failures.append(error)

    threads = [threading.Thread(target=crowd.misbehave, args=(act, SEED + n)) for n, act in enumerate(bad)]
    threads += [threading.Thread(target=behave, args=(name,)) for name in ("first", "second")]
    for thread in threads:
        thread.start()
    server = psutil.Process(crowd.process.pid)
    end = time.monotonic() + SECONDS
    crowd.done.wait(min(10.0, SECONDS / 3))
    warm_mb = server.memory_info().rss / (1 << 20)
    most_mb = warm_mb
    while time.monotonic() < end and not failures and not crowd.wrong:
        crowd.done.wait(0.5)
        most_mb = max(most_mb, server.memory_info().rss / (1 << 20))
    crowd.done.set()
    for thread in threads:
        thread.join()

    print(dict(crowd.counts), f"warm={warm_mb:.0f} MB most={most_mb:.0f} MB")
    assert not failures, failures[:3]
    assert not crowd.wrong, crowd.wrong[:3]
    assert crowd.counts["rounds checked"] > SECONDS / 10
    assert most_mb < warm_mb + GROWTH_MB_MAX
    assert "Traceback" not in crowd.process.log, crowd.process.log[-3_000:]
