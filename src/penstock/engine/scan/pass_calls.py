"""Calls that go over all rows at a cut, and move few of them or none: to count rows, and to find the first in an order.

A call works for a second or two. Then it answers with what it has, and with the positions that are left: the caller
asks again, so that no call is long, and the node keeps nothing between them but the cut.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.engine.rows.known_columns import check_there
from penstock.engine.rows.read_errors import reading
from penstock.engine.scan.cut_calls import CutCalls
from penstock.engine.scan.cuts import Cuts
from penstock.engine.scan.named_cuts import NamedCuts
from penstock.engine.scan.plan import ScannedRows
from penstock.engine.scan.top_rows import TopRows
from penstock.engine.table.open_table import OpenTable
from penstock.engine.table.pins import not_led
from penstock.errors import InvalidScanRequestError, OffsetOutOfRangeError, UnsupportedError
from penstock.model.node.calls import FirstRows, RowCount, RowPass
from penstock.model.place.bucket import BucketId, TableBucket
from penstock.model.schema.row_order import RowOrder
from penstock.model.schema.schema import Column, Schema
from penstock.runtime.clock import Clock
from penstock.tablet.view.span import RowBlock
from penstock.tablet.view.view import TabletView

PASS_MS_MAX: Final = 2_000
"""How long one call works."""

FindLeased = Callable[..., tuple[OpenTable, BucketId]]
"""Find a bucket that a lease of a principal holds: (lease_id, table_id, bucket, offset, principal=)."""

Positions = dict[TableBucket, tuple[int, int | None]]


class HeldBuckets(NamedTuple):
    """Finds buckets of readers who hold them, also after a drop."""

    holding: Callable[[BucketId], OpenTable]
    find_leased: FindLeased


class _Bucket(NamedTuple):
    """One bucket of a pass: its place among the others, and its rows from `start` on, at X."""

    place: int
    table: OpenTable
    name: TableBucket
    view: TabletView
    start: int
    x: int


class PassCalls(CutCalls):
    """Goes over rows for one principal. Thread-safe: a pass reads immutable views."""

    def __init__(
        self,
        tables: Callable[[int], OpenTable],
        cuts: Cuts,
        named_cuts: NamedCuts,
        held: HeldBuckets,
        clock: Clock,
        *,
        principal: str,
        check_open: Callable[[], None],
    ) -> None:
        super().__init__(tables, cuts, named_cuts, principal=principal)
        self._holders = held
        self._clock = clock
        self._check_open = check_open

    def count(self, call: RowPass) -> RowCount:
        """Count rows at a cut, those of a log table that are kept.

        Raises:
            InvalidError: a bucket or the filter is not what it may be.
            OffsetOutOfRangeError: a snapshot can no longer be read.
            UnknownOrExpiredScannerError: the cut is not pinned any more; open it again.
            NotLeaderError: this node does not lead a bucket.
            SchemaMismatchError: a column that is needed was dropped since the reader began.
        """
        buckets, schema = self._begin_pass(call)
        rows, left = 0, Positions()
        filters = ScannedRows.of(schema, call.columns, call.filter or b"")
        self._check_there(call, buckets, filters.filter.bound_columns)
        for bucket, block in self._blocks(call, buckets, filters, left, pa.schema([]), counts=True):
            rows += bucket.view.count(bucket.x) if block is None else len(block.offsets)
        return RowCount(rows, left)

    def first(self, call: RowPass) -> FirstRows:
        """Return the first rows in an order at a cut.

        Raises:
            LimitError: more rows are asked for than one answer may have, or they are too large for it.
            UnsupportedError: the table is a log, or values of a column have no order.
            PenstockError: as `count` has it.
        """
        buckets, schema = self._begin_pass(call)
        if not schema.keyed:
            raise UnsupportedError("a log is in the order of its offsets; read it, and sort the rows")
        order = RowOrder.of(call.order, call.descending, schema)
        rows = ScannedRows.of(schema, call.columns, call.filter or b"")
        ordering = tuple(schema.column(name) for name in order.names)
        self._check_there(call, buckets, ordering + rows.projection.columns + rows.filter.bound_columns)
        left = Positions()
        top = TopRows(order, schema, rows.projection, call.limit, offsets=call.offsets)
        for bucket, block in self._blocks(call, buckets, rows, left, top.ordered):
            if block is not None:
                top.add(bucket.place, block)
        views = {bucket.place: bucket.view for bucket in buckets}
        with reading(call.table_id):
            return FirstRows(top.rows(views), left)

    def _held(
        self, table_id: int, name: TableBucket, offset: int | None, *, cut_id: str | None, lease_id: str | None
    ) -> tuple[OpenTable, BucketId] | None:
        """Return the bucket of a reader that holds it by a lease or a cut: its name may stand for another by now."""
        if lease_id is not None:
            return self._holders.find_leased(lease_id, table_id, name, offset, principal=self._principal)
        bucket = None if cut_id is None else self._cuts.find(cut_id, name)
        return None if bucket is None else (self._holders.holding(bucket), bucket)

    def _begin_pass(self, call: RowPass) -> tuple[list[_Bucket], Schema]:
        self._check_open()
        if call.cut_id is not None:
            self._cuts.touch(call.cut_id)
        elif call.lease_id is None:
            raise InvalidScanRequestError("name the cut or the lease that keeps the rows")
        found = [self._bucket(call, place, *at) for place, at in enumerate(call.positions.items())]
        table = found[0].table if found else self._tables(call.table_id)
        return found, table.known_schema(call.schema_id)

    def _check_there(self, call: RowPass, buckets: list[_Bucket], columns: tuple[Column, ...]) -> None:
        """Refuse a pass that needs columns which the table, whose views were taken, has no more."""
        present = (buckets[0].table if buckets else self._tables(call.table_id)).info
        if present.schema_id != call.schema_id:
            check_there(present.schema, columns)

    def _bucket(self, call: RowPass, place: int, name: TableBucket, position: tuple[int, int | None]) -> _Bucket:
        start, x = position
        if x is None or not 0 <= start <= x:
            raise InvalidScanRequestError("a pass starts at an offset of its snapshot", start=start, log_offset=x)
        held = self._held(call.table_id, name, x, cut_id=call.cut_id, lease_id=call.lease_id)
        if held is None:
            raise InvalidScanRequestError("the cut does not have that bucket", bucket=name)
        table, bucket = held
        view = table.view_of(bucket)
        if view is None:
            raise not_led(name)
        if table.info.keyed:
            view.check_readable(x)
        elif start < min(view.base, view.spans[0].start if view.spans else view.base):
            raise OffsetOutOfRangeError(
                "changes from this offset on are no longer kept; start again", bucket=name, offset=start, base=view.base
            )
        return _Bucket(place, table, name, view, start, x)

    def _blocks(
        self,
        call: RowPass,
        buckets: list[_Bucket],
        rows: ScannedRows,
        left: Positions,
        more: pa.Schema,
        *,
        counts: bool = False,
    ) -> Iterator[tuple[_Bucket, RowBlock | None]]:
        """Yield the rows that pass, block by block, for as long as a call works; note what is `left`.

        To a caller who `counts` a bucket without a filter is one step, without rows.
        """
        deadline_ms = self._clock.monotonic_ms() + PASS_MS_MAX
        tested = pa.schema([column.stored for column in rows.filter.bound_columns])
        stored = pa.schema([*more, *(field for field in tested if more.get_field_index(field.name) < 0)])
        for bucket in buckets:
            left[bucket.name] = (bucket.start, bucket.x)
        for bucket in buckets:
            keyed = bucket.table.info.keyed
            if counts and rows.filter.is_all and bucket.start == 0 and keyed:
                yield bucket, None
            else:
                read = bucket.view.scan(bucket.x, stored, start=bucket.start)
                for block in read if keyed else bucket.view.changes(bucket.start, bucket.x, stored):
                    yield bucket, _passing(rows, block)
                    if self._clock.monotonic_ms() >= deadline_ms:
                        left[bucket.name] = (int(block.offsets[-1]) + 1, bucket.x)
                        return
            del left[bucket.name]
            if left and self._clock.monotonic_ms() >= deadline_ms:
                return


def _passing(rows: ScannedRows, block: RowBlock) -> RowBlock:
    if rows.filter.is_all:
        return block
    mask: npt.NDArray[np.bool_] = rows.filter.mask_stored(block.batch)
    return block if mask.all() else RowBlock(block.offsets[mask], block.batch.filter(pa.array(mask)))
