"""Passes over the rows of a scan's buckets that the node makes: to count them, or to find the first in an order.

A call answers for as many rows as it came by in a second or two, and says what is left; that is asked for next.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from typing import TypeVar

import pyarrow as pa

from penstock.client.cut.cut_pin import CutPin, LeasePin
from penstock.client.link.link import Link
from penstock.client.link.retry import worth_retrying
from penstock.client.pages.bucket_scan import Portion
from penstock.client.scan.request import ScanRequest
from penstock.client.scan.token import BucketPosition
from penstock.errors import UnknownOrExpiredScannerError
from penstock.model.node.calls import FirstRows, RowCount, RowPass
from penstock.model.schema.row_order import RowOrder
from penstock.model.table.table import TableInfo

Found = TypeVar("Found", RowCount, FirstRows)


class RowPasses:
    """Has the node go over the rows of one cut."""

    def __init__(
        self,
        link: Link,
        info: TableInfo,
        request: ScanRequest,
        positions: Sequence[BucketPosition],
        *,
        pin: CutPin | LeasePin,
    ) -> None:
        self._link = link
        self._request = request
        self._pin = pin
        self._info = info
        self._call = RowPass(
            info.table_id,
            info.schema_id,
            {p.table_bucket(info.path): (p.next_offset or 0, p.log_offset) for p in positions},
            filter=request.filter,
            lease_id=request.lease_id,
        )

    def count(self) -> int:
        """Return how many rows there are.

        Raises:
            PenstockError: as the node answered, once that is not worth retrying.
        """
        node, rows, call = self._link.node, 0, self._call
        while call.positions:
            found = self._ask(node.scan.count, call)
            rows, call = rows + found.rows, replace(call, positions=found.left)
        return rows

    def first(self, order: RowOrder, limit: int) -> pa.RecordBatch:
        """Return the first rows in an order, in the scan's columns.

        Raises:
            LimitError: more rows are asked for than one answer may have, or they are too large for it.
            PenstockError: as the node answered, once that is not worth retrying.
        """
        node, schema = self._link.node, self._request.schema(self._info)
        call = replace(
            self._call,
            columns=self._request.columns,
            order=order.names,
            descending=order.descending,
            limit=limit,
            offsets=self._request.offsets,
        )
        best: pa.RecordBatch | None = None
        while call.positions:
            found = self._ask(node.scan.first, call)
            best = found.batch if best is None else _merged(order, best, found.batch, limit)
            call = replace(call, positions=found.left)
        if best is None:
            return pa.RecordBatch.from_pylist([], schema=schema)
        return pa.RecordBatch.from_arrays(best.columns[: len(schema)], schema=schema)

    def _ask(self, ask: Callable[[RowPass], Found], call: RowPass) -> Found:
        try:
            return self._once(ask, call)
        except UnknownOrExpiredScannerError:
            self._pin.renew()
            return self._once(ask, call)

    def _once(self, ask: Callable[[RowPass], Found], call: RowPass) -> Found:
        return self._link.reading_retry.run(
            lambda: ask(replace(call, cut_id=self._pin.cut_id)),
            when=lambda error: worth_retrying(error) and not isinstance(error, UnknownOrExpiredScannerError),
        )


def _merged(order: RowOrder, best: pa.RecordBatch, found: pa.RecordBatch, limit: int) -> pa.RecordBatch:
    """Return the first rows of both; of equal ones those found before come first."""
    both = pa.concat_batches([best, found])
    return both.take(order.first(both.columns[-len(order.names) :], limit))


class OrderedReader:
    """Reads the first rows of all buckets in an order; to a pass they are those of the first bucket."""

    def __init__(self, passes: RowPasses, order: RowOrder) -> None:
        self._passes = passes
        self._order = order

    def pages(self, index: int, limit: int | None) -> Generator[Sequence[Portion], None, None]:
        """Yield all rows with the first bucket, and none with any other."""
        assert limit is not None, "an ordered scan has a limit"
        if index == 0:
            yield [(self._passes.first(self._order, limit), None)]

    def close(self) -> None:
        """Do nothing: the node keeps nothing between two calls."""
