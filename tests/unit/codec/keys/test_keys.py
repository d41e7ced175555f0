"""The bytes of keys, example by example; the laws are in tests/property/test_key_order.py."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.codec.keys.keys import KeyCodec
from penstock.errors import CorruptionError, InvalidError


def encode(types: list[pa.DataType], *columns: list[Any]) -> list[str]:
    keys = KeyCodec(types).encode([pa.array(column, kind) for column, kind in zip(columns, types, strict=True)])
    return [key.hex(" ") for key in keys.to_pylist()]


@pytest.mark.parametrize(
    ("kind", "values", "expected"),
    [
        (pa.bool_(), [False, True], ["00", "01"]),
        (pa.int8(), [-128, -1, 0, 127], ["00", "7f", "80", "ff"]),
        (pa.int16(), [-1, 0, 258], ["7f ff", "80 00", "81 02"]),
        (pa.int32(), [-(1 << 31), 1], ["00 00 00 00", "80 00 00 01"]),
        (pa.int64(), [-1, 1], ["7f ff ff ff ff ff ff ff", "80 00 00 00 00 00 00 01"]),
        (pa.uint8(), [0, 255], ["00", "ff"]),
        (pa.uint16(), [1], ["00 01"]),
        (pa.uint32(), [(1 << 32) - 1], ["ff ff ff ff"]),
        (pa.date32(), [0, 1], ["80 00 00 00", "80 00 00 01"]),
        (pa.timestamp("us", "UTC"), [1], ["80 00 00 00 00 00 00 01"]),
        (pa.decimal128(5, 2), [Decimal("-0.01"), Decimal("0.01")], ["7f" + " ff" * 7, "80" + " 00" * 6 + " 01"]),
        (pa.decimal128(38, 0), [Decimal(-1), Decimal(1)], ["7f" + " ff" * 15, "80" + " 00" * 14 + " 01"]),
        (pa.string(), ["", "ab", "a\x00b"], ["", "61 62", "61 00 62"]),
        (pa.large_binary(), [b"\xff\x00"], ["ff 00"]),
    ],
    ids=str,
)
def test_a_single_column_has_these_bytes(kind: pa.DataType, values: list[Any], expected: list[str]) -> None:
    assert encode([kind], values) == expected


def test_a_string_before_other_columns_is_escaped_and_terminated() -> None:
    assert encode([pa.string(), pa.int8()], ["", "a", "a\x00"], [0, 1, -128]) == [
        "00 00 80",
        "61 00 00 81",
        "61 00 ff 00 00 00",
    ]


def test_only_the_last_string_is_raw() -> None:
    assert encode([pa.binary(), pa.binary()], [b"\x00", b"a"], [b"\x00", b""]) == ["00 ff 00 00 00", "61 00 00"]


def test_a_prefix_terminates_a_string_that_more_columns_follow() -> None:
    codec = KeyCodec([pa.int8(), pa.string(), pa.string()])
    columns = [pa.array([1], pa.int8()), pa.array(["a\x00"])]
    assert codec.encode_prefix(columns[:1]).to_pylist() == [b"\x81"]
    assert codec.encode_prefix(columns).to_pylist() == [b"\x81a\x00\xff\x00\x00"]


@pytest.mark.parametrize("types", [[pa.int64()], [pa.string()], [pa.string(), pa.int32(), pa.large_string()]], ids=str)
def test_empty_batches_round_trip(types: list[pa.DataType]) -> None:
    codec = KeyCodec(types)
    columns = [pa.array([], kind) for kind in types]
    keys = codec.encode(columns)
    assert keys.type == pa.binary()
    assert len(keys) == 0
    assert codec.decode(keys) == columns


def test_sliced_columns_and_sliced_keys_round_trip() -> None:
    types = [pa.bool_(), pa.string(), pa.decimal128(30, 3), pa.large_binary(), pa.int32()]
    rows = 50
    columns = [
        pa.array([i % 3 == 0 for i in range(rows)]),
        pa.array([f"n\x00{i}" for i in range(rows)]),
        pa.array([Decimal(i - 25) / 8 for i in range(rows)], types[2]),
        pa.array([bytes([i, 0, 0]) for i in range(rows)], types[3]),
        pa.array(range(rows), pa.int32()),
    ]
    codec = KeyCodec(types)
    whole = codec.encode(columns)
    part = codec.encode([column[7:31] for column in columns])
    assert part.to_pylist() == whole.to_pylist()[7:31]
    assert codec.decode(whole[7:31]) == [column[7:31] for column in columns]


def test_decoded_columns_have_the_types_of_the_codec() -> None:
    types = [pa.large_string(), pa.timestamp("ms", "Europe/Berlin"), pa.date32(), pa.decimal128(12, 2), pa.bool_()]
    codec = KeyCodec(types)
    decoded = codec.decode(codec.encode([pa.array([], kind) for kind in types]))
    assert [column.type for column in decoded] == types


def test_decoded_columns_are_valid_arrow() -> None:
    codec = KeyCodec([pa.string(), pa.decimal128(38, 5), pa.string()])
    columns = [
        pa.array(["ä", ""]),
        pa.array([Decimal("-1.5"), Decimal("9" * 33)], codec.types[1]),
        pa.array(["", "日"]),
    ]
    for column in codec.decode(codec.encode(columns)):
        column.validate(full=True)


@pytest.mark.parametrize("kind", [pa.float64(), pa.uint64(), pa.list_(pa.int8()), pa.null()], ids=str)
def test_a_type_that_cannot_be_a_key_is_refused_by_name(kind: pa.DataType) -> None:
    with pytest.raises(InvalidError, match="cannot be a key") as caught:
        KeyCodec([pa.int32(), kind])
    assert caught.value.facts == {"type": str(kind)}


@pytest.mark.parametrize("key", [b"", b"\x80", b"a\x00\x00", b"a\x00\x00\x80\x80", b"abcdef"])
def test_bytes_that_are_no_keys_are_refused(key: bytes) -> None:
    with pytest.raises(CorruptionError, match="not keys of these columns"):
        KeyCodec([pa.string(), pa.int8()]).decode(pa.array([b"a\x00\x00\x80", key]))


def test_a_null_in_a_key_is_a_bug_of_the_caller() -> None:
    with pytest.raises(AssertionError, match="null"):
        KeyCodec([pa.int64()]).encode([pa.array([1, None])])


def test_a_decimal_beyond_its_precision_is_not_cut() -> None:
    wide = np.array([[0, 1]], np.int64)
    forged = pa.Array.from_buffers(pa.decimal128(5, 0), 1, [None, pa.py_buffer(wide)])
    with pytest.raises(AssertionError, match="precision"):
        KeyCodec([forged.type]).encode([forged])
