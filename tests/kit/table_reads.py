"""What a table's readers see, compared with its oracle: moments, changes between them, scans, lookups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Final

import pyarrow as pa
from tests.kit.aggregate_oracle import same
from tests.kit.node_house import NodeHouse
from tests.kit.random_table import Row
from tests.kit.table_oracle import Key, Snapshot, TableOracle

from penstock.client.changes.stream import ChangeStream
from penstock.client.scan.scan import Scan
from penstock.client.table import Table
from penstock.errors import OffsetOutOfRangeError
from penstock.model.place.bucket import TableBucket

Offsets = Mapping[TableBucket, int]

PATH: Final = "life"


@dataclass(slots=True)
class BegunScan:
    """A scan that was left in the middle: what it gave, and the token for the rest."""

    rows: list[Row]
    token: bytes
    moment: int
    cut: Offsets
    names: Sequence[str]
    scan: Scan | None


class TableReads:
    """Reads a table and compares; remembers moments and unfinished scans."""

    def __init__(self, random: Random, house: NodeHouse, oracle: TableOracle) -> None:
        self._random = random
        self._house = house
        self._oracle = oracle
        self._moments: list[tuple[Offsets, int]] = []
        self._begun: list[BegunScan] = []
        self._lost: dict[TableBucket, int] = {}

    def remember(self, table: Table) -> None:
        """Remember the present moment: its cut, and what the oracle calls it."""
        self._moments.append((table.cut(), self._oracle.mark()))

    def forget(self, dropped: Offsets) -> None:
        """Remember nothing but where these buckets stood when they were dropped: it cannot be read any more."""
        self._moments.clear()
        self._begun.clear()
        self._lost |= dropped

    def let_go(self) -> None:
        """Keep no session alive; tokens stay."""
        for begun in self._begun:
            begun.scan = None

    def check_everything(self, table: Table) -> None:
        """Compare the present rows, all of them by key, and some moment."""
        found = _keyed(table.scan().to_arrow().to_pylist(), table)
        _check(found, self._oracle.snapshot())
        if found:
            self.look_up(table, [{name: row[name] for name in table.info.primary_key} for row in found.values()])
        self.check_moment(table)
        self._check_lost(table)

    def _check_lost(self, table: Table) -> None:
        """Check that offsets of a bucket that was dropped mean nothing in the one that has its name now."""
        held = table.offsets()
        for bucket, x in self._lost.items():
            if bucket not in held:
                continue
            base, end = held[bucket]
            assert x < bucket.first_offset(base)
            try:
                table.scan(as_of={bucket: x}, buckets=[bucket])
            except OffsetOutOfRangeError:
                pass
            else:
                raise AssertionError(f"offset {x} of a partition that was dropped can be read in {bucket}")
            if base == bucket.first_offset(base):
                found = table.changes(start={bucket: x}, buckets=[bucket])
                assert {at for batch in found for at in batch.column("_offset").to_pylist()} == set(range(base, end))

    def check_moment(self, table: Table) -> None:
        """Scan the table as of a moment that is remembered."""
        if not self._moments:
            return
        cut, moment = self._random.choice(self._moments)
        as_of = _whole(cut, table.cut())
        try:
            scan = table.scan(as_of=as_of)
        except OffsetOutOfRangeError:
            assert self._is_below_base(table, as_of)
            return
        assert scan.log_offsets == as_of
        _check(_keyed(scan.to_arrow().to_pylist(), table), self._oracle.snapshot(moment))

    def check_changes(self, table: Table) -> None:
        """Fold the changes between two moments over the first: that is the second."""
        if len(self._moments) < 2:
            return
        first, last = sorted(self._random.sample(range(len(self._moments)), 2))
        (start, began), (end, ended) = self._moments[first], self._moments[last]
        buckets = table.cut()
        start = _whole(start, buckets) if self._random.random() < 0.5 else start
        end = _whole(end, buckets)
        fold = _Fold(table, self._oracle.snapshot(began), start)
        try:
            with table.changes(start=start, end=end) as stream:
                self._follow(table, stream, fold, end)
        except OffsetOutOfRangeError:
            # Also a bucket that was born since may have been compacted.
            assert self._is_below_base(table, _whole(start, buckets))
            return
        assert _whole(fold.reached, buckets) == end
        _check(fold.rows, self._oracle.snapshot(ended))

    def _follow(self, table: Table, stream: ChangeStream, fold: _Fold, end: Offsets) -> None:
        """Fold a stream, and now and then another one that goes on at its position."""
        for batch in stream:
            fold.take(batch)
            if self._random.random() < 0.3:
                with table.changes(start=stream.position, end=end) as rest:
                    for further in rest:
                        fold.take(further)
                return

    def begin_scan(self, table: Table, columns: Sequence[str]) -> None:
        """Scan a part of the table."""
        names = [*table.info.primary_key, *columns]
        scan = table.scan(columns=names)
        begun = BegunScan([], b"", self._oracle.mark(), dict(scan.log_offsets), names, scan)
        for _ in range(self._random.randrange(4)):
            batch = next(scan, None)
            begun.rows += [] if batch is None else batch.to_pylist()
        begun.token = scan.resume_token
        self._begun.append(begun)

    def resume_scan(self) -> None:
        """Scan the rest of what was begun: together they are the table at the moment of the beginning."""
        if not self._begun:
            return
        begun = self._begun.pop(self._random.randrange(len(self._begun)))
        connection = self._house.connection
        try:
            rest = connection.resume_scan(begun.token).to_arrow().to_pylist()
        except OffsetOutOfRangeError:
            # The session ran out, and what it read was compacted away: only where sessions may not idle.
            assert "kv.scanner.ttl" in self._house.settings
            assert self._is_below_base(connection.table(PATH), begun.cut)
            return
        rows = begun.rows + rest
        whole = self._oracle.snapshot(begun.moment)
        key = connection.table(PATH).info.primary_key
        found = {tuple(row[name] for name in key): row for row in rows}
        assert len(found) == len(rows), "a key came twice"
        _check(found, {k: {name: row[name] for name in begun.names} for k, row in whole.items()})

    def look_up(self, table: Table, keys: Sequence[Row]) -> None:
        """Look keys up, and the rows that share a prefix with the first one."""
        rows = self._oracle.snapshot()
        found = table.lookup(list(keys)).to_pylist()
        for key, row in zip(keys, found, strict=True):
            expected = rows.get(tuple(key.values()))
            assert row.pop("_found") == (expected is not None), key
            assert expected is None or same(row, dict(expected)), (row, expected)
        names = table.info.primary_key
        prefix = {name: keys[0][name] for name in names[: self._random.randint(1, len(names))]}
        alike = _keyed(table.prefix_lookup(**prefix).to_pylist(), table)
        _check(alike, {k: r for k, r in rows.items() if all(r[name] == prefix[name] for name in prefix)})

    @staticmethod
    def _is_below_base(table: Table, offsets: Offsets) -> bool:
        held = table.offsets()
        return any(bucket in held and held[bucket].base > x for bucket, x in offsets.items())


class _Fold:
    """Rows that changes are applied to. Refuses a change that does not fit."""

    def __init__(self, table: Table, rows: Snapshot, start: Offsets) -> None:
        self.rows: dict[Key, Any] = dict(rows)
        self.reached = dict(start)
        self._table = table
        self._before: int | None = None

    def take(self, batch: pa.RecordBatch) -> None:
        for row in batch.to_pylist():
            self._take(row)

    def _take(self, row: Row) -> None:
        kind, offset = row.pop("_change_type"), row.pop("_offset")
        bucket = TableBucket(self._table.path, row.pop("_partition", None), row.pop("_bucket"))
        row.pop("_timestamp")
        assert offset == self.reached.get(bucket, bucket.first_offset(offset)), "changes come without gaps"
        key = tuple(row[name] for name in self._table.info.primary_key)
        if kind in ("-U", "-D"):
            assert same(row, dict(self.rows.pop(key))), (kind, key)
            self._before = offset if kind == "-U" else None
        else:
            assert (self._before == offset) == (kind == "+U"), "an update has both images"
            assert key not in self.rows, (kind, key)
            self.rows[key] = row
            self._before = None
        if kind != "-U":
            self.reached[bucket] = offset + 1


def _whole(cut: Offsets, present: Offsets) -> dict[TableBucket, int]:
    """Return a cut of all buckets there are now; one that was born since stood before its first change."""
    return {bucket: cut.get(bucket, bucket.first_offset(x)) for bucket, x in present.items()}


def _keyed(rows: list[Row], table: Table) -> dict[Key, Row]:
    found = {tuple(row[name] for name in table.info.primary_key): row for row in rows}
    assert len(found) == len(rows), "a key came twice"
    return found


def _check(found: Mapping[Key, Row], expected: Mapping[Key, Any]) -> None:
    assert found.keys() == expected.keys(), found.keys() ^ expected.keys()
    for key, row in found.items():
        assert same(row, dict(expected[key])), (row, expected[key])
