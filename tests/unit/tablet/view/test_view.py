"""A view finds rows by offset, in any order, and says so when one is not there."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

from penstock.errors import CorruptionError, OffsetOutOfRangeError
from penstock.log.batch_directory import BatchDirectory
from penstock.log.tail import Chunk, TailView
from penstock.model.place.bucket import BucketId
from penstock.tablet.view.ends import Ends
from penstock.tablet.view.span import Run, Span
from penstock.tablet.view.view import TabletView

SCHEMA = pa.schema([pa.field("0", pa.int64())])


def view(*bounds: int, base: int = 0) -> TabletView:
    """Return a view of one span for each pair of neighbours."""
    spans = []
    for start, end in pairwise(bounds):
        rows = pa.RecordBatch.from_arrays([pa.array(range(start, end))], schema=SCHEMA)
        tail = TailView(SCHEMA, start, end, (Chunk(rows),), BatchDirectory.empty())
        spans.append(Span(start, end, (Run(tail, Ends()),)))
    return TabletView.of(BucketId(1, 0, 0), base, bounds[-1], tuple(spans))


def test_rows_are_gathered_in_the_order_asked() -> None:
    asked = [14, 3, 14, 0, 9, 2]

    found = view(0, 5, 10, 15).gather(np.array(asked), SCHEMA)

    assert found.column(0).to_pylist() == asked


def test_nothing_asked_is_nothing_found() -> None:
    assert view(0, 5).gather(np.empty(0, np.int64), SCHEMA).num_rows == 0
    assert view(0, 5).locate(np.empty(0, np.int64)).are_live()


@pytest.mark.parametrize("offset", [3, 15, 99])
def test_row_that_is_not_there_is_told(offset: int) -> None:
    with pytest.raises(CorruptionError, match="not in the log"):
        view(5, 10, 15).locate(np.array([6, offset]))


def test_offsets_below_the_base_or_beyond_the_end_are_refused() -> None:
    one = view(0, 5, base=2)

    one.check_readable(2)
    one.check_readable(5)
    for x in (1, 6):
        with pytest.raises(OffsetOutOfRangeError):
            one.check_readable(x)
