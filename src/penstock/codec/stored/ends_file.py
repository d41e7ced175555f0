"""The ends of a data file's rows, as a checkpoint saves them.

Most rows are live most of the time, so ends are stored as pairs of row and end where that is
smaller, and as a plain array otherwise.
"""

from __future__ import annotations

import struct
from typing import Final

import numpy as np
import numpy.typing as npt

from penstock.codec.stored.framed import frame, unframe
from penstock.errors import CorruptionError
from penstock.model.place.change import OFFSET_MAX

MAGIC: Final = b"PNEN"
VERSION: Final = 1
_HEAD: Final = struct.Struct("<QQ")
_PAIR_BYTES: Final = 12


def encode_ends(ends: npt.NDArray[np.int64]) -> bytes:
    """Return the ends as they are stored."""
    rows = np.flatnonzero(ends != OFFSET_MAX)
    if len(rows) * _PAIR_BYTES >= ends.nbytes:
        return frame(MAGIC, VERSION, _HEAD.pack(len(ends), len(ends)) + ends.astype("<i8").tobytes())
    pairs = rows.astype("<u4").tobytes() + ends[rows].astype("<i8").tobytes()
    return frame(MAGIC, VERSION, _HEAD.pack(len(ends), len(rows)) + pairs)


def decode_ends(data: bytes, *, rows: int, name: str) -> npt.NDArray[np.int64]:
    """Return the ends of a file of `rows` rows.

    Raises:
        CorruptionError: the bytes are damaged, or belong to another file.
        UnsupportedError: a newer version wrote them.
    """
    _, payload = unframe(MAGIC, VERSION, data, name=name)
    if len(payload) < _HEAD.size:
        raise CorruptionError("ends are cut short", file=name, bytes=len(payload))
    size, stored = _HEAD.unpack_from(payload)
    body = memoryview(payload)[_HEAD.size :]
    width = 8 if stored == size else _PAIR_BYTES
    if size != rows or len(body) != stored * width:
        raise CorruptionError("ends do not belong to this file", file=name, rows=size, expected=rows)
    if stored == size:
        return np.frombuffer(body, "<i8").astype(np.int64)
    places = np.frombuffer(body[: 4 * stored], "<u4")
    if np.any(places >= size):
        raise CorruptionError("ends name rows that the file does not have", file=name, rows=size)
    ends = np.full(size, OFFSET_MAX, np.int64)
    ends[places] = np.frombuffer(body[4 * stored :], "<i8")
    return ends
