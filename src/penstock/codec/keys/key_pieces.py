"""What a key is joined from: runs of fixed-width columns, and variable-length columns between.

A key alternates between the two, so that encoding is one join of a few arrays and decoding one
cut at a few positions, however many columns there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from penstock.codec.keys.byte_rows import held_bytes_of, is_variable
from penstock.codec.keys.fixed_width import array_of, decimal_limbs, storage_of, values_of
from penstock.errors import InvalidError

BINARY_BYTES_MAX: Final = (1 << 31) - 1
LONG_DIGITS_MAX: Final = 18
"""Decimals of up to so many digits fit one word."""

FIXED_KINDS: Final = (pat.is_integer, pat.is_boolean, pat.is_decimal128, pat.is_date32, pat.is_timestamp)

_SIGN_BITS: Final = {dtype.itemsize: dtype.type(1 << (8 * dtype.itemsize - 1)) for dtype in map(np.dtype, "BHIQ")}
"""The sign bit by the bytes of an integer."""

ZERO: Final = b"\x00"
ESCAPED_ZERO: Final = b"\x00\xff"


class FixedField:
    """One fixed-width column inside a run: big-endian, the sign bit flipped."""

    def __init__(self, kind: pa.DataType) -> None:
        if pat.is_uint64(kind) or not any(test(kind) for test in FIXED_KINDS):
            raise InvalidError(
                "column type cannot be a key; use an integer, decimal, string, binary, date or timestamp",
                type=str(kind),
            )
        self.kind = kind
        self._is_decimal = pat.is_decimal128(kind)
        self.dtype = self._place()
        """The field's place in a record; a long decimal is two words, high before low."""

    def _place(self) -> np.dtype[Any]:
        if self._is_decimal:
            return np.dtype((">u8", (2,))) if self.kind.precision > LONG_DIGITS_MAX else np.dtype(">u8")
        return np.dtype(f">u{storage_of(self.kind).itemsize}")

    def put(self, place: npt.NDArray[Any], column: pa.Array) -> None:
        """Write the column into its place of each record."""
        if not self._is_decimal:
            place[:] = _flip(values_of(column))
            return
        limbs = decimal_limbs(column).view(np.int64)
        if place.ndim == 1:
            # Up to 18 digits fit the low word, and the high one only repeats its sign.
            assert np.array_equal(limbs[:, 1], limbs[:, 0] >> 63), "a decimal exceeds its precision"
            place[:] = _flip(limbs[:, 0])
        else:
            place[:, 0] = _flip(limbs[:, 1])
            place[:, 1] = limbs[:, 0].view(np.uint64)

    def get(self, place: npt.NDArray[Any]) -> pa.Array:
        """Read the column from its place of each record."""
        if not self._is_decimal:
            return array_of(self.kind, _unflip(place, storage_of(self.kind)))
        limbs = np.empty((len(place), 2), np.int64)
        if place.ndim == 1:
            limbs[:, 0] = _unflip(place, limbs.dtype)
            limbs[:, 1] = limbs[:, 0] >> 63
        else:
            limbs[:, 1] = _unflip(place[:, 0], limbs.dtype)
            limbs[:, 0] = place[:, 1].astype(np.uint64).view(np.int64)
        return array_of(self.kind, limbs)


class FixedRun:
    """Neighbouring fixed-width columns, one record per row; two zero bytes first behind a variable column."""

    def __init__(self, types: Sequence[pa.DataType], *, terminates: bool) -> None:
        self.fields = {f"c{i}": FixedField(kind) for i, kind in enumerate(types)}
        self.columns = len(types)
        # The terminator is a field of the record that stays zero: no step of its own to write it.
        terminator: list[Any] = [("end", "<u2")] if terminates else []
        self.record = np.dtype(terminator + [(name, field.dtype) for name, field in self.fields.items()])
        self.width = self.record.itemsize
        self._lone = self.fields["c0"] if self.columns == 1 and not terminates and self.record["c0"].ndim == 0 else None
        """The only field of a run that is nothing else: as most keys are, quicker than a record."""

    def encode(self, columns: Sequence[pa.Array], rows: int) -> pa.BinaryArray:
        """Return the records of the rows."""
        assert rows * self.width <= BINARY_BYTES_MAX
        if self._lone is not None:
            records = np.empty(rows, self._lone.dtype)
            self._lone.put(records, columns[0])
        else:
            records = np.zeros(rows, self.record)
            for (name, field), column in zip(self.fields.items(), columns, strict=True):
                field.put(records[name], column)
        offsets = np.arange(0, rows * self.width + 1, self.width, dtype=np.int32)
        return pa.BinaryArray.from_buffers(pa.binary(), rows, [None, pa.py_buffer(offsets), pa.py_buffer(records)])

    def decode(self, piece: pa.BinaryArray) -> list[pa.Array]:
        """Return the columns of the records."""
        records = held_bytes_of(piece).view(self.record)
        return [field.get(records[name]) for name, field in self.fields.items()]


@dataclass(frozen=True, slots=True)
class VariablePiece:
    """One string or binary column: escaped, or raw where nothing follows it."""

    kind: pa.DataType
    raw: bool
    columns: int = 1

    def encode(self, columns: Sequence[pa.Array], rows: int) -> pa.BinaryArray:
        """Return the bytes of the rows, without a terminator."""
        assert len(columns) == self.columns
        assert len(columns[0]) == rows
        piece = _narrow(columns[0])
        if self.raw or not _has_zero(piece):
            return piece
        return pc.replace_substring(piece, pattern=ZERO, replacement=ESCAPED_ZERO)

    def decode(self, piece: pa.BinaryArray) -> list[pa.Array]:
        """Return the column; its bytes were text when they were encoded and are not checked again."""
        if not self.raw and _has_zero(piece):
            piece = pc.replace_substring(piece, pattern=ESCAPED_ZERO, replacement=ZERO)
        if pat.is_large_string(self.kind) or pat.is_large_binary(self.kind):
            piece = piece.cast(pa.large_binary())
        return [piece.view(self.kind)]


Piece = FixedRun | VariablePiece


def pieces_of(types: Sequence[pa.DataType], *, raw_last: bool) -> list[Piece]:
    """Return the pieces of a key with these column types.

    A variable column is raw if it is the last one and `raw_last` allows it; behind any other
    comes a run, with the terminator alone if no fixed-width column follows.
    """
    pieces: list[Piece] = []
    run: list[pa.DataType] = []
    terminates = False
    for position, kind in enumerate(types):
        if not is_variable(kind):
            run.append(kind)
            continue
        if run or terminates:
            pieces.append(FixedRun(run, terminates=terminates))
        raw = raw_last and position == len(types) - 1
        pieces.append(VariablePiece(kind, raw))
        run, terminates = [], not raw
    if run or terminates:
        pieces.append(FixedRun(run, terminates=terminates))
    return pieces


def _narrow(column: pa.Array) -> pa.BinaryArray:
    """Return a variable column as binary with 32-bit offsets; text is its bytes."""
    if pat.is_large_string(column.type) or pat.is_large_binary(column.type):
        column = column.view(pa.large_binary()).cast(pa.binary())
    return column.view(pa.binary())


def _has_zero(piece: pa.BinaryArray) -> bool:
    return not held_bytes_of(piece).all()


def _flip(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the values unsigned, in the same order."""
    if values.dtype.kind == "u":
        return values
    sign_bit = _SIGN_BITS[values.dtype.itemsize]
    # With the sign bit inverted negative numbers come before positive ones, compared as unsigned bytes.
    flipped: npt.NDArray[Any] = values.view(sign_bit.dtype) ^ sign_bit
    return flipped


def _unflip(place: npt.NDArray[Any], storage: np.dtype[Any]) -> npt.NDArray[Any]:
    values = place.astype(np.dtype(f"u{storage.itemsize}"))
    if storage.kind == "u":
        return values
    values ^= _SIGN_BITS[storage.itemsize]
    return values.view(storage)
