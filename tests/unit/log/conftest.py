"""Rows of every stored type, and where to put them."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from penstock.model.place.change import SYSTEM_FIELDS
from penstock.testing.faulty_disk import FaultyDisk

Rows = Callable[..., pa.RecordBatch]

TYPES: list[tuple[pa.DataType, Callable[[Random], Any]]] = [
    (pa.bool_(), lambda r: r.random() < 0.5),
    (pa.int8(), lambda r: r.randint(-128, 127)),
    (pa.int64(), lambda r: r.randint(-(1 << 63), (1 << 63) - 1)),
    (pa.float32(), lambda r: r.randint(-1000, 1000) / 8),
    (pa.float64(), lambda r: r.random()),
    (pa.decimal128(18, 2), lambda r: Decimal(r.randint(-(10**17), 10**17)).scaleb(-2)),
    (pa.string(), lambda r: "žluť" * r.randint(0, 4)),
    (pa.large_string(), lambda r: "x" * r.randint(0, 9)),
    (pa.binary(), lambda r: r.randbytes(r.randint(0, 9))),
    (pa.binary(4), lambda r: r.randbytes(4)),
    (pa.date32(), lambda r: r.randint(-9999, 9999)),
    (pa.timestamp("us", tz="UTC"), lambda r: r.randint(0, 1 << 50)),
    (pa.list_(pa.int32()), lambda r: [r.choice((None, 1, 2)) for _ in range(r.randint(0, 4))]),
    (pa.struct([("a", pa.int16()), ("b", pa.list_(pa.string()))]), lambda r: {"a": 1, "b": ["y"] * r.randint(0, 2)}),
    (pa.map_(pa.string(), pa.float64()), lambda r: [("k", r.random())]),
]

ALL_TYPES = pa.schema([pa.field(str(i), kind) for i, (kind, _) in enumerate(TYPES)] + list(SYSTEM_FIELDS))


@pytest.fixture
def disk() -> FaultyDisk:
    """Return an empty disk with the directory `b`."""
    disk = FaultyDisk()
    disk.make_directory("b")
    return disk


@pytest.fixture
def wide_rows() -> Rows:
    """Return a maker of rows of every type, a fifth of the values null."""

    def make(count: int, *, seed: int = 0) -> pa.RecordBatch:
        random = Random(seed)
        columns = [
            pa.array([None if random.random() < 0.2 else value(random) for _ in range(count)], type=kind)
            for kind, value in TYPES
        ]
        system = [pa.array([0] * count, pa.int8()), pa.array([-1] * count, pa.int64())]
        return pa.RecordBatch.from_arrays(columns + system, schema=ALL_TYPES)

    return make


@pytest.fixture
def rows() -> Rows:
    """Return a maker of small rows: column 0 counts from `first`, column 1 is text; no byte is zero for long."""

    def make(count: int, *, first: int = 0) -> pa.RecordBatch:
        schema = pa.schema([pa.field("0", pa.int64()), pa.field("1", pa.string()), *SYSTEM_FIELDS])
        numbers = range(first, first + count)
        columns = [
            pa.array(numbers, pa.int64()),
            pa.array([f"row {number} of the log" for number in numbers], pa.string()),
            pa.array([0] * count, pa.int8()),
            pa.array([-1] * count, pa.int64()),
        ]
        return pa.RecordBatch.from_arrays(columns, schema=schema)

    return make
