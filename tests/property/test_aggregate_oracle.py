"""Aggregating tables beside a plain-Python fold: random batches, nulls, retractions, columns, modes, edges.

Each case is one seed of one column; its id replays it: `pytest -k "sum-int64-1"`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.types as pat
import pytest
from pyroaring import BitMap, BitMap64
from tests.kit.aggregate_oracle import AggregateOracle, same
from tests.kit.open_table import OpenTableRig, open_tables

from penstock.engine.table.open_table import OpenTable
from penstock.errors import InvalidError
from penstock.model.node.calls import Operation, WriteCall
from penstock.model.node.principal import LOCAL
from penstock.model.schema.agg_mode import AggMode
from penstock.model.schema.aggregate import AggFunction, check_takes
from penstock.model.schema.schema import Column, Schema

STEPS = 30
KEYS = 6
TYPES = (
    pa.bool_(),
    pa.int8(),
    pa.int16(),
    pa.int32(),
    pa.int64(),
    pa.float32(),
    pa.float64(),
    pa.decimal128(5, 2),
    pa.decimal128(18, 4),
    pa.decimal128(38, 0),
    pa.decimal128(38, 38),
    pa.string(),
    pa.large_string(),
    pa.binary(),
    pa.large_binary(),
    pa.date32(),
    pa.timestamp("us"),
    pa.timestamp("us", tz="UTC"),
    pa.list_(pa.int64()),
    pa.large_list(pa.string()),
    pa.struct([pa.field("a", pa.int64()), pa.field("b", pa.string())]),
    pa.map_(pa.string(), pa.int64()),
)
EDGES = 0.06
"""How often a number is at the edge of its type."""


def takes(function: AggFunction, kind: pa.DataType) -> bool:
    try:
        check_takes(function, "v", kind)
    except InvalidError:
        return False
    return True


CASES = [
    pytest.param(function, kind, seed, id=f"{function}-{kind}-{seed}")
    for function in AggFunction
    for kind in TYPES
    if takes(function, kind)
    for seed in range(2)
]


class Life:
    """Random writes of one table and of its oracle."""

    def __init__(self, rig: OpenTableRig, schema: Schema, seed: int, properties: Mapping[str, str]) -> None:
        self.random = Random(seed)
        self.rig = rig
        self.table: OpenTable = rig.create("default.t", schema, buckets=2, properties=properties)
        self.oracle = AggregateOracle(self.table.info.schema, self.table.info.options)

    def step(self) -> None:
        chosen = self.random.choices([self.upsert, self.apply, self.delete, self.clear, self.settle], [60, 25, 5, 5, 5])
        chosen[0]()
        self.check()

    def upsert(self) -> None:
        mode = self.random.choices(list(AggMode), [70, 15, 15])[0]
        columns = self.columns()
        rows = self.rows(self.random.choice((0, 1, 3, 12)))
        self.both(Operation.UPSERT, rows, columns, mode)

    def apply(self) -> None:
        rows = self.rows(self.random.choice((1, 4, 12)))
        back = [self.random.random() < 0.4 for _ in rows]
        self.both(Operation.APPLY, rows, None, AggMode.ACCUMULATE, back)

    def both(
        self,
        operation: Operation,
        rows: Sequence[dict[str, Any]],
        columns: list[str] | None,
        mode: AggMode,
        back: Sequence[bool] | None = None,
    ) -> None:
        """Write to table and oracle: both take it and count alike, or both refuse it.

        Where several rows are wrong, each may name another one first.
        """
        schema = self.table.info.schema
        names = schema.names if columns is None else [*schema.primary_key, *columns]
        batch = pa.RecordBatch.from_pylist(
            [{name: row[name] for name in names} for row in rows],
            schema=pa.schema([schema.arrow_schema.field(name) for name in names]),
        )
        if back is not None:
            # A delete without values would be taken for one of a stream without images before.
            kinds = ["-U" if gone else "+I" for gone in back]
            batch = batch.append_column("_change_type", pa.array(kinds, pa.string()))
        named = None if columns is None else tuple(columns)
        info = self.table.info
        call = WriteCall(info.table_id, info.schema_id, operation, batch, named, mode)
        try:
            changes, ignored = self.oracle.write(rows, columns, mode, back)
        except InvalidError:
            with pytest.raises(InvalidError) as raised:
                self.table.write(call, principal=LOCAL)
            assert raised.value.facts.keys() >= {"column", "key"}
            return
        result = self.table.write(call, principal=LOCAL)
        assert (result.rows, result.changes, result.ignored) == (len(rows), changes, ignored)

    def delete(self) -> None:
        self.keyed(None)
        self.oracle.delete(self.keys)

    def clear(self) -> None:
        columns = self.columns() or [self.table.info.schema.value_columns[0].name]
        self.keyed(tuple(columns))
        self.oracle.clear(self.keys, columns)

    def keyed(self, columns: tuple[str, ...] | None) -> None:
        self.keys = [{"k": self.random.randrange(KEYS)} for _ in range(2)]
        batch = pa.RecordBatch.from_pylist(self.keys, schema=pa.schema([pa.field("k", pa.int64())]))
        info = self.table.info
        self.table.write(WriteCall(info.table_id, info.schema_id, Operation.DELETE, batch, columns), principal=LOCAL)

    def settle(self) -> None:
        """Move rows into files, so that old values are gathered from there too."""
        self.rig.seal(self.table)

    def check(self) -> None:
        found = {}
        names = self.table.info.schema.names
        for view in self.table.view.values():
            for block in view.scan(view.visible, self.table.schema.user_columns):
                for row in block.batch.rename_columns(names).to_pylist():
                    found[(row.pop("k"),)] = row
        assert found.keys() == self.oracle.rows.keys()
        for key, row in found.items():
            assert same(row, self.oracle.rows[key]), (key, row, self.oracle.rows[key])

    def columns(self) -> list[str] | None:
        names = [column.name for column in self.table.info.schema.value_columns]
        return self.random.sample(names, self.random.randint(1, len(names))) if self.random.random() < 0.3 else None

    def rows(self, count: int) -> list[dict[str, Any]]:
        columns = self.table.info.schema.value_columns
        return [
            {"k": self.random.randrange(KEYS)} | {c.name: random_value(self.random, c) for c in columns}
            for _ in range(count)
        ]


def random_value(random: Random, column: Column) -> Any:
    """Return a value for a column; floats are such that their sums and products are exact."""
    if random.random() < 0.2:
        return None
    kind, function = column.type, column.agg
    if function in (AggFunction.RBM32, AggFunction.RBM64):
        bitmap = BitMap if function is AggFunction.RBM32 else BitMap64
        return bitmap(
            [random.randrange(1 << random.choice((3, 20, 31))) for _ in range(random.randrange(4))]
        ).serialize()
    if function is AggFunction.PRODUCT:
        return random_factor(random, kind)
    return random_of(random, kind)


def random_factor(random: Random, kind: pa.DataType) -> Any:
    if pat.is_floating(kind):
        return random.choice((-2.0, -1.0, 0.5, 1.0, 2.0, 0.0))
    if pat.is_decimal(kind):
        largest = 10**kind.precision - 1
        unscaled = random.choice((0, 1, -3, 7, 10**kind.scale, largest, random.randint(-largest, largest)))
        return scaled(max(-largest, min(largest, unscaled)), kind)
    return random.choice((0, 1, -1, 2, -3, 5, -(1 << (kind.bit_width - 1)), (1 << (kind.bit_width - 1)) - 1))


def random_of(random: Random, kind: pa.DataType) -> Any:
    if pat.is_boolean(kind):
        return random.random() < 0.5
    if pat.is_integer(kind):
        largest = (1 << (kind.bit_width - 1)) - 1
        return random.choice((-largest - 1, largest)) if random.random() < EDGES else random.randint(-9, 9)
    if pat.is_floating(kind):
        return random.choice((-0.0, 0.0)) if random.random() < EDGES else random.randint(-4000, 4000) / 4
    if pat.is_decimal(kind):
        largest = 10**kind.precision - 1
        unscaled = random.choice((-largest, largest)) if random.random() < EDGES else random.randint(-9, 9)
        return scaled(unscaled, kind)
    if pat.is_date(kind):
        return date(2026, 1, 1) + timedelta(days=random.randint(-40_000, 40_000))
    if pat.is_timestamp(kind):
        naive = datetime(2026, 1, 1) + timedelta(microseconds=random.randint(-(10**15), 10**15))
        return naive.replace(tzinfo=UTC) if kind.tz else naive
    if pat.is_struct(kind):
        return {"a": random.randrange(3), "b": random.choice((None, "x"))}
    if pat.is_map(kind):
        return [(name, random.randrange(3)) for name in random.sample("abc", random.randrange(3))]
    if pat.is_list(kind) or pat.is_large_list(kind):
        return [random.choice((None, random_of(random, kind.value_type))) for _ in range(random.randrange(4))]
    text = "".join(random.choice("aäß🚰b") for _ in range(random.randrange(5)))
    return text.encode() if pat.is_binary(kind) or pat.is_large_binary(kind) else text


def scaled(unscaled: int, kind: pa.DataType) -> Decimal:
    return Context(prec=38).scaleb(Decimal(unscaled), -kind.scale)


@pytest.mark.parametrize(("function", "kind", "seed"), CASES)
def test_column_holds_the_fold_of_all_that_was_written(function: AggFunction, kind: pa.DataType, seed: int) -> None:
    builder = Schema.builder().column("k", pa.int64()).agg_column("v", kind, function)
    schema = builder.agg_column("other", pa.float64(), "sum").primary_key("k").build()
    properties = {"delete.behavior": "allow", "aggregate.retract": "ignore", "aggregate.max-value-bytes": "60"}

    with open_tables() as rig:
        life = Life(rig, schema, seed, properties)
        for _ in range(STEPS):
            life.step()


@pytest.mark.parametrize("seed", range(20))
def test_columns_of_every_function_fold_side_by_side(seed: int) -> None:
    random = Random(seed)
    builder = Schema.builder().column("k", pa.int64()).agg_column("n", pa.int64(), "count")
    for number, function in enumerate(random.sample(list(AggFunction), 6)):
        kind = random.choice([kind for kind in TYPES if takes(function, kind)])
        builder.agg_column(f"v{number}", kind, function)
    retract = random.choice(("error", "ignore"))
    properties = {"delete.behavior": "allow", "aggregate.retract": retract, "aggregate.delete-at-zero": "n"}

    with open_tables() as rig:
        life = Life(rig, builder.primary_key("k").build(), seed, properties)
        for _ in range(STEPS):
            life.step()
