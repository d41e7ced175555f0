"""One task's write: calls of a good size, in order, each once."""

from __future__ import annotations

import pyarrow as pa
import pytest

from penstock.spark.writing.task_writer import CALL_BYTES, joined


def numbers(start: int, end: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"n": pa.array(range(start, end), pa.int64())})


@pytest.mark.parametrize("size", [1, 7, 100, 1000])
def test_batches_are_joined_to_calls_in_order(size: int) -> None:
    calls = list(joined((numbers(start, start + 10) for start in range(0, 200, 10)), size))

    assert [n for call in calls for n in call.column("n").to_pylist()] == list(range(200))
    assert max(call.num_rows for call in calls) <= max(size, 10)
    assert len(calls) == max(1, 200 // max(10, size // 10 * 10))


def test_no_rows_make_no_call() -> None:
    assert list(joined([], 10)) == []
    assert list(joined([numbers(0, 0)], 10)) == []


def test_a_batch_too_large_for_a_call_is_cut() -> None:
    wide = pa.RecordBatch.from_pydict({"s": ["x" * (CALL_BYTES // 4)] * 20})

    calls = list(joined([wide], 1000))

    assert sum(call.num_rows for call in calls) == 20
    assert all(call.nbytes <= 2 * CALL_BYTES for call in calls)
    assert len(calls) > 1
