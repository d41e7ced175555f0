"""The table of functions: every row of it is true, and the guide has it."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyroaring import BitMap, BitMap64
from tests.kit.open_table import OpenTableRig, open_tables, write, write_batch

from penstock.engine.table.open_table import OpenTable
from penstock.errors import ArithmeticOverflowError, LimitError, PenstockError, UnsupportedError
from penstock.model.node.calls import Operation
from penstock.model.schema.aggregate import AggFunction, types_taken
from penstock.model.schema.schema import Schema
from penstock.tablet.merge.aggregates.registry import AGGREGATES, Aggregate, Excess, Nulls, Order

SAMPLES: dict[AggFunction, tuple[pa.DataType, list[Any]]] = {
    AggFunction.SUM: (pa.int64(), [3, 5, 7]),
    AggFunction.PRODUCT: (pa.int64(), [3, 5, 7]),
    AggFunction.COUNT: (pa.int64(), [3, 5, 7]),
    AggFunction.MIN: (pa.string(), ["b", "a", "c"]),
    AggFunction.MAX: (pa.string(), ["b", "c", "a"]),
    AggFunction.LAST_VALUE: (pa.int64(), [3, 5, 7]),
    AggFunction.LAST_VALUE_IGNORE_NULLS: (pa.int64(), [3, 5, 7]),
    AggFunction.FIRST_VALUE: (pa.int64(), [3, 5, 7]),
    AggFunction.FIRST_VALUE_IGNORE_NULLS: (pa.int64(), [3, 5, 7]),
    AggFunction.LISTAGG: (pa.string(), ["a", "b", "c"]),
    AggFunction.ARRAY_AGG: (pa.list_(pa.int64()), [[1], [2, None], [3]]),
    AggFunction.BOOL_AND: (pa.bool_(), [True, False, True]),
    AggFunction.BOOL_OR: (pa.bool_(), [False, True, False]),
    AggFunction.RBM32: (pa.binary(), [BitMap([1]).serialize(), BitMap([2]).serialize(), BitMap([9]).serialize()]),
    AggFunction.RBM64: (pa.binary(), [BitMap64([1]).serialize(), BitMap64([2]).serialize(), BitMap64([9]).serialize()]),
}
FOLDS: dict[AggFunction, Any] = {
    AggFunction.SUM: 15,
    AggFunction.PRODUCT: 105,
    AggFunction.COUNT: 3,
    AggFunction.MIN: "a",
    AggFunction.MAX: "c",
    AggFunction.LAST_VALUE: 7,
    AggFunction.LAST_VALUE_IGNORE_NULLS: 7,
    AggFunction.FIRST_VALUE: 3,
    AggFunction.FIRST_VALUE_IGNORE_NULLS: 3,
    AggFunction.LISTAGG: "a,b,c",
    AggFunction.ARRAY_AGG: [1, 2, None, 3],
    AggFunction.BOOL_AND: False,
    AggFunction.BOOL_OR: True,
    AggFunction.RBM32: BitMap([1, 2, 9]).serialize(),
    AggFunction.RBM64: BitMap64([1, 2, 9]).serialize(),
}
every_function = pytest.mark.parametrize("aggregate", AGGREGATES.values(), ids=lambda aggregate: aggregate.function)


def table_of(rig: OpenTableRig, aggregate: Aggregate, **properties: str) -> OpenTable:
    schema = Schema.builder().column("k", pa.int64())
    schema.agg_column("v", SAMPLES[aggregate.function][0], aggregate.function)
    named = {name.replace("__", ".").replace("_", "-"): value for name, value in properties.items()}
    number = len(rig.catalog.list_tables("default"))
    return rig.create(f"default.t{number}", schema.primary_key("k").build(), properties=named)


def value(table: OpenTable) -> Any:
    [view] = table.view.values()
    rows = [row for block in view.scan(view.visible, table.schema.user_columns) for row in block.batch.to_pylist()]
    return rows[0]["1"]


def fold(aggregate: Aggregate, *batches: list[Any]) -> Any:
    """Return what a column holds after these batches of inputs for one key."""
    with open_tables() as rig:
        table = table_of(rig, aggregate)
        for batch in batches:
            write(table, [{"k": 1, "v": one} for one in batch])
        return value(table)


def apply(table: OpenTable, changes: list[tuple[str, Any]]) -> None:
    schema = table.info.schema.arrow_schema.append(pa.field("_change_type", pa.string()))
    rows = [{"k": 1, "v": one, "_change_type": kind} for kind, one in changes]
    write_batch(table, pa.RecordBatch.from_pylist(rows, schema=schema), Operation.APPLY)


def test_every_function_has_a_row() -> None:
    assert list(AGGREGATES) == list(SAMPLES)
    assert set(AGGREGATES) == set(AggFunction)


def test_guide_has_the_table(repository: Path) -> None:
    guide = (repository / "docs/guide/aggregates.md").read_text().splitlines()

    rows = [
        f"| `{a.function}` | {types_taken(a.function)} | {a.nulls} | {'yes' if a.retracts else 'no'} "
        f"| {a.excess} | {a.order} |"
        for a in AGGREGATES.values()
    ]

    assert [line for line in guide if line.startswith("| `")] == rows


@every_function
def test_one_batch_folds_as_several_do(aggregate: Aggregate) -> None:
    inputs = SAMPLES[aggregate.function][1]

    at_once, apart = fold(aggregate, inputs), fold(aggregate, *[[one] for one in inputs])

    assert at_once == apart == FOLDS[aggregate.function]


@every_function
def test_null_does_what_the_table_says(aggregate: Aggregate) -> None:
    first, *rest = SAMPLES[aggregate.function][1]
    without = FOLDS[aggregate.function]

    nulls_only = fold(aggregate, [None, None], [None])
    among = fold(aggregate, [first, None, *rest], [None])
    leading = fold(aggregate, [None], [first, *rest])

    if aggregate.nulls is Nulls.TAKEN:
        last = aggregate.function is AggFunction.LAST_VALUE
        assert (nulls_only, among, leading) == (None, None if last else without, without if last else None)
    else:
        assert nulls_only == (0 if aggregate.nulls is Nulls.NOT_COUNTED else None)
        assert among == leading == without


@every_function
def test_order_matters_as_the_table_says(aggregate: Aggregate) -> None:
    inputs = SAMPLES[aggregate.function][1]

    results = [fold(aggregate, list(order)) for order in permutations(inputs)]

    assert any(result != results[0] for result in results) == (aggregate.order is Order.KEPT)


@every_function
def test_value_is_taken_back_as_the_table_says(aggregate: Aggregate) -> None:
    one, other, _ = SAMPLES[aggregate.function][1]
    with open_tables() as rig:
        table = table_of(rig, aggregate)
        write(table, [{"k": 1, "v": one}])
        before = value(table)

        if aggregate.retracts:
            apply(table, [("+I", other), ("-D", other)])
        else:
            with pytest.raises(UnsupportedError, match=r"aggregate.retract=ignore .*column=v key={'k': 1}"):
                apply(table, [("-D", other)])

        assert value(table) == before


@every_function
def test_value_that_cannot_be_taken_back_stands_if_told_so(aggregate: Aggregate) -> None:
    one, other, _ = SAMPLES[aggregate.function][1]
    with open_tables() as rig:
        table = table_of(rig, aggregate, aggregate__retract="ignore")
        write(table, [{"k": 1, "v": one}])

        apply(table, [("-D", one), ("+I", other)])

        assert value(table) == (fold(aggregate, [other]) if aggregate.retracts else fold(aggregate, [one, other]))


@every_function
def test_too_large_a_value_is_refused_as_the_table_says(aggregate: Aggregate) -> None:
    inputs = SAMPLES[aggregate.function][1]
    largest = (1 << 63) - 1
    expected: dict[Excess, type[PenstockError]] = {
        Excess.CHECKED: ArithmeticOverflowError,
        Excess.CAPPED: LimitError,
    }
    with open_tables() as rig:
        table = table_of(rig, aggregate, **{"aggregate__max-value-bytes": "1"})
        if aggregate.excess is Excess.NEVER:
            write(table, [{"k": 1, "v": one} for one in inputs])
            return
        if aggregate.excess is Excess.CHECKED:
            write(table, [{"k": 1, "v": largest}], agg_mode="replace")

        with pytest.raises(expected[aggregate.excess], match=r"column=v key={'k': 1}"):
            write(table, [{"k": 1, "v": one} for one in inputs])
