"""Key bytes: rows of key columns as byte strings that sort and compare as the rows do.

Invariants, spelt out in `docs/internals/key-encoding.md`:
- memcmp order of the bytes is the column-wise order of the rows; equal bytes mean equal rows;
- the bytes of leading columns are a prefix of exactly the keys that begin with those values.

Fixed-width columns are big-endian with the sign bit flipped. Strings and binaries end in 00 00,
with 00 inside written as 00 FF; only the last column of a key, when variable, stands raw. Keys
never hold nulls: the check of rows from outside has refused them before.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.codec.keys.byte_rows import Ints, bytes_of, held_bytes_of, offsets_of
from penstock.codec.keys.key_pieces import BINARY_BYTES_MAX, FixedRun, Piece, pieces_of
from penstock.codec.keys.key_sort import SortedKeys, sort_keys
from penstock.errors import CorruptionError

__all__ = ["KEY_FORMAT_VERSION", "KeyCodec", "SortedKeys", "sort_keys"]

KEY_FORMAT_VERSION: Final = 1


class KeyCodec:
    """Encodes and decodes the keys of one table, whose key columns have the given types."""

    def __init__(self, types: Sequence[pa.DataType]) -> None:
        """Prepare the layout of the key.

        Raises:
            InvalidError: a type cannot be a key.
        """
        assert types
        self.types = tuple(types)
        self._pieces = pieces_of(self.types, raw_last=True)
        self._prefixes = [pieces_of(self.types[:k], raw_last=False) for k in range(1, len(self.types))]

    def __repr__(self) -> str:
        return f"KeyCodec({', '.join(map(str, self.types))})"

    def encode(self, columns: Sequence[pa.Array]) -> pa.BinaryArray:
        """Return the key of each row; it may share the columns' buffers and have an offset."""
        assert len(columns) == len(self.types)
        return self._join(self._pieces, columns)

    def encode_prefix(self, columns: Sequence[pa.Array]) -> pa.BinaryArray:
        """Return what the keys with these leading columns, and no others, start with.

        At least one column must be missing: with all of them the key itself is the answer.
        """
        assert 0 < len(columns) < len(self.types)
        return self._join(self._prefixes[len(columns) - 1], columns)

    def decode(self, keys: pa.BinaryArray) -> list[pa.Array]:
        """Return the columns of the keys, in the types of the codec.

        Raises:
            CorruptionError: the bytes are not keys of these types.
        """
        cuts = _cut(self._pieces, keys)
        if len(self._pieces) == 1:
            return self._pieces[0].decode(keys)
        # One array of all pieces of all rows, over the keys' own bytes; each piece then takes its own.
        count = len(self._pieces)
        offsets = np.append(np.stack(cuts[:-1], axis=1), offsets_of(keys)[-1]).astype(np.int32)
        shared = [None, pa.py_buffer(offsets), keys.buffers()[2]]
        parts = pa.Array.from_buffers(pa.binary(), count * len(keys), shared)
        rows = np.arange(0, len(parts), count)
        return [column for i, piece in enumerate(self._pieces) for column in piece.decode(parts.take(rows + i))]

    def _join(self, pieces: list[Piece], columns: Sequence[pa.Array]) -> pa.BinaryArray:
        rows = len(columns[0])
        for column, kind in zip(columns, self.types, strict=False):
            assert column.type == kind, f"{column.type} given for {kind}"
            assert column.null_count == 0, "a key holds a null"
            assert len(column) == rows
        parts, position = [], 0
        for piece in pieces:
            parts.append(piece.encode(columns[position : position + piece.columns], rows))
            position += piece.columns
        if len(parts) == 1:
            return parts[0]
        assert sum(held_bytes_of(part).size for part in parts) <= BINARY_BYTES_MAX
        return pc.binary_join_element_wise(*parts, b"")


def _cut(pieces: list[Piece], keys: pa.BinaryArray) -> list[Ints]:
    """Return, for each piece, where it starts in each key; last, where the keys end."""
    bounds, data = offsets_of(keys), bytes_of(keys)
    cuts = [bounds[:-1]]
    for piece in pieces:
        if isinstance(piece, FixedRun):
            cuts.append(cuts[-1] + piece.width)
        elif piece.raw:
            cuts.append(bounds[1:])
        else:
            # Inside an escaped column 00 is followed by FF, so the first pair of zeros ends it.
            pairs = np.flatnonzero((data[:-1] == 0) & (data[1:] == 0))
            found = np.searchsorted(pairs, cuts[-1])
            cuts.append(np.append(pairs, data.size)[found])
    ordered = all(np.all(start <= end) for start, end in pairwise(cuts))
    if not (ordered and np.array_equal(cuts[-1], bounds[1:])):
        raise CorruptionError("bytes are not keys of these columns; rebuild the index")
    return cuts
