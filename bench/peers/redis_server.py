"""Redis over loopback: a hash a row, pipelined, synced always; changes in a stream, in the same transaction."""

from __future__ import annotations

import shutil
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import redis

from bench.peers.peer import Drained, PeerError, Transport, free_port
from bench.workload import SCHEMA

START_SECONDS_MAX = 120
FIELDS = SCHEMA.names[1:]


class Redis:
    """The server."""

    name = "Redis"
    transport = Transport.SERVED
    bounds: frozenset[str] = frozenset()

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._port = 0

    def missing(self) -> str | None:
        """Say whether there is a server."""
        return None if shutil.which("redis-server") else "no redis-server on the path"

    def start(self, directory: Path) -> None:
        """Start a server with its log in this directory; one that is there is loaded."""
        self._port = free_port()
        command = f"redis-server --port {self._port} --bind 127.0.0.1 --appendonly yes --appendfsync always"
        with (directory / "redis.log").open("ab") as words:
            self._process = subprocess.Popen(
                [*command.split(), "--save", "", "--dir", str(directory)], stdout=words, stderr=words
            )
        deadline = time.monotonic() + START_SECONDS_MAX
        while not self._answers():
            if time.monotonic() > deadline or self._process.poll() is not None:
                raise PeerError(f"redis-server does not start: {(directory / 'redis.log').read_text()[-2000:]}")
            time.sleep(0.01)

    def settings(self) -> str:
        """Return version and settings."""
        with redis.Redis(port=self._port) as client:
            version = client.info("server")["redis_version"]
        return (
            f"{version}, by redis-py with hiredis; appendonly, appendfsync=always; a hash a row, HSET in a pipeline of "
            "one MULTI a batch; all rows in memory; scans by SCAN and HMGET, not at one moment; the changelog is a "
            "stream, XADD in the same MULTI, without before-images"
        )

    def session(self) -> RedisSession:
        """Connect."""
        return RedisSession(redis.Redis(port=self._port))

    def pids(self) -> list[int]:
        """Return the one process."""
        assert self._process is not None
        return [self._process.pid]

    def kill(self) -> None:
        """Kill the server."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """Stop the server."""
        if self._process is not None:
            self._end(signal.SIGTERM)

    def _end(self, number: signal.Signals) -> None:
        assert self._process is not None
        process, self._process = self._process, None
        process.send_signal(number)
        process.wait(START_SECONDS_MAX)

    def _answers(self) -> bool:
        try:
            with redis.Redis(port=self._port) as client:
                return bool(client.ping())
        except (redis.ConnectionError, redis.exceptions.BusyLoadingError):
            return False


class RedisSession:
    """One connection; rows are hashes under `r:id`, totals under `t:key`."""

    def __init__(self, client: redis.Redis) -> None:
        self._client = client
        self._changelog = False
        self._drained = b"0"

    def create(self, *, changelog: bool = False) -> None:
        """Empty the server."""
        self._client.flushall()
        self._changelog, self._drained = changelog, b"0"

    def upsert(self, batch: pa.RecordBatch) -> None:
        """Set the hashes in one transaction."""
        columns = [batch.column(name) for name in SCHEMA.names]
        columns[-1] = columns[-1].cast(pa.int64())
        pipeline = self._client.pipeline(transaction=True)
        for number, *values in zip(*(column.to_pylist() for column in columns), strict=True):
            row = dict(zip(FIELDS, values, strict=True))
            pipeline.hset(f"r:{number}", mapping=row)
            if self._changelog:
                pipeline.xadd("changes", {"id": number, **row})
        pipeline.execute()

    def scan(self, columns: Sequence[str], items: int | None = None) -> pa.Table:
        """Walk the keys, get the fields in pipelines, make Arrow of them; a filter is ours to apply."""
        asked = [name for name in FIELDS if name in columns or (name == "items" and items is not None)] or ["items"]
        found: list[pa.Table] = []
        keys: list[bytes] = []
        cursor = -1
        while cursor != 0:
            cursor, part = self._client.scan(max(cursor, 0), match="r:*", count=10_000)
            keys += part
            if len(keys) >= 10_000 or cursor == 0:
                found.append(self._rows(keys, asked))
                keys = []
        # A walk may show a key twice while the server grows its table.
        rows = pa.concat_tables(found).group_by("id", use_threads=False).aggregate([(name, "last") for name in asked])
        rows = rows.rename_columns(["id", *asked])
        if items is not None:
            rows = rows.filter(pa.compute.equal(rows.column("items"), items))
        return rows.select(list(columns))

    def lookup(self, ids: Sequence[int]) -> int:
        """Get the hashes in a pipeline."""
        pipeline = self._client.pipeline(transaction=False)
        for number in ids:
            pipeline.hgetall(f"r:{number}")
        return sum(1 for row in pipeline.execute() if row)

    def drain(self) -> Drained:
        """Read the stream from where the last drain ended."""
        rows = id_sum = 0
        while answer := self._client.xread({"changes": self._drained}, count=10_000):
            entries = answer[0][1] if isinstance(answer, list) else next(iter(answer.values()))[0]
            rows += len(entries)
            id_sum += sum(int(entry[b"id"]) for _, entry in entries)
            self._drained = entries[-1][0]
        return Drained(rows, id_sum)

    def set_amounts(self, batch: pa.RecordBatch) -> None:
        """Set one field of the hashes in one transaction."""
        pipeline = self._client.pipeline(transaction=True)
        for number, amount in zip(batch.column("id").to_pylist(), batch.column("amount").to_pylist(), strict=True):
            pipeline.hset(f"r:{number}", "amount", amount)
        pipeline.execute()

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def _rows(self, keys: list[bytes], fields: list[str]) -> pa.Table:
        pipeline = self._client.pipeline(transaction=False)
        for key in keys:
            pipeline.hmget(key, fields)
        arrays = [pa.array([int(key[2:]) for key in keys], pa.int64())]
        values = pipeline.execute()
        for number, name in enumerate(fields):
            text = pa.array([row[number] for row in values], pa.binary()).cast(pa.string())
            kind = SCHEMA.field(name).type
            # As text a timestamp is its number.
            arrays.append(text.cast(pa.int64()).cast(kind) if pa.types.is_timestamp(kind) else text.cast(kind))
        return pa.Table.from_arrays(arrays, ["id", *fields])


PEER = Redis()
