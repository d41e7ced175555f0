"""A random table: columns of many types, a key, a merge engine, buckets, partitions; and rows for it.

Values come from small pools, so that keys meet, rows repeat and updates change nothing now and then.
NaN and -0.0 stay out: a dict cannot tell whether they are equal.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any, Final

import pyarrow as pa
import pyarrow.types as pat

from penstock.model.schema.aggregate import AggFunction
from penstock.model.schema.schema import Schema
from penstock.model.table.merge_engine import MergeEngine

Row = dict[str, Any]

KEY_TYPES: Final = (
    pa.int32(),
    pa.int64(),
    pa.string(),
    pa.large_string(),
    pa.binary(),
    pa.bool_(),
    pa.date32(),
    pa.timestamp("us"),
    pa.timestamp("us", tz="UTC"),
    pa.decimal128(12, 3),
)
VALUE_TYPES: Final = (
    *KEY_TYPES,
    pa.int8(),
    pa.int16(),
    pa.float32(),
    pa.float64(),
    pa.large_binary(),
    pa.decimal128(38, 10),
    pa.list_(pa.int32()),
    pa.list_(pa.struct([("a", pa.int64()), ("b", pa.string())])),
    pa.struct([("n", pa.int64()), ("inner", pa.struct([("s", pa.string()), ("d", pa.date32())]))]),
    pa.map_(pa.string(), pa.int64()),
)
VERSION_TYPES: Final = (pa.int64(), pa.int32(), pa.timestamp("us"), pa.date32())
PARTITION_TYPES: Final = (pa.string(), pa.int32(), pa.date32(), pa.bool_())
FOLDS: Final = (
    (AggFunction.SUM, pa.int64()),
    (AggFunction.SUM, pa.decimal128(30, 2)),
    (AggFunction.MAX, pa.int32()),
    (AggFunction.MAX, pa.string()),
    (AggFunction.COUNT, pa.int64()),
    (AggFunction.LAST_VALUE, pa.string()),
    (AggFunction.LAST_VALUE, pa.struct([("n", pa.int64()), ("s", pa.string())])),
)
KEYS: Final = 25
PARTITIONS: Final = 3


class RandomTable:
    """What a table looks like, and rows that fit it. The same for the same seed."""

    def __init__(self, random: Random, merge_engine: MergeEngine) -> None:
        self._random = random
        self.merge_engine = merge_engine
        self.partitioned = random.random() < 0.4
        self.buckets = random.randint(1, 4)
        self.fields: dict[str, pa.DataType] = {}
        self.folds: dict[str, AggFunction] = {}
        self._draw_key()
        self.version = "version" if merge_engine is MergeEngine.VERSIONED else None
        if self.version is not None:
            self.fields[self.version] = random.choice(VERSION_TYPES)
        for number in range(random.randint(1, 5)):
            self.draw_column(f"v{number}")
        self._pools: dict[str, list[Any]] = {}
        self._keys = [self._draw_values(self.key) for _ in range(KEYS)]

    @property
    def values(self) -> list[str]:
        """Return the names of the columns outside the key."""
        return [name for name in self.fields if name not in self.key]

    @property
    def partitioned_by(self) -> list[str] | None:
        """Return the partition column, if there is one."""
        return [self.key[-1]] if self.partitioned else None

    @property
    def takes_partial(self) -> bool:
        """Tell whether rows can be written in part."""
        return self.merge_engine.traits.takes_partial

    def schema(self) -> Schema:
        """Return the schema of the table as it is created."""
        builder = Schema.builder()
        for name, kind in self.fields.items():
            if name in self.folds:
                builder = builder.agg_column(name, kind, self.folds[name])
            else:
                builder = builder.column(name, kind)
        return builder.primary_key(*self.key).build()

    def draw_column(self, name: str) -> None:
        """Have one more column."""
        if self.merge_engine is MergeEngine.AGGREGATE:
            self.folds[name], self.fields[name] = self._random.choice(FOLDS)
        else:
            self.fields[name] = self._random.choice(VALUE_TYPES)

    def rows(self, names: Sequence[str], count: int | None = None) -> list[Row]:
        """Return rows with these columns; keys may repeat."""
        count = self._random.randint(1, 30) if count is None else count
        return [self._row(names) for _ in range(count)]

    def some(self, names: Sequence[str]) -> list[str]:
        """Return some of the names, at least one, in the same order."""
        return [name for name in names if self._random.random() < 0.5] or [self._random.choice(list(names))]

    def _draw_key(self) -> None:
        for number in range(self._random.randint(1, 3)):
            self.fields[f"k{number}"] = self._random.choice(KEY_TYPES)
        if self.partitioned:
            self.fields["part"] = self._random.choice(PARTITION_TYPES)
        self.key = list(self.fields)

    def _row(self, names: Sequence[str]) -> Row:
        row = dict(self._random.choice(self._keys))
        row |= {name: self._value(name) for name in names if name not in self.key}
        return {name: row[name] for name in self.fields if name in row}

    def _draw_values(self, names: Sequence[str]) -> Row:
        return {name: self._value(name, nullable=False) for name in names}

    def _value(self, name: str, *, nullable: bool = True) -> Any:
        if nullable and self._random.random() < 0.2:
            return None
        if name not in self._pools:
            size = PARTITIONS if name == "part" else 6
            self._pools[name] = [random_value(self._random, self.fields[name]) for _ in range(size)]
        return self._random.choice(self._pools[name])


def random_value(random: Random, kind: pa.DataType) -> Any:
    """Return a value of the type, as Arrow gives it back; null only inside nested ones."""
    if pat.is_list(kind):
        return [_maybe(random, kind.value_type) for _ in range(random.randrange(4))]
    if pat.is_map(kind):
        return [(f"key {n}", _maybe(random, kind.item_type)) for n in range(random.randrange(4))]
    if pat.is_struct(kind):
        return {field.name: _maybe(random, field.type) for field in kind}
    return next(draw(random, kind) for matches, draw in _DRAWS if matches(kind))


def _maybe(random: Random, kind: pa.DataType) -> Any:
    return None if random.random() < 0.2 else random_value(random, kind)


def _integer(random: Random, kind: pa.DataType) -> int:
    bound = 1 << min(kind.bit_width - 1, random.choice((3, 7, 40)))
    return random.randrange(-bound, bound)


def _decimal(random: Random, kind: pa.DataType) -> Decimal:
    digits = min(kind.precision, random.choice((2, 12, 27)))
    return Decimal(random.randrange(1 - 10**digits, 10**digits)).scaleb(-kind.scale)


def _single(random: Random, _: pa.DataType) -> float:
    return float(struct.unpack("f", struct.pack("f", random.uniform(1, 1e9)))[0])


def _instant(random: Random, kind: pa.DataType) -> datetime:
    naive = datetime(1969, 12, 31) + timedelta(microseconds=random.randrange(-(10**15), 10**16))
    return naive.replace(tzinfo=UTC) if kind.tz is not None else naive


def _text(random: Random, _: pa.DataType) -> str:
    return random.choice(("", "a", "a/b", "=%2F", "ž" * 30, "\x00\x01", "\U0001f40b", "Ulm")) + str(random.randrange(9))


_DRAWS: Final[tuple[tuple[Callable[[pa.DataType], bool], Callable[[Random, pa.DataType], Any]], ...]] = (
    (pat.is_boolean, lambda random, _: random.random() < 0.5),
    (pat.is_integer, _integer),
    (pat.is_decimal, _decimal),
    (pat.is_float32, _single),
    (pat.is_float64, lambda random, _: random.uniform(-1e9, -1)),
    (pat.is_timestamp, _instant),
    (pat.is_date, lambda random, _: date(1970, 1, 1) + timedelta(days=random.randrange(-20_000, 20_000))),
    (lambda kind: pat.is_string(kind) or pat.is_large_string(kind), _text),
    (lambda kind: True, lambda random, _: random.randbytes(random.choice((0, 1, 9, 60)))),
)
