"""Which bucket a row belongs to: Spark SQL's `xxhash64`, modulo the number of buckets.

The hash is Spark's to the bit (seed 42, chained over the columns, a null leaves the running
hash), so that a Spark shuffle by the same expression puts each row where we would. Spark hashes
by *type*, not by value: `int` 5 and `bigint` 5 differ, so columns must have the table's types.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pat

from penstock.codec.keys.byte_rows import WORD_BYTES, ByteRows, Words, is_variable
from penstock.codec.keys.fixed_width import decimal_limbs, values_of
from penstock.codec.keys.xxh64 import hash_bytes, hash_ints, hash_longs
from penstock.errors import InvalidError

SEED: Final = 42
LONG_DIGITS_MAX: Final = 18
"""Spark keeps decimals of up to so many digits as a long, and hashes them as one."""

DECIMAL_BYTES: Final = 16
BYTE_LIMITS: Final = np.array([1 << (8 * k - 1) for k in range(1, 9)], np.uint64)
"""A magnitude from the k-th limit on does not fit k bytes with a sign bit."""


def bucket_of(columns: Sequence[pa.Array], buckets: int) -> npt.NDArray[np.int32]:
    """Return the bucket of each row, from 0 to `buckets` - 1."""
    assert buckets > 0
    # NumPy's remainder takes the sign of the divisor, which is Spark's pmod.
    return np.remainder(xxhash64(columns), buckets).astype(np.int32)


def xxhash64(columns: Sequence[pa.Array]) -> npt.NDArray[np.int64]:
    """Return what Spark's `xxhash64(columns...)` returns, row by row.

    Raises:
        InvalidError: a column's type cannot be a key.
    """
    assert columns
    hashes = np.full(len(columns[0]), SEED, np.uint64)
    for column in columns:
        assert len(column) == hashes.size
        folded = _fold(column, hashes)
        hashes = folded if column.null_count == 0 else np.where(_validity(column), folded, hashes)
    return hashes.view(np.int64)


def _fold(column: pa.Array, seeds: Words) -> Words:
    """Hash a column as if it had no nulls; what stands under a null is hashed too, to no effect."""
    kind = column.type
    if is_variable(kind):
        return hash_bytes(ByteRows.of_binary(column), seeds)
    if pat.is_decimal128(kind):
        if kind.precision > LONG_DIGITS_MAX:
            return hash_bytes(_minimal_bytes(column), seeds)
        return hash_longs(np.ascontiguousarray(decimal_limbs(column)[:, 0]), seeds)
    if pat.is_timestamp(kind):
        return hash_longs(_micros(column).view(np.uint64), seeds)
    if pat.is_int64(kind) or pat.is_uint32(kind):
        return hash_longs(values_of(column).astype(np.uint64), seeds)
    if pat.is_boolean(kind) or pat.is_date32(kind) or (pat.is_integer(kind) and kind.bit_width < WORD_BYTES * 8):
        return hash_ints(values_of(column).astype(np.uint64), seeds)
    raise InvalidError("column type cannot be a bucket key; use an integer, decimal, string or date", type=str(kind))


def _validity(column: pa.Array) -> npt.NDArray[np.bool_]:
    valid: npt.NDArray[np.bool_] = column.is_valid().to_numpy(zero_copy_only=False)
    return valid


def _micros(column: pa.Array) -> npt.NDArray[np.int64]:
    """Return timestamps in microseconds; nanoseconds are rounded down."""
    values = values_of(column).astype(np.int64, copy=False)
    if column.type.unit == "ns":
        return values // 1000
    return values * {"us": 1, "ms": 1000, "s": 1_000_000}[column.type.unit]


def _minimal_bytes(column: pa.Array) -> ByteRows:
    """Return the unscaled values as Java's `BigInteger.toByteArray` writes them.

    That is big-endian two's complement in the fewest bytes that hold value and sign.
    """
    limbs = decimal_limbs(column)
    # All ones for negative numbers: xor then gives ~value, whose magnitude needs as many bytes with a sign bit.
    sign = (limbs[:, 1].view(np.int64) >> 63).view(np.uint64)
    low, high = limbs[:, 0] ^ sign, limbs[:, 1] ^ sign
    lengths = np.where(
        high == 0,
        1 + np.searchsorted(BYTE_LIMITS, low, side="right"),
        1 + WORD_BYTES + np.searchsorted(BYTE_LIMITS, high, side="right"),
    )
    data = np.zeros(DECIMAL_BYTES * lengths.size + WORD_BYTES, np.uint8)
    data[:-WORD_BYTES] = limbs[:, ::-1].astype(">u8").reshape(-1).view(np.uint8)
    # Every value has 16 bytes, big-endian; the fewest that hold it are its last ones, so a row is the tail of its
    # slot.
    ends = np.arange(1, lengths.size + 1) * DECIMAL_BYTES
    return ByteRows(data, ends - lengths, lengths)
