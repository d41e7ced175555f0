"""The facts of many batches as one array: who wrote which offsets, when, as what.

Batches stand in log order, so base offsets never decrease; a batch without rows stands before the
batch that starts at the same offset. A directory is immutable; a `DirectoryBuilder` grows one, and
its snapshots share the builder's memory: it only ever writes behind what a snapshot shows.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from penstock.errors import CorruptionError
from penstock.model.place.change import BatchKind
from penstock.model.place.facts import BatchFacts

Int64s = npt.NDArray[np.int64]
ColumnSets = Sequence[tuple[int, ...]]

_ENTRY: Final = np.dtype(
    [
        ("base_offset", "<i8"),
        ("rows", "<i8"),
        ("timestamp_ms", "<i8"),
        ("term", "<i8"),
        ("sequence", "<i8"),
        ("owner", "<i8"),
        ("fence", "<i8"),
        ("epoch", "<i8"),
        ("writer_id", "V16"),
        ("attempt", "V16"),
        ("schema_id", "<i4"),
        ("columns", "<i4"),
        ("kind", "<i4"),
    ]
)
_PACKED: Final = struct.Struct("<qqqqqqqq16s16siii")
assert _PACKED.size == _ENTRY.itemsize

_VERSION: Final = 1
_HEAD: Final = struct.Struct("<HQI")
_ALL_COLUMNS: Final = -1
_NONE: Final = -1
UNKNOWN: Final = -1
"""The batch, and the timestamp, of an offset that the directory does not reach."""


class BatchDirectory:
    """An immutable run of batch facts."""

    __slots__ = ("_entries", "_sets")

    def __init__(self, entries: npt.NDArray[Any], sets: ColumnSets) -> None:
        self._entries = entries
        self._sets = sets

    @classmethod
    def empty(cls) -> BatchDirectory:
        """Return the directory of nothing."""
        return cls(np.zeros(0, dtype=_ENTRY), ())

    def __len__(self) -> int:
        return len(self._entries)

    def __repr__(self) -> str:
        return f"BatchDirectory(batches={len(self)})"

    def facts(self, i: int) -> BatchFacts:
        """Return the facts of batch `i`."""
        entry = self._entries[i].item()
        base_offset, rows, timestamp, term, sequence, owner, fence, epoch, writer, attempt, schema, columns, kind = (
            entry
        )
        return BatchFacts(
            base_offset=base_offset,
            rows=rows,
            timestamp_ms=timestamp,
            term=term,
            schema_id=schema,
            kind=BatchKind(kind),
            writer_id=bytes(writer),
            sequence=sequence,
            owner=owner,
            fence=fence,
            epoch=epoch,
            attempt=bytes(attempt),
            columns=None if columns == _ALL_COLUMNS else self._sets[columns],
        )

    @property
    def base_offset(self) -> Int64s:
        """Return the first offset of each batch."""
        return self._column("base_offset")

    @property
    def rows(self) -> Int64s:
        """Return the row count of each batch."""
        return self._column("rows")

    @property
    def end_offset(self) -> Int64s:
        """Return the offset after each batch."""
        return self.base_offset + self.rows

    @property
    def timestamp_ms(self) -> Int64s:
        """Return the timestamp of each batch."""
        return self._column("timestamp_ms")

    @property
    def term(self) -> Int64s:
        """Return the leader term of each batch."""
        return self._column("term")

    @property
    def sequence(self) -> Int64s:
        """Return the writer's sequence number of each batch, -1 for none."""
        return self._column("sequence")

    @property
    def owner(self) -> Int64s:
        """Return the owner of each batch, -1 for none."""
        return self._column("owner")

    @property
    def fence(self) -> Int64s:
        """Return the owner's fence of each batch, -1 for none."""
        return self._column("fence")

    @property
    def epoch(self) -> Int64s:
        """Return the epoch of each batch, -1 for none."""
        return self._column("epoch")

    @property
    def columns_code(self) -> Int64s:
        """Return a number for each batch, the same for those of one schema that name the same columns."""
        codes: Int64s = (self._entries["schema_id"].astype(np.int64) << 32) + self._entries["columns"]
        return codes

    @property
    def kind(self) -> npt.NDArray[np.int32]:
        """Return the `BatchKind` of each batch."""
        return self._entries["kind"]

    @property
    def writer_id(self) -> npt.NDArray[np.void]:
        """Return the 16 bytes of each batch's writer."""
        return self._entries["writer_id"]

    @property
    def attempt(self) -> npt.NDArray[np.void]:
        """Return the 16 bytes of each batch's attempt."""
        return self._entries["attempt"]

    def batch_of(self, offsets: Int64s) -> Int64s:
        """Return the batch that each offset is in, -1 for offsets before the first or in none."""
        if not len(self):
            return np.full(len(offsets), UNKNOWN, dtype=np.int64)
        found = np.searchsorted(self.base_offset, offsets, side="right") - 1
        inside = (found >= 0) & (offsets < self.end_offset[found])
        return np.where(inside, found, UNKNOWN)

    def timestamps_of(self, offsets: Int64s) -> Int64s:
        """Return the timestamp of each offset, -1 where the directory does not reach."""
        if not len(self):
            return np.full(len(offsets), UNKNOWN, dtype=np.int64)
        found = self.batch_of(offsets)
        return np.where(found == UNKNOWN, UNKNOWN, self.timestamp_ms[found])

    def first_offset_at(self, timestamp_ms: int) -> int | None:
        """Return the first offset written at that time or later, None if there is none."""
        first = int(np.searchsorted(self.timestamp_ms, timestamp_ms, side="left"))
        return int(self.base_offset[first]) if first < len(self) else None

    def between(self, start: int, end: int) -> BatchDirectory:
        """Return the batches with rows in [start, end); one without rows counts where it stands."""
        first = self._first_from(start)
        last = int(np.searchsorted(self.base_offset, end, side="left"))
        return BatchDirectory(self._entries[first : max(first, last)], self._sets)

    def since(self, offset: int) -> BatchDirectory:
        """Return the directory without the batches that lie wholly below `offset`."""
        return BatchDirectory(self._entries[self._first_from(offset) :], self._sets)

    def folded_below(self, offset: int, grain_ms: int) -> BatchDirectory:
        """Return the directory with the batches wholly below `offset` as one for each grain of time.

        Such a one has the latest time of those that it stands for, and says nothing else of them.
        """
        first = self._first_from(offset)
        old = self._entries[:first][self._entries["rows"][:first] > 0]
        if not len(old):
            return BatchDirectory(self._entries[first:], self._sets)
        starts = np.flatnonzero(np.diff(old["timestamp_ms"] // grain_ms, prepend=-1))
        lasts = np.append(starts[1:], len(old)) - 1
        folded = np.zeros(len(starts), dtype=_ENTRY)
        for name in ("owner", "fence", "epoch", "sequence", "columns"):
            folded[name] = _NONE
        folded["base_offset"] = old["base_offset"][starts]
        folded["rows"] = old["base_offset"][lasts] + old["rows"][lasts] - folded["base_offset"]
        folded["timestamp_ms"] = old["timestamp_ms"][lasts]
        folded["schema_id"] = old["schema_id"][lasts]
        return BatchDirectory(np.concatenate([folded, self._entries[first:]]), self._sets)

    def to_bytes(self) -> bytes:
        """Return the directory as bytes, with the version of their format in front."""
        sets = [struct.pack(f"<I{len(columns)}I", len(columns), *columns) for columns in self._sets]
        return b"".join((_HEAD.pack(_VERSION, len(self), len(sets)), *sets, self._entries.tobytes()))

    @classmethod
    def from_bytes(cls, data: bytes | memoryview) -> BatchDirectory:
        """Return the directory that `to_bytes` wrote; shares the memory of `data`.

        Raises:
            CorruptionError: the bytes are not a directory.
        """
        try:
            version, count, set_count = _HEAD.unpack_from(data)
            position = _HEAD.size
            sets: list[tuple[int, ...]] = []
            for _ in range(set_count):
                (length,) = struct.unpack_from("<I", data, position)
                sets.append(struct.unpack_from(f"<{length}I", data, position + 4))
                position += 4 + 4 * length
        except struct.error as error:
            raise CorruptionError("batch directory is cut short; restore the file") from error
        if version != _VERSION or len(data) - position != count * _ENTRY.itemsize:
            raise CorruptionError("batch directory has the wrong length; restore the file", version=version)
        return cls(np.frombuffer(data, dtype=_ENTRY, offset=position), tuple(sets))

    def _column(self, name: str) -> Int64s:
        return self._entries[name]

    def _first_from(self, offset: int) -> int:
        straddling = int(np.searchsorted(self.end_offset, offset, side="right"))
        return min(straddling, int(np.searchsorted(self.base_offset, offset, side="left")))


def concat(directories: Sequence[BatchDirectory]) -> BatchDirectory:
    """Return the batches of all directories, given in log order."""
    sets: dict[tuple[int, ...], int] = {}
    parts = [np.zeros(0, dtype=_ENTRY)]
    for directory in directories:
        entries = directory._entries.copy()
        renamed = np.array([sets.setdefault(columns, len(sets)) for columns in directory._sets], dtype=np.int32)
        if len(renamed):
            named = entries["columns"] != _ALL_COLUMNS
            entries["columns"][named] = renamed[entries["columns"][named]]
        parts.append(entries)
    return BatchDirectory(np.concatenate(parts), tuple(sets))


class DirectoryBuilder:
    """A directory that grows at its end. Not thread-safe; its snapshots are."""

    def __init__(self) -> None:
        self._buffer = bytearray(_ENTRY.itemsize * 64)
        self._entries = np.frombuffer(self._buffer, dtype=_ENTRY)
        self._count = 0
        self._sets: list[tuple[int, ...]] = []
        self._set_ids: dict[tuple[int, ...], int] = {}

    def __len__(self) -> int:
        return self._count

    def append(self, facts: BatchFacts) -> None:
        """Add the next batch of the log."""
        if self._count == len(self._entries):
            # Snapshots keep the old memory: it is copied, never resized.
            self._buffer = self._buffer + bytes(len(self._buffer))
            self._entries = np.frombuffer(self._buffer, dtype=_ENTRY)
        columns = _ALL_COLUMNS if facts.columns is None else self._intern(facts.columns)
        _PACKED.pack_into(
            self._buffer,
            self._count * _PACKED.size,
            facts.base_offset,
            facts.rows,
            facts.timestamp_ms,
            facts.term,
            facts.sequence,
            facts.owner,
            facts.fence,
            facts.epoch,
            facts.writer_id,
            facts.attempt,
            facts.schema_id,
            columns,
            facts.kind,
        )
        self._count += 1

    def snapshot(self) -> BatchDirectory:
        """Return what was appended so far, in constant time."""
        return BatchDirectory(self._entries[: self._count], self._sets)

    def _intern(self, columns: tuple[int, ...]) -> int:
        known = self._set_ids.get(columns)
        if known is None:
            known = self._set_ids[columns] = len(self._sets)
            self._sets.append(columns)
        return known
