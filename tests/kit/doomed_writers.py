"""Writers that are killed: each writes numbered calls of which anybody can tell what they leave behind.

A writer has rows of its own. Its calls are numbered from 1; what its rows are after call n follows
from n alone. So after a crash the table must hold the rows of one call as a whole, the same in all buckets: the
last one that was acknowledged, or one that was under way.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import pyarrow as pa

from penstock.client.connection import Connection
from penstock.client.table import Table
from penstock.codec.keys.routing import bucket_of
from penstock.model.node.calls import WriteCall
from penstock.model.place.bucket import TableBucket

SLOTS: Final = 12
BUCKETS: Final = 4
MANY_BUCKETS: Final = 16
PARTITIONS: Final = 5
KEYED: Final = "w INT, slot INT, v BIGINT, PRIMARY KEY (w, slot)"

Rows = dict[tuple[Any, ...], int]


class DoomedWriter(ABC):
    """One writer; `number` is part of its keys."""

    path: str
    retries = False
    """Whether a call in doubt is sent again, as the same writer and sequence, by whoever comes after the crash."""

    def __init__(self, number: int) -> None:
        self.number = number

    @staticmethod
    def create_tables(connection: Connection) -> None:
        """Create the tables that the writers share."""
        connection.create_table("kv", KEYED, buckets=MANY_BUCKETS, if_not_exists=True)
        connection.create_table("parts", "p INT, " + KEYED.replace("KEY (", "KEY (p, "), **_PARTITIONED)
        connection.create_table("sums", KEYED.replace("v BIGINT", "v BIGINT SUM"), buckets=BUCKETS, if_not_exists=True)
        connection.create_table("events", "w INT, n BIGINT, slot INT", buckets=BUCKETS, if_not_exists=True)

    @abstractmethod
    def open(self, connection: Connection) -> Callable[[int], None]:
        """Return the function that makes call n."""

    @abstractmethod
    def rows(self, n: int) -> Rows:
        """Return the rows after call n: what each key holds."""

    def check(self, connection: Connection, calls: set[int]) -> None:
        """Check that the buckets hold the rows after one of these calls, all of them those of the same."""
        table = connection.table(self.path)
        found = self._found(table)
        expected = [{bucket: self._routed(table, bucket, self.rows(n)) for bucket in found} for n in sorted(calls)]
        assert found in expected, f"{self!r} calls={sorted(calls)} found={found} expected={expected}"

    def _found(self, table: Table) -> dict[TableBucket, Rows]:
        names = table.info.primary_key
        found = {}
        for bucket in table.cut():
            rows = table.scan(buckets=[bucket], filter=f"w = {self.number}").to_arrow().to_pylist()
            found[bucket] = {tuple(row[name] for name in names): row["v"] for row in rows}
        return found

    def _routed(self, table: Table, bucket: TableBucket, rows: Rows) -> Rows:
        if bucket.partition is not None:
            rows = {key: v for key, v in rows.items() if f"p={key[0]}" == bucket.partition}
        if not rows:
            return {}
        names = table.info.primary_key
        columns = [pa.array([key[names.index(name)] for key in rows], pa.int32()) for name in table.info.bucket_key]
        places = bucket_of(columns, table.info.buckets)
        return {key: v for (key, v), place in zip(rows.items(), places, strict=True) if place == bucket.bucket}

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.number}>"


_PARTITIONED: Final[dict[str, Any]] = {"buckets": BUCKETS, "partitioned_by": ["p"], "if_not_exists": True}


class Upserter(DoomedWriter):
    """Upserts all its rows with each call."""

    path = "kv"

    def open(self, connection: Connection) -> Callable[[int], None]:
        """Return the function that makes call n."""
        table = connection.table(self.path)
        return lambda n: _done(table.upsert(self._batch(n)))

    def rows(self, n: int) -> Rows:
        """Return the rows after call n."""
        return {(self.number, slot): n for slot in range(SLOTS)} if n else {}

    def _batch(self, n: int) -> pa.RecordBatch:
        columns = {"w": [self.number] * SLOTS, "slot": list(range(SLOTS)), "v": [n] * SLOTS}
        return pa.record_batch({name: pa.array(values, _TYPES[name]) for name, values in columns.items()})


_TYPES: Final = {"p": pa.int32(), "w": pa.int32(), "slot": pa.int32(), "v": pa.int64(), "n": pa.int64()}


class Pipeliner(Upserter):
    """Does the same through a pipelined writer."""

    def open(self, connection: Connection) -> Callable[[int], None]:
        """Return the function that makes call n."""
        writer = connection.table(self.path).writer(batch_rows=SLOTS)

        def write(n: int) -> None:
            writer.upsert(self._batch(n))
            writer.flush()

        return write


class Changer(Upserter):
    """Upserts and deletes in one call."""

    def open(self, connection: Connection) -> Callable[[int], None]:
        """Return the function that makes call n."""
        table = connection.table(self.path)

        def write(n: int) -> None:
            kinds = ["-D" if (slot + n) % 3 == 0 else "+U" for slot in range(SLOTS)]
            table.apply_changes(self._batch(n).append_column("_change_type", pa.array(kinds)))

        return write

    def rows(self, n: int) -> Rows:
        """Return the rows after call n."""
        return {key: v for key, v in super().rows(n).items() if (key[1] + n) % 3}


class Partitioner(Upserter):
    """Upserts into one partition with each call; new partitions are made on the way."""

    path = "parts"
    retries = True

    def open(self, connection: Connection) -> Callable[[int], None]:
        """Return the function that makes call n."""
        table = connection.table(self.path)

        def write(n: int) -> None:
            partition = pa.array([n % PARTITIONS] * SLOTS, pa.int32())
            call = table._requests.upsert(self._batch(n).append_column("p", partition))
            _send(connection, self.number, n, call)

        return write

    def rows(self, n: int) -> Rows:
        """Return the rows after call n: each partition's newest call up to it."""
        return {
            (call % PARTITIONS, self.number, slot): call
            for call in range(max(1, n - PARTITIONS + 1), n + 1)
            for slot in range(SLOTS)
        }


class Summer(Upserter):
    """Adds 1 to each of its rows; each call once, however often it is sent."""

    path = "sums"
    retries = True

    def open(self, connection: Connection) -> Callable[[int], None]:
        """Return the function that makes call n."""
        table = connection.table(self.path)
        return lambda n: _send(connection, self.number, n, table._requests.upsert(self._batch(1)))


class Appender(DoomedWriter):
    """Appends rows to a log table; each call once, however often it is sent."""

    path = "events"
    retries = True

    def open(self, connection: Connection) -> Callable[[int], None]:
        """Return the function that makes call n."""
        table = connection.table(self.path)

        def write(n: int) -> None:
            rows = [{"w": self.number, "n": n, "slot": slot} for slot in range(SLOTS)]
            _send(connection, self.number, n, table._requests.append(rows))

        return write

    def rows(self, n: int) -> Rows:
        """Return how often each row was appended after call n."""
        return {(call, slot): 1 for call in range(1, n + 1) for slot in range(SLOTS)}

    def check(self, connection: Connection, calls: set[int]) -> None:
        """Check that the rows of one of these calls and of all before it are there once."""
        found = connection.table(self.path).scan(filter=f"w = {self.number}").to_arrow().to_pylist()
        counts = dict(Counter((row["n"], row["slot"]) for row in found))
        assert counts in [self.rows(n) for n in calls], f"{self!r} calls={sorted(calls)} rows={len(found)}"


def doomed_writers() -> list[DoomedWriter]:
    """Return one writer of each kind, and a second upserter."""
    kinds = (Upserter, Upserter, Pipeliner, Changer, Partitioner, Summer, Appender)
    return [kind(number) for number, kind in enumerate(kinds)]


def _send(connection: Connection, writer: int, n: int, call: WriteCall) -> None:
    """Write as a writer that outlives its process."""
    connection._link.node.tables.write(replace(call, writer_id=bytes([writer + 1]) * 16, sequence=n))


def _done(result: object) -> None:
    assert result is not None
