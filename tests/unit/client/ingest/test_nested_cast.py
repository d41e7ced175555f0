"""Nested values change their type level by level; what lies under a null counts for nothing."""

from __future__ import annotations

import pyarrow as pa
import pytest

from penstock.client.ingest.nested_cast import cast_nested

NEVER_NULL = pa.struct([pa.field("x", pa.int64(), nullable=False), pa.field("names", pa.list_(pa.large_string()))])


def test_a_null_struct_may_have_a_field_that_is_never_null() -> None:
    rows = [None, {"x": 1, "names": ["a", None]}, {"x": 2, "names": None}]
    nullable = pa.array(rows, pa.struct([("x", pa.int32()), ("names", pa.list_(pa.string()))]))

    made = cast_nested(nullable, NEVER_NULL)

    assert made.type == NEVER_NULL
    assert made.to_pylist() == rows
    made.validate(full=True)


@pytest.mark.parametrize(
    ("source", "target", "rows"),
    [
        (pa.list_(pa.int32()), pa.large_list(pa.int64()), [[1, None], None, [], [2]]),
        (pa.large_list(pa.int32()), pa.list_(pa.int64()), [[1, None], None, [], [2]]),
        (pa.list_(pa.int32(), 2), pa.list_(pa.int64()), [[1, None], None, [3, 4], [5, 6]]),
        (
            pa.map_(pa.string(), pa.int8()),
            pa.map_(pa.large_string(), pa.int64()),
            [[("k", 1)], None, [], [("z", None)]],
        ),
        (
            pa.struct([("a", pa.int32()), ("b", pa.list_(pa.struct([("c", pa.int8()), ("d", pa.string())])))]),
            pa.struct([("b", pa.list_(pa.struct([("d", pa.string()), ("c", pa.int64())]))), ("a", pa.int64())]),
            [{"a": 1, "b": [{"c": 1, "d": "x"}, None]}, None, {"a": None, "b": []}, {"a": 2, "b": None}],
        ),
    ],
    ids=["list", "large list", "fixed-size list", "map", "fields in another order"],
)
def test_slices_and_nulls_at_every_level_come_through(source: pa.DataType, target: pa.DataType, rows: object) -> None:
    values = pa.array(rows, source)

    for start in range(4):
        made = cast_nested(values.slice(start, 2), target)
        made.validate(full=True)
        assert made.type == target
        assert made.to_pylist() == values.slice(start, 2).to_pylist()


def test_a_value_outside_of_a_slice_is_not_looked_at() -> None:
    values = pa.array([[300], [1]], pa.list_(pa.int32()))

    assert cast_nested(values.slice(1), pa.list_(pa.int8())).to_pylist() == [[1]]
    with pytest.raises(pa.ArrowInvalid, match="300"):
        cast_nested(values, pa.list_(pa.int8()))
