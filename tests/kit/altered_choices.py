"""Alterations drawn at random: how one is made, what columns there are then, and which column it needs for itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from random import Random
from typing import Any, Final

import pyarrow as pa
from tests.kit.altered_oracle import AlteredOracle, OracleColumn

from penstock.client.table import Table

Planned = tuple[Callable[[Table], object], list[OracleColumn], int | None]
KINDS: Final = (
    (pa.int32(), pa.int64()),
    (pa.float32(), pa.float64()),
    (pa.decimal128(6, 2), pa.decimal128(12, 2)),
    (pa.string(), pa.large_string()),
)


def value_of(random: Random, kind: pa.DataType) -> Any:
    """Return a value of a type, often one that no narrower type holds."""
    if random.random() < 0.1:
        return None
    number = random.randrange(-50, 50)
    if pa.types.is_int32(kind):
        return number
    if pa.types.is_int64(kind):
        return number << random.choice((0, 40))
    if pa.types.is_float32(kind):
        return number / 4
    if pa.types.is_float64(kind):
        return number / random.choice((4, 10))
    if pa.types.is_decimal(kind):
        return Decimal(number).scaleb(-2) * (10**6 if kind.precision > 6 and random.random() < 0.5 else 1)
    return f"t{number}"


def added(random: Random, oracle: AlteredOracle) -> Planned | None:
    """Return how a column is added. None: nothing is there for it."""
    if len(oracle.columns) >= 6:
        return None
    kind = random.choice(random.choice(KINDS))
    gone = {name for name in "abcxyz" if all(c.name != name for c in oracle.columns)}
    name = random.choice(sorted(gone))
    default = value_of(random, kind) if random.random() < 0.7 else None
    column = OracleColumn(oracle.ids, name, kind, default, added=True)
    oracle.ids += 1
    return lambda t: t.add_column(name, kind, default=default), [*oracle.columns, column], None


def chosen(random: Random, oracle: AlteredOracle) -> OracleColumn | None:
    """Return a column that may change, None if there is none."""
    free = [c for c in oracle.columns if c.name != "ver"]
    return random.choice(free) if free else None


def renamed(random: Random, oracle: AlteredOracle) -> Planned | None:
    """Return how a column gets another name. None: nothing is there for it."""
    column = chosen(random, oracle)
    free = [name for name in "abcxyz" if all(c.name != name for c in oracle.columns)]
    if column is None or not free:
        return None
    name = random.choice(free)
    columns = [replace(c, name=name) if c.id == column.id else c for c in oracle.columns]
    return lambda t: t.rename_column(column.name, name), columns, None


def dropped(random: Random, oracle: AlteredOracle) -> Planned | None:
    """Return how a column goes. None: nothing is there for it."""
    column = chosen(random, oracle)
    if column is None or len(oracle.columns) < 2:
        return None
    left = [c for c in oracle.columns if c.id != column.id]
    return lambda t: t.drop_column(column.name), left, column.id


def widened(random: Random, oracle: AlteredOracle) -> Planned | None:
    """Return how a column gets a wider type. None: nothing is there for it."""
    wider = dict(KINDS)
    able = [c for c in oracle.columns if c.type in wider and c.name != "ver"]
    if not able:
        return None
    column = random.choice(able)
    kind = wider[column.type]
    columns = [replace(c, type=kind) if c.id == column.id else c for c in oracle.columns]
    return lambda t: t.widen_column(column.name, kind), columns, column.id
