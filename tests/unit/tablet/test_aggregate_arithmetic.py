"""Sums and products at the edges of their types: exact on the way, checked at the end."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from tests.kit.open_table import open_tables, write

from penstock.errors import ArithmeticOverflowError
from penstock.model.schema.schema import Schema

INTEGERS = [pa.int8(), pa.int16(), pa.int32(), pa.int64()]
DECIMALS = [
    pa.decimal128(5, 2),
    pa.decimal128(18, 0),
    pa.decimal128(19, 0),
    pa.decimal128(38, 0),
    pa.decimal128(38, 38),
]


def fold(function: str, kind: pa.DataType, *batches: Sequence[Any], mode: str = "accumulate") -> Any:
    schema = Schema.builder().column("k", pa.int64()).agg_column("v", kind, function).primary_key("k").build()
    with open_tables() as rig:
        table = rig.create("default.t", schema)
        for batch in batches:
            write(table, [{"k": 1, "v": one} for one in batch], agg_mode=mode)
        [view] = table.view.values()
        [block] = list(view.scan(view.visible, table.schema.user_columns))
        return block.batch.column(1)[0].as_py()


def edges(kind: pa.DataType) -> tuple[Any, Any, Any]:
    """Return the least and the greatest value of a type, and its smallest step."""
    if pa.types.is_decimal(kind):
        greatest = Decimal((0, (9,) * kind.precision, -kind.scale))
        return greatest.copy_negate(), greatest, Decimal((0, (1,), -kind.scale))
    return -(1 << (kind.bit_width - 1)), (1 << (kind.bit_width - 1)) - 1, 1


@pytest.mark.parametrize("kind", [*INTEGERS, *DECIMALS], ids=str)
def test_sum_reaches_both_edges(kind: pa.DataType) -> None:
    least, greatest, step = edges(kind)

    assert fold("sum", kind, [greatest, -step], [step]) == greatest
    assert fold("sum", kind, [least, step], [-step]) == least


@pytest.mark.parametrize("kind", [*INTEGERS, *DECIMALS], ids=str)
def test_sum_one_step_beyond_an_edge_is_refused(kind: pa.DataType) -> None:
    least, greatest, step = edges(kind)

    for inputs in ([greatest, step], [least, -step]):
        with pytest.raises(ArithmeticOverflowError, match=r"column=v key={'k': 1}"):
            fold("sum", kind, inputs)
        with pytest.raises(ArithmeticOverflowError, match=r"column=v key={'k': 1}"):
            fold("sum", kind, inputs[:1], inputs[1:])


@pytest.mark.parametrize("kind", [*INTEGERS, *DECIMALS], ids=str)
def test_sum_may_leave_its_type_on_the_way(kind: pa.DataType) -> None:
    least, greatest, step = edges(kind)
    back = [least] * 100 if pa.types.is_decimal(kind) else [least, step] * 100

    assert fold("sum", kind, [greatest] * 101 + back) == greatest
    assert fold("sum", kind, [greatest], [greatest] * 100 + back) == greatest


@pytest.mark.parametrize("kind", INTEGERS, ids=str)
def test_product_reaches_both_edges(kind: pa.DataType) -> None:
    least, greatest, _ = edges(kind)

    assert fold("product", kind, [greatest, 1, 1]) == greatest
    assert fold("product", kind, [least // 2, 2]) == least
    assert fold("product", kind, [least // 2], [-1, -2, 1]) == least


@pytest.mark.parametrize("kind", INTEGERS, ids=str)
def test_product_beyond_an_edge_is_refused(kind: pa.DataType) -> None:
    least, greatest, _ = edges(kind)

    for inputs in ([greatest // 2 + 1, 2], [least, -1], [greatest] * 50, [least // 2 - 1, 2]):
        with pytest.raises(ArithmeticOverflowError, match=r"column=v key={'k': 1}"):
            fold("product", kind, inputs)


@pytest.mark.parametrize("kind", [*INTEGERS, *DECIMALS[:4]], ids=str)
def test_zero_makes_up_for_a_product_that_was_too_large(kind: pa.DataType) -> None:
    _, greatest, _ = edges(kind)

    assert fold("product", kind, [greatest] * 60 + [greatest - greatest]) == 0


def test_product_of_primes_near_the_edge_is_exact() -> None:
    inputs = [7, 7, 73, 127, 337, 92737, 649657]

    assert fold("product", pa.int64(), inputs) == math.prod(inputs) == (1 << 63) - 1


def test_product_of_decimals_is_rounded_half_away_from_zero() -> None:
    kind = pa.decimal128(10, 2)

    assert fold("product", kind, [Decimal("0.05"), Decimal("0.50")]) == Decimal("0.03")
    assert fold("product", kind, [Decimal("-0.05")], [Decimal("0.50")]) == Decimal("-0.03")


def test_product_of_decimals_does_not_depend_on_batches() -> None:
    kind = pa.decimal128(10, 2)
    inputs = [Decimal(text) for text in ("1.15", "0.33", "7.77", "-0.05", "12.34")]

    assert fold("product", kind, inputs) == fold("product", kind, *[[one] for one in inputs])


def test_product_of_decimals_may_leave_its_type_on_the_way() -> None:
    kind = pa.decimal128(4, 2)

    assert fold("product", kind, [Decimal("99.00"), Decimal("50.00"), Decimal("0.01")]) == Decimal("49.50")
    with pytest.raises(ArithmeticOverflowError):
        fold("product", kind, [Decimal("99.00"), Decimal("2.00")])


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()], ids=str)
def test_floats_overflow_to_infinity(kind: pa.DataType) -> None:
    largest = 3e38 if kind == pa.float32() else 1.7e308

    assert fold("sum", kind, [largest, largest]) == math.inf
    assert fold("product", kind, [largest, -largest]) == -math.inf
    assert math.isnan(fold("sum", kind, [math.inf, -math.inf]))


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()], ids=str)
def test_nan_is_greater_than_every_number(kind: pa.DataType) -> None:
    assert math.isnan(fold("max", kind, [1.0, math.nan], [math.inf]))
    assert fold("min", kind, [math.nan], [1.0, math.inf]) == 1.0
    assert math.isnan(fold("min", kind, [math.nan]))


@pytest.mark.parametrize("kind", [pa.int32(), pa.int64()], ids=str)
def test_count_is_checked_too(kind: pa.DataType) -> None:
    _, greatest, _ = edges(kind)

    assert fold("count", kind, [greatest - 1], [1], mode="merge_state") == greatest
    with pytest.raises(ArithmeticOverflowError):
        fold("count", kind, [greatest], [1], mode="merge_state")


@pytest.mark.parametrize("kind", [*INTEGERS, *DECIMALS], ids=str)
def test_extremes_compare_edges(kind: pa.DataType) -> None:
    least, greatest, step = edges(kind)

    assert fold("max", kind, [least, greatest, step], [least]) == greatest
    assert fold("min", kind, [greatest], [step, least, greatest]) == least
