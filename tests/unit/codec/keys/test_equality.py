"""Null-safe equality of rows: scalars, floats by their bits, nested values, slices."""

from __future__ import annotations

import math
import random
import struct
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.codec.keys.equality import rows_equal

NAN = float("nan")

SCALARS: list[tuple[pa.DataType, Any, Any]] = [
    (pa.bool_(), True, False),
    (pa.int8(), -1, 1),
    (pa.int64(), 1 << 62, -(1 << 62)),
    (pa.uint32(), 0, (1 << 32) - 1),
    (pa.float16(), np.float16(1.5), np.float16(2.5)),
    (pa.float32(), 1.5, 2.5),
    (pa.float64(), 1.5, 2.5),
    (pa.decimal128(38, 4), Decimal("1.0001"), Decimal("-1.0001")),
    (pa.string(), "Ulm", "ulm"),
    (pa.large_string(), "", "ä"),
    (pa.binary(), b"\x00", b""),
    (pa.large_binary(), b"ab", b"ac"),
    (pa.date32(), date(2024, 1, 1), date(2024, 1, 2)),
    (pa.timestamp("us"), datetime(2024, 1, 1), datetime(2024, 1, 1, 0, 0, 1)),
    (pa.timestamp("us", "UTC"), datetime(2024, 1, 1), datetime(2024, 1, 1, 0, 0, 1)),
]


@pytest.mark.parametrize(("kind", "one", "other"), SCALARS, ids=[str(kind) for kind, _, _ in SCALARS])
def test_scalars_are_equal_by_value_and_nulls_only_to_nulls(kind: pa.DataType, one: Any, other: Any) -> None:
    left = pa.array([one, one, None, None, other, one], kind)
    right = pa.array([one, other, None, one, None, one], kind)
    assert rows_equal(left, right).tolist() == [True, False, True, False, False, True]
    assert rows_equal(left[1:4], right[1:4]).tolist() == [False, True, False]


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()], ids=str)
def test_signed_zeros_differ_and_nans_are_one_value(kind: pa.DataType) -> None:
    left = pa.array([0.0, NAN, -0.0, NAN, math.inf], kind)
    right = pa.array([-0.0, NAN, -0.0, 1.0, math.inf], kind)
    assert rows_equal(left, right).tolist() == [False, True, True, False, True]


def test_nans_of_any_payload_are_equal() -> None:
    payload = struct.unpack("<d", struct.pack("<Q", 0x7FF8_0000_0000_0123))[0]
    assert rows_equal(pa.array([payload]), pa.array([NAN])).tolist() == [True]


def test_lists_compare_lengths_elements_and_inner_nulls() -> None:
    left = pa.array([[1, 2], [], [1, None], None, [1], [NAN], [3]], pa.list_(pa.float64()))
    right = pa.array([[1, 2], [], [1, 0], [], [1, 1], [NAN], [4]], pa.list_(pa.float64()))
    assert rows_equal(left, right).tolist() == [True, True, False, False, False, True, False]


def test_what_stands_under_a_null_does_not_count() -> None:
    mask = pa.array([True, False])
    left = pa.ListArray.from_arrays(pa.array([0, 2, 3], pa.int32()), pa.array([1, 2, 3]), mask=mask)
    right = pa.ListArray.from_arrays(pa.array([0, 1, 2], pa.int32()), pa.array([9, 3]), mask=mask)
    assert rows_equal(left, right).tolist() == [True, True]
    inner = [pa.StructArray.from_arrays([pa.array([n, 5])], ["x"], mask=mask) for n in (1, 2)]
    assert rows_equal(*inner).tolist() == [True, True]


def test_maps_compare_entries_in_order() -> None:
    kind = pa.map_(pa.string(), pa.int32())
    left = pa.array([[("a", 1), ("b", 2)], [("a", 1), ("b", 2)], [("a", None)], None, []], kind)
    right = pa.array([[("a", 1), ("b", 2)], [("b", 2), ("a", 1)], [("a", None)], None, [("a", 1)]], kind)
    assert rows_equal(left, right).tolist() == [True, False, True, True, False]


def test_columns_of_nulls_are_equal() -> None:
    assert rows_equal(pa.nulls(3), pa.nulls(3)).tolist() == [True] * 3


NESTED: list[pa.DataType] = [
    pa.list_(pa.string()),
    pa.large_list(pa.list_(pa.float64())),
    pa.struct([("a", pa.int32()), ("b", pa.list_(pa.struct([("c", pa.string()), ("d", pa.float32())])))]),
    pa.map_(pa.string(), pa.list_(pa.int64())),
    pa.list_(pa.map_(pa.int32(), pa.struct([("e", pa.bool_()), ("f", pa.decimal128(20, 2))]))),
    pa.struct([]),
]


def some_value(kind: pa.DataType, rng: random.Random, nullable: bool = True) -> Any:
    if nullable and rng.random() < 0.2:
        return None
    if pa.types.is_map(kind):
        pairs = range(rng.randrange(3))
        return [(some_value(kind.key_type, rng, False), some_value(kind.item_type, rng)) for _ in pairs]
    if pa.types.is_struct(kind):
        return {kind.field(i).name: some_value(kind.field(i).type, rng) for i in range(kind.num_fields)}
    if pa.types.is_nested(kind):
        return [some_value(kind.value_type, rng) for _ in range(rng.randrange(3))]
    if pa.types.is_decimal(kind):
        return Decimal(rng.choice(["0.00", "-1.25"]))
    if pa.types.is_floating(kind):
        return rng.choice([0.0, -0.0, NAN])
    if pa.types.is_boolean(kind):
        return rng.choice([False, True])
    return rng.choice(["", "ab"]) if pa.types.is_string(kind) else rng.choice([0, 1])


def canonical(value: Any) -> Any:
    """A form in which Python's equality is ours."""
    if isinstance(value, float):
        return "nan" if math.isnan(value) else struct.pack("<d", value)
    if isinstance(value, dict):
        return {name: canonical(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [canonical(item) for item in value]
    return value


@pytest.mark.parametrize("kind", NESTED, ids=str)
def test_nested_rows_agree_with_an_oracle_on_slices_too(kind: pa.DataType) -> None:
    seed = 77
    print(f"seed={seed}")
    rng = random.Random(seed)
    for _ in range(40):
        values = [[some_value(kind, rng) for _ in range(30)] for _ in range(2)]
        # Enough rows must be equal for the comparison of elements to matter.
        values[1] = [a if rng.random() < 0.5 else b for a, b in zip(*values, strict=True)]
        left, right = (pa.array(column, kind) for column in values)
        start, end = sorted((rng.randrange(31), rng.randrange(31)))
        expected = [canonical(a) == canonical(b) for a, b in zip(left.to_pylist(), right.to_pylist(), strict=True)]
        assert rows_equal(left, right).tolist() == expected
        assert rows_equal(left[start:end], right[start:end]).tolist() == expected[start:end]
        shifted = pa.concat_arrays([left[:start], right])[start:]
        assert rows_equal(left, shifted).tolist() == expected
