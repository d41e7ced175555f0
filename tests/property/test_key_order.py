"""The laws of key bytes: order, injectivity, round trip, prefixes. Python's tuples are the oracle."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.codec.keys.keys import KeyCodec, sort_keys

LAWS = settings(max_examples=150, deadline=None, derandomize=True)

Row = tuple[Any, ...]
Case = tuple[list[pa.DataType], list[Row]]


def integers(bits: int) -> st.SearchStrategy[int]:
    low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    return st.integers(low, high) | st.sampled_from([low, low + 1, -1, 0, 1, high])


def decimals(precision: int, scale: int) -> st.SearchStrategy[Decimal]:
    high = 10**precision - 1
    unscaled = st.integers(-high, high) | st.sampled_from([-high, -1, 0, 1, high]) | st.integers(-3, 3)
    return unscaled.map(lambda value: Decimal(value).scaleb(-scale) if precision <= 28 else _exact(value, scale))


def _exact(value: int, scale: int) -> Decimal:
    digits = tuple(int(digit) for digit in str(abs(value)))
    return Decimal((int(value < 0), digits, -scale))


# Few letters, zeros and their escapes among them, so that keys share prefixes and differ late.
TEXT = st.text(st.sampled_from("\x00\x01aäÿ日"), max_size=6) | st.text(max_size=4)
BYTES = st.binary(max_size=3) | st.lists(st.sampled_from([0, 1, 254, 255]), max_size=6).map(bytes)

VALUES: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.bool_(), st.booleans()),
    (pa.int8(), integers(8)),
    (pa.int16(), integers(16)),
    (pa.int32(), integers(32)),
    (pa.int64(), integers(64)),
    (pa.uint8(), st.integers(0, 255)),
    (pa.uint16(), st.integers(0, (1 << 16) - 1)),
    (pa.uint32(), st.integers(0, (1 << 32) - 1)),
    (pa.decimal128(4, 2), decimals(4, 2)),
    (pa.decimal128(18, 0), decimals(18, 0)),
    (pa.decimal128(19, 3), decimals(19, 3)),
    (pa.decimal128(38, 10), decimals(38, 10)),
    (pa.string(), TEXT),
    (pa.large_string(), TEXT),
    (pa.binary(), BYTES),
    (pa.large_binary(), BYTES),
    (pa.date32(), integers(32)),
    (pa.timestamp("us", "UTC"), integers(64)),
    (pa.timestamp("s"), integers(64)),
]


@st.composite
def cases(draw: st.DrawFn, columns_min: int = 1) -> Case:
    columns = draw(st.lists(st.sampled_from(VALUES), min_size=columns_min, max_size=4))
    # Rows take their values from small pools, so that leading columns are often equal.
    pools = [draw(st.lists(values, min_size=1, max_size=4)) for _, values in columns]
    row = st.tuples(*(st.sampled_from(pool) for pool in pools))
    return [kind for kind, _ in columns], draw(st.lists(row, min_size=1, max_size=12))


def arrays(types: list[pa.DataType], rows: list[Row]) -> list[pa.Array]:
    """Build the columns of the rows, as slices with something before and behind."""
    padded = [rows[0], *rows, rows[0]]
    columns = []
    for i, kind in enumerate(types):
        values = [row[i] for row in padded]
        temporal = pa.types.is_date32(kind) or pa.types.is_timestamp(kind)
        stored = pa.int32() if pa.types.is_date32(kind) else pa.int64()
        whole = pa.array(values, stored).view(kind) if temporal else pa.array(values, kind)
        columns.append(whole.slice(1, len(rows)))
    return columns


def oracle(row: Row) -> Row:
    """The row as its order is defined: text by its UTF-8 bytes, everything else by value."""
    return tuple(value.encode() if isinstance(value, str) else value for value in row)


@LAWS
@given(cases())
def test_bytes_order_as_rows_and_differ_as_rows(case: Case) -> None:
    types, rows = case
    keys = KeyCodec(types).encode(arrays(types, rows)).to_pylist()
    for row, key in zip(rows, keys, strict=True):
        for other_row, other_key in zip(rows, keys, strict=True):
            assert (oracle(row) < oracle(other_row)) == (key < other_key)
            assert (row == other_row) == (key == other_key)


@LAWS
@given(cases())
def test_decoding_gives_the_columns_back(case: Case) -> None:
    types, rows = case
    codec = KeyCodec(types)
    columns = arrays(types, rows)
    keys = codec.encode(columns)
    assert codec.decode(keys) == columns
    assert codec.decode(keys[1:]) == [column[1:] for column in columns]


@LAWS
@given(cases(columns_min=2), st.data())
def test_a_prefix_starts_exactly_the_keys_with_its_columns(case: Case, data: st.DataObject) -> None:
    types, rows = case
    leading = data.draw(st.integers(1, len(types) - 1))
    codec = KeyCodec(types)
    columns = arrays(types, rows)
    prefixes = codec.encode_prefix(columns[:leading]).to_pylist()
    keys = codec.encode(columns).to_pylist()
    for row, prefix in zip(rows, prefixes, strict=True):
        for other_row, key in zip(rows, keys, strict=True):
            assert key.startswith(prefix) == (row[:leading] == other_row[:leading])


@LAWS
@given(cases())
def test_sorting_keys_is_the_stable_sort_of_rows(case: Case) -> None:
    types, rows = case
    result = sort_keys(KeyCodec(types).encode(arrays(types, rows)))
    expected = sorted(range(len(rows)), key=lambda i: oracle(rows[i]))
    assert result.order.tolist() == expected
    runs = [i == 0 or rows[expected[i]] != rows[expected[i - 1]] for i in range(len(rows))]
    assert result.starts.tolist() == runs
