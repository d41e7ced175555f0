"""Change types from outside: read, or refused with the row."""

from __future__ import annotations

import pyarrow as pa
import pytest

from penstock.engine.commit.change_types import change_types, retractions
from penstock.errors import InvalidError, SchemaMismatchError, UnsupportedError


def batch(*kinds: str | None) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"_change_type": pa.array(kinds, pa.string())})


def test_kinds_are_read() -> None:
    assert change_types(batch("+I", "-U", "+U", "-D", "+A")).to_pylist() == ["+I", "-U", "+U", "-D", "+A"]


@pytest.mark.parametrize("wrong", ["+X", "", None])
def test_unknown_kind_is_refused_with_its_row(wrong: str | None) -> None:
    with pytest.raises(InvalidError, match=r"row=1 change_type="):
        change_types(batch("+I", wrong))


def test_rows_without_kinds_are_refused() -> None:
    with pytest.raises(SchemaMismatchError, match="column=_change_type"):
        change_types(pa.RecordBatch.from_pydict({"id": [1]}))


def test_images_before_and_deletes_take_back() -> None:
    back = retractions(pa.array(["+I", "-U", "+U", "-D", "+A"]), [pa.array([1, 1, 1, None, 1])])

    assert back is not None
    assert back.tolist() == [False, True, False, True, False]


@pytest.mark.parametrize("kinds", [[], ["+I"], ["+A", "+I"]])
def test_nothing_is_taken_back_by_inserts(kinds: list[str]) -> None:
    assert retractions(pa.array(kinds, pa.string()), []) is None


def test_updates_without_images_before_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="row=1"):
        retractions(pa.array(["+I", "+U", "-D"]), [pa.array([1, 1, 1])])


@pytest.mark.parametrize("values", [[], [[1, None, None]], [[1, None, None], [None, None, None]]])
def test_deletes_without_images_before_are_refused(values: list[list[int | None]]) -> None:
    with pytest.raises(UnsupportedError, match=r"deletes .* row=1"):
        retractions(pa.array(["+I", "-D", "-D"]), [pa.array(column, pa.int64()) for column in values])


def test_delete_of_a_row_without_values_is_taken_among_others() -> None:
    back = retractions(pa.array(["-D", "-D"]), [pa.array([None, None]), pa.array([None, 1])])

    assert back is not None
    assert back.all()
