from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from penstock.client.ingest.cast import cast_array, cast_objects, castable
from penstock.errors import SchemaMismatchError

DAY = dt.date(2024, 2, 29)
MOMENT = dt.datetime(2024, 2, 29, 12, 30, 0, 5)
ZONED = MOMENT.replace(tzinfo=dt.UTC)


@pytest.mark.parametrize(
    ("values", "target"),
    [
        (pa.array([1, None, 2], pa.int32()), pa.int64()),
        (pa.array([1, 127], pa.int64()), pa.int8()),
        (pa.array([7], pa.uint64()), pa.int64()),
        (pa.array([1.0, None], pa.float64()), pa.int64()),
        (pa.array([1.5], pa.float64()), pa.float32()),
        (pa.array([1.5, float("nan")], pa.float32()), pa.float64()),
        (pa.array([3], pa.int64()), pa.float64()),
        (pa.array([12, None], pa.int64()), pa.decimal128(4, 2)),
        (pa.array([Decimal("1.50")]), pa.decimal128(18, 4)),
        (pa.array(["a", None]), pa.large_string()),
        (pa.array(["a"], pa.large_string()), pa.string()),
        (pa.array(["a"], pa.string_view()), pa.string()),
        (pa.array(["a", "a"]).dictionary_encode(), pa.string()),
        (pa.array([b"a"], pa.binary(1)), pa.binary()),
        (pa.array([5], pa.timestamp("ms")), pa.timestamp("us")),
        (pa.array([5_000], pa.timestamp("ns")), pa.timestamp("us")),
        (pa.array([5], pa.timestamp("us")), pa.timestamp("us", "UTC")),
        (pa.array([5], pa.timestamp("us", "Europe/Berlin")), pa.timestamp("us", "UTC")),
        (pa.array([DAY], pa.date64()), pa.date32()),
        (pa.array([0], pa.timestamp("ns")), pa.date32()),
        (pa.array([[1], None], pa.list_(pa.int32())), pa.list_(pa.int64())),
        (pa.array([["a"]], pa.large_list(pa.large_string())), pa.list_(pa.string())),
        (pa.array([{"a": 1}], pa.struct([("a", pa.int32())])), pa.struct([("a", pa.int64())])),
        (pa.nulls(3), pa.list_(pa.string())),
    ],
)
def test_a_cast_without_loss_is_done(values: pa.Array, target: pa.DataType) -> None:
    result = cast_array(values, pa.field("x", target))

    assert result.type == target
    assert len(result) == len(values)
    assert result.null_count == values.null_count


@pytest.mark.parametrize(
    ("values", "target", "row"),
    [
        (pa.array([1, 2, 300], pa.int64()), pa.int8(), 2),
        (pa.array([1.0, 2.5]), pa.int64(), 1),
        (pa.array([1.5, 0.1]), pa.float32(), 1),
        (pa.array([1, 2**53 + 1]), pa.float64(), 1),
        (pa.array([1, 100]), pa.decimal128(3, 2), 1),
        (pa.array([Decimal("1.00"), Decimal("1.25")]), pa.decimal128(18, 1), 1),
        (pa.array([1_000, 1_001], pa.timestamp("ns")), pa.timestamp("us"), 1),
        (pa.array([0, 1], pa.timestamp("us")), pa.date32(), 1),
        (pa.array([[1], [2**40]]), pa.list_(pa.int32()), 1),
    ],
)
def test_a_value_that_would_be_lost_is_refused_by_row(values: pa.Array, target: pa.DataType, row: int) -> None:
    with pytest.raises(SchemaMismatchError, match=f"does not fit its column .* column=x row={row} value=.* wanted="):
        cast_array(values, pa.field("x", target))


@pytest.mark.parametrize(
    ("source", "target"),
    [
        (pa.string(), pa.int64()),
        (pa.int64(), pa.string()),
        (pa.bool_(), pa.int32()),
        (pa.int32(), pa.bool_()),
        (pa.float64(), pa.decimal128(18, 2)),
        (pa.decimal128(18, 2), pa.float64()),
        (pa.binary(), pa.string()),
        (pa.timestamp("us", "UTC"), pa.timestamp("us")),
        (pa.timestamp("us", "UTC"), pa.date32()),
        (pa.date32(), pa.timestamp("us")),
        (pa.int64(), pa.timestamp("us")),
        (pa.list_(pa.float64()), pa.list_(pa.float32())),
        (pa.list_(pa.float64()), pa.list_(pa.int64())),
        (pa.list_(pa.int64()), pa.int64()),
        (pa.struct([("a", pa.int64())]), pa.struct([("b", pa.int64())])),
        (pa.struct([("a", pa.int64()), ("b", pa.int64())]), pa.struct([("a", pa.int64())])),
    ],
)
def test_a_type_without_place_is_refused_by_name(source: pa.DataType, target: pa.DataType) -> None:
    assert not castable(source, target)

    with pytest.raises(SchemaMismatchError, match="cannot take without loss; cast it first column=x type="):
        cast_array(pa.nulls(1, source), pa.field("x", target))


@pytest.mark.parametrize(
    ("value", "target", "expected"),
    [
        (5, pa.int16(), 5),
        (5.0, pa.int64(), 5),
        (5, pa.float64(), 5.0),
        (5, pa.decimal128(18, 2), Decimal("5.00")),
        (Decimal("5.1"), pa.decimal128(18, 2), Decimal("5.10")),
        ("x", pa.large_string(), "x"),
        (b"x", pa.binary(), b"x"),
        (True, pa.bool_(), True),
        (DAY, pa.date32(), DAY),
        (MOMENT, pa.timestamp("us"), MOMENT),
        (MOMENT, pa.timestamp("us", "UTC"), ZONED),
        (ZONED, pa.timestamp("us", "UTC"), ZONED),
        ([1, None], pa.list_(pa.int32()), [1, None]),
        ({"b": "x", "a": 1}, pa.struct([("a", pa.int32()), ("b", pa.string())]), {"a": 1, "b": "x"}),
        ([("k", 1)], pa.map_(pa.string(), pa.int64()), [("k", 1)]),
    ],
)
def test_python_values_take_the_columns_type(value: Any, target: pa.DataType, expected: Any) -> None:
    result = cast_objects([value, None], pa.field("x", target))

    assert result.type == target
    assert result.to_pylist() == [expected, None]


def test_a_python_float_is_rounded_into_a_float_column() -> None:
    assert cast_objects([0.1], pa.field("x", pa.float32())).equals(pa.array([0.1], pa.float32()))


@pytest.mark.parametrize(
    ("good", "bad", "target"),
    [
        (1, 1.5, pa.int64()),
        (1, "1", pa.int64()),
        (1, True, pa.int64()),
        (1, 2**70, pa.int64()),
        (1, 2**40, pa.int32()),
        ("x", 1, pa.string()),
        ("x", b"x", pa.string()),
        ("x", "\ud800", pa.string()),
        (1.0, 1e300, pa.float32()),
        (DAY, MOMENT, pa.date32()),
        (MOMENT, DAY, pa.timestamp("us")),
        (MOMENT, 5, pa.timestamp("us")),
        (Decimal("1.1"), Decimal("1.11"), pa.decimal128(18, 1)),
        (["x"], [1], pa.list_(pa.string())),
        ([1], [1.5], pa.list_(pa.int64())),
        ({"a": 1}, {"a": 1, "z": 2}, pa.struct([("a", pa.int64())])),
        ([("k", 1)], [("k", "x")], pa.map_(pa.string(), pa.int64())),
    ],
)
def test_a_python_value_that_does_not_fit_is_refused_by_row(good: Any, bad: Any, target: pa.DataType) -> None:
    with pytest.raises(SchemaMismatchError, match=r"does not fit its column \(.*\) column=x row=3 value=.* wanted="):
        cast_objects([good, None, good, bad, good], pa.field("x", target))
