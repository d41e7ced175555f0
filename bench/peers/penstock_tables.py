"""Penstock's own sessions, the same in process and over loopback."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pyarrow as pa
import pyarrow.compute as pc

import penstock
from bench.peers.peer import Bootstrap, Drained
from bench.workload import SCHEMA

TOTALS = "key BIGINT, total BIGINT SUM, top BIGINT MAX, times BIGINT COUNT, PRIMARY KEY (key)"


class PenstockSession:
    """A connection, its own or a shared one."""

    def __init__(self, connection: penstock.Connection, *, own: bool = False, buckets: int = 1) -> None:
        self._connection = connection
        self._own = own
        self._buckets = buckets
        self._read: dict[penstock.TableBucket, int] = {}
        self._handles: dict[str, penstock.Table] = {}

    def create(self, *, changelog: bool = False) -> None:
        """Make the table; there is always a changelog."""
        self._connection.drop_table("bench", if_exists=True)
        made = self._connection.create_table("bench", SCHEMA, primary_key=["id"], buckets=self._buckets)
        self._handles["bench"] = made
        self._read = made.cut()

    def upsert(self, batch: pa.RecordBatch) -> None:
        """Upsert; durable and visible when this returns."""
        self._table.upsert(batch)

    def scan(self, columns: Sequence[str], items: int | None = None) -> pa.Table:
        """Scan one consistent cut."""
        return self._table.scan(columns=columns, filter=None if items is None else f"items = {items}").to_arrow()

    def open_scan(self) -> Iterator[pa.RecordBatch]:
        """Scan batch by batch."""
        return iter(self._table.scan())

    def lookup(self, ids: Sequence[int]) -> int:
        """Look up by key."""
        return int(pc.sum(self._table.lookup({"id": ids}).column("_found")).as_py())

    def drain(self) -> Drained:
        """Read the changes, with before-images, from where the last drain ended."""
        end = self._table.cut()
        drained = _drained(self._table.changes(start=self._read, end=end))
        self._read = end
        return drained

    def set_amounts(self, batch: pa.RecordBatch) -> None:
        """Write one column."""
        self._table.upsert(batch, columns=["amount"])

    def create_totals(self) -> None:
        """Make an aggregating table."""
        self._connection.drop_table("totals", if_exists=True)
        made = self._connection.create_table("totals", TOTALS, merge_engine="aggregate", buckets=self._buckets)
        self._handles["totals"] = made

    def fold(self, batch: pa.RecordBatch) -> None:
        """Upsert: the table folds."""
        value = batch.column("value")
        folded = {"key": batch.column("key"), "total": value, "top": value, "times": value}
        self._handles["totals"].upsert(pa.RecordBatch.from_pydict(folded))

    def totals(self) -> pa.Table:
        """Scan the totals."""
        return self._handles["totals"].scan().to_arrow()

    @contextmanager
    def bootstrap(self) -> Iterator[Bootstrap]:
        """Read at a cut, then from it."""
        yield PenstockBootstrap(self._table)

    def close(self) -> None:
        """Close the connection if it is its own."""
        if self._own:
            self._connection.close()

    @property
    def _table(self) -> penstock.Table:
        if "bench" not in self._handles:
            self._handles["bench"] = self._connection.table("bench")
        return self._handles["bench"]


class PenstockBootstrap:
    """A scan, and the changes from the cut that it names."""

    def __init__(self, table: penstock.Table) -> None:
        self._table = table
        self._scan = table.scan()

    def snapshot(self) -> pa.Table:
        """Read the scan."""
        return self._scan.to_arrow()

    def tail(self, rows: int) -> Drained:
        """Read the changes after the scan's cut."""
        return _drained(self._table.changes(start=self._scan.log_offsets, end=self._table.cut()))


def _drained(changes: penstock.ChangeStream) -> Drained:
    rows = id_sum = 0
    with changes:
        for batch in changes:
            new = batch.filter(pc.is_in(batch.column("_change_type"), pa.array(["+I", "+U"])))
            rows += new.num_rows
            id_sum += pc.sum(new.column("id")).as_py() or 0
    return Drained(rows, id_sum)
