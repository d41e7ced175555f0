"""Routing is Spark's to the bit: the answers of a real Spark are stored beside the tests."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.codec.keys.routing import bucket_of, xxhash64
from penstock.errors import InvalidError

FIXTURE = json.loads((Path(__file__).parents[3] / "fixtures" / "spark_xxhash64.json").read_text())
CASES = FIXTURE["cases"]


def arrow_type(name: str) -> pa.DataType:
    if name.startswith("decimal128"):
        precision, scale = name.removeprefix("decimal128(").removesuffix(")").split(", ")
        return pa.decimal128(int(precision), int(scale))
    zoned = {"timestamp[us, tz=UTC]": pa.timestamp("us", "UTC"), "timestamp[us]": pa.timestamp("us")}
    return zoned.get(name) or pa.type_for_alias(name)


def arrow_array(column: dict[str, Any]) -> pa.Array:
    kind, values = arrow_type(column["type"]), column["values"]
    if pa.types.is_decimal(kind):
        return pa.array([None if v is None else Decimal(v) for v in values], kind)
    if pa.types.is_binary(kind):
        return pa.array([None if v is None else bytes.fromhex(v) for v in values], kind)
    if pa.types.is_date32(kind):
        return pa.array(values, pa.int32()).cast(kind)
    if pa.types.is_timestamp(kind):
        return pa.array(values, pa.int64()).cast(kind)
    return pa.array(values, kind)


def case_name(case: dict[str, Any]) -> str:
    return "+".join(column["type"] for column in case["columns"])


def tiled(array: pa.Array, times: int) -> pa.Array:
    return pa.concat_arrays([array] * times)


@pytest.mark.parametrize("case", CASES, ids=case_name)
def test_hash_equals_spark(case: dict[str, Any]) -> None:
    columns = [arrow_array(column) for column in case["columns"]]
    assert xxhash64(columns).tolist() == case["hashes"]


@pytest.mark.parametrize("case", CASES, ids=case_name)
def test_hash_of_a_large_sliced_batch_equals_spark(case: dict[str, Any]) -> None:
    times = 1 + 2000 // len(case["hashes"])
    columns = [tiled(arrow_array(column), times).slice(1) for column in case["columns"]]
    assert xxhash64(columns).tolist() == (case["hashes"] * times)[1:]


@pytest.mark.parametrize("case", CASES, ids=case_name)
def test_bucket_equals_spark(case: dict[str, Any]) -> None:
    columns = [arrow_array(column) for column in case["columns"]]
    buckets = bucket_of(columns, FIXTURE["bucket_count"])
    assert buckets.dtype == np.int32
    assert buckets.tolist() == case["buckets"]


def test_large_offsets_hash_as_small_ones() -> None:
    text = pa.array(["", "Ulm", None, "x" * 50] * 300)
    expected = xxhash64([text]).tolist()
    assert xxhash64([text.cast(pa.large_string())]).tolist() == expected
    assert xxhash64([text.cast(pa.binary())]).tolist() == expected
    assert xxhash64([text.cast(pa.large_binary())]).tolist() == expected


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_timestamps_hash_by_instant_whatever_their_unit(unit: str) -> None:
    seconds = pa.array([0, 1, -1, 1_700_000_000, None], pa.timestamp("s"))
    expected = xxhash64([seconds.cast(pa.timestamp("us"))]).tolist()
    assert xxhash64([seconds.cast(pa.timestamp(unit))]).tolist() == expected
    assert xxhash64([seconds.cast(pa.timestamp(unit, "Europe/Berlin"))]).tolist() == expected


@pytest.mark.parametrize(
    ("unsigned", "signed"),
    [(pa.uint8(), pa.int16()), (pa.uint16(), pa.int32()), (pa.uint32(), pa.int64())],
    ids=str,
)
def test_unsigned_integers_hash_as_the_next_wider_signed_type(unsigned: pa.DataType, signed: pa.DataType) -> None:
    values = [0, 1, (1 << unsigned.bit_width) - 1]
    assert xxhash64([pa.array(values, unsigned)]).tolist() == xxhash64([pa.array(values, signed)]).tolist()


def test_a_row_of_nulls_only_hashes_to_the_seed() -> None:
    columns = [pa.array([None], pa.int64()), pa.array([None], pa.string())]
    assert xxhash64(columns).tolist() == [42]


def test_what_stands_under_a_null_does_not_count() -> None:
    hidden = pa.Array.from_buffers(pa.int64(), 2, [pa.py_buffer(b"\x01"), pa.py_buffer(np.array([7, 9]))])
    assert hidden.to_pylist() == [7, None]
    assert xxhash64([hidden]).tolist() == xxhash64([pa.array([7, None])]).tolist()


def test_an_empty_batch_has_no_buckets() -> None:
    assert bucket_of([pa.array([], pa.string()), pa.array([], pa.int32())], 4).tolist() == []


@pytest.mark.parametrize("kind", [pa.float64(), pa.uint64(), pa.list_(pa.int8())], ids=str)
def test_a_type_that_cannot_be_a_key_is_refused_by_name(kind: pa.DataType) -> None:
    with pytest.raises(InvalidError, match="cannot be a bucket key") as caught:
        xxhash64([pa.array([], kind)])
    assert caught.value.facts == {"type": str(kind)}
