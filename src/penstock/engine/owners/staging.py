"""Staged rows: durable, and invisible until their epoch is committed.

One file for each call, in `tables/<id>/staged/`: a checked frame with a line of JSON that says what
the rows are and how they are told apart by bucket, and behind it an Arrow stream for each bucket. The
bucket is decided when rows are staged, never again, so that rolling forward twice meets the same one.
The name says whose rows these are: owner number, epoch, the call's turn, attempt,
writer, sequence, rows.
"""

from __future__ import annotations

import contextlib
import json
import struct
import threading
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from penstock.codec.stored.framed import frame, unframe
from penstock.errors import CorruptionError, InvalidError
from penstock.model.place.bucket import BucketId
from penstock.model.schema.agg_mode import AggMode
from penstock.runtime.disk import Disk, write_atomically
from penstock.tablet.merge.rule import Request
from penstock.tablet.schema import TabletSchema

MAGIC: Final = b"PNST"
VERSION: Final = 1
_LENGTH: Final = struct.Struct("<I")
_DELETES: Final = "_deletes"
_RETRACTS: Final = "_retracts"


@dataclass(frozen=True, slots=True, order=True)
class StagedFile:
    """One staged call; files of an epoch are applied in this order."""

    owner: int
    epoch: int
    turn: int
    attempt: bytes
    writer_id: bytes
    sequence: int
    rows: int

    @property
    def name(self) -> str:
        """Return the file's name."""
        return (
            f"{self.owner}_{self.epoch}_{self.turn:08}_{self.attempt.hex()}_"
            f"{self.writer_id.hex()}_{self.sequence}_{self.rows}.rows"
        )

    @classmethod
    def parse(cls, name: str) -> StagedFile | None:
        """Return what a name says; None if it is no staged file's."""
        parts = name.removesuffix(".rows").split("_")
        if not name.endswith(".rows") or len(parts) != 7:
            return None
        owner, epoch, turn, attempt, writer, sequence, rows = parts
        return cls(
            int(owner), int(epoch), int(turn), bytes.fromhex(attempt), bytes.fromhex(writer), int(sequence), int(rows)
        )


class StagedRows:
    """The staged rows of one table. Thread-safe by one lock."""

    def __init__(self, disk: Disk, table_id: int) -> None:
        self._disk = disk
        self._table_id = table_id
        self._directory = f"tables/{table_id}/staged"
        self._lock = threading.Lock()
        found = [StagedFile.parse(name) for name in disk.list(self._directory)]
        self._files = {file.name: file for file in found if file is not None}
        self._partitions: dict[str, frozenset[int]] = {}
        """Where the rows of each file go, as far as this process knows."""
        self._turn = max((file.turn for file in self._files.values()), default=0)

    def of(self, owner: int) -> list[StagedFile]:
        """Return what an owner staged, in order."""
        with self._lock:
            return sorted(file for file in self._files.values() if file.owner == owner)

    def find(self, owner: int, epoch: int, attempt: bytes, writer: tuple[bytes, int]) -> StagedFile | None:
        """Return the file of a call that was staged before."""
        for file in self.of(owner):
            if (file.epoch, file.attempt, (file.writer_id, file.sequence)) == (epoch, attempt, writer):
                return file
        return None

    def turn(self) -> int:
        """Return the turn of the next call."""
        with self._lock:
            self._turn += 1
            return self._turn

    def write(self, file: StagedFile, parts: Mapping[BucketId, Request]) -> None:
        """Make rows durable; they count when `keep` was called.

        Raises:
            OSError: as the disk gave it; nothing was staged.
        """
        self._disk.make_directory(self._directory)
        write_atomically(self._disk, self._path(file), _encode(parts))
        with self._lock:
            self._partitions[file.name] = frozenset(bucket.partition_id for bucket in parts)

    def keep(self, file: StagedFile) -> None:
        """Count rows that are durable."""
        with self._lock:
            self._files[file.name] = file

    def size_bytes(self, file: StagedFile) -> int:
        """Return the size of a call's file.

        Raises:
            CorruptionError: the file is gone.
        """
        path = self._path(file)
        try:
            return self._disk.size(path)
        except OSError as error:
            raise _missing(path) from error

    def partitions(self, file: StagedFile) -> frozenset[int]:
        """Return the ids of the partitions that a call has rows for.

        Raises:
            CorruptionError: the file is gone or damaged.
        """
        with self._lock:
            found = self._partitions.get(file.name)
        if found is None:
            found = frozenset(bucket.partition_id for bucket in self.sizes(file))
            with self._lock:
                self._partitions[file.name] = found
        return found

    def columns(self, file: StagedFile) -> frozenset[int]:
        """Return the ids of the columns that a call has rows of.

        Raises:
            CorruptionError: the file is gone or damaged.
        """
        path = self._path(file)
        parts = _open(self._load(path), self._table_id, path).values()
        try:
            names = {name for part in parts for name in pa.ipc.open_stream(part.rows).schema.names}
        except pa.ArrowException as error:
            raise _damaged(path) from error
        return frozenset(int(name) for name in names - {_DELETES, _RETRACTS}).union(*(p.columns or () for p in parts))

    def sizes(self, file: StagedFile) -> dict[BucketId, int]:
        """Return how many bytes a call has for each bucket, after checking all of them.

        Raises:
            CorruptionError: the file is gone or damaged.
        """
        path = self._path(file)
        parts = _open(self._load(path), self._table_id, path)
        return {bucket: len(part.rows) for bucket, part in parts.items()}

    def read(
        self, file: StagedFile, schema: TabletSchema, buckets: Container[BucketId] | None = None
    ) -> dict[BucketId, Request]:
        """Return the rows of a call, by bucket: of these buckets, or of all.

        Raises:
            CorruptionError: the file is gone or damaged.
        """
        path = self._path(file)
        return _decode(self._load(path), self._table_id, schema, path, buckets)

    def _path(self, file: StagedFile) -> str:
        return f"{self._directory}/{file.name}"

    def _load(self, path: str) -> bytes:
        try:
            return self._disk.read(path)
        except OSError as error:
            raise _missing(path) from error

    def remove(self, files: Iterable[StagedFile]) -> None:
        """Forget staged rows; a file that cannot be removed is forgotten at the next commit."""
        for file in files:
            with self._lock:
                self._files.pop(file.name, None)
                self._partitions.pop(file.name, None)
            with contextlib.suppress(OSError):
                self._disk.remove(self._path(file))


def _encode(parts: Mapping[BucketId, Request]) -> bytes:
    line, streams = [], []
    for bucket, request in sorted(parts.items()):
        sink = pa.BufferOutputStream()
        rows = request.rows
        for name, mask in ((_DELETES, request.deletes), (_RETRACTS, request.retracts)):
            if mask is not None:
                rows = rows.append_column(name, pa.array(mask))
        with pa.ipc.new_stream(sink, rows.schema) as stream:
            stream.write_batch(rows)
        data = sink.getvalue()
        streams.append(data)
        columns = None if request.columns is None else list(request.columns)
        line.append([bucket.partition_id, bucket.bucket, data.size, columns, request.clears, str(request.mode)])
    head = json.dumps(line, separators=(",", ":")).encode()
    return frame(MAGIC, VERSION, b"".join([_LENGTH.pack(len(head)), head, *(bytes(data) for data in streams)]))


class _Part(NamedTuple):
    """One bucket's rows of a call: their Arrow stream, and what the line of JSON says of them."""

    rows: memoryview
    columns: tuple[int, ...] | None
    clears: bool
    mode: AggMode


def _open(data: bytes, table_id: int, path: str) -> dict[BucketId, _Part]:
    _, payload = unframe(MAGIC, VERSION, data, name=path)
    view = memoryview(payload)
    try:
        (length,) = _LENGTH.unpack_from(payload)
        position = _LENGTH.size + length
        parts = {}
        for partition, bucket, size, columns, clears, mode in json.loads(payload[_LENGTH.size : position]):
            named = None if columns is None else tuple(columns)
            stream = view[position : position + size]
            parts[BucketId(table_id, partition, bucket)] = _Part(stream, named, clears, AggMode.parse(mode))
            position += size
    except (ValueError, KeyError, TypeError, struct.error, InvalidError) as error:
        raise _damaged(path) from error
    return parts


def _decode(
    data: bytes, table_id: int, schema: TabletSchema, path: str, buckets: Container[BucketId] | None
) -> dict[BucketId, Request]:
    requests = {}
    for bucket, part in _open(data, table_id, path).items():
        if buckets is not None and bucket not in buckets:
            continue
        try:
            rows, masks = _without_masks(pa.ipc.open_stream(part.rows).read_next_batch())
            requests[bucket] = Request(
                rows,
                schema.encode_keys(rows) if schema.keyed else None,
                masks.get(_DELETES),
                part.columns,
                part.clears,
                part.mode,
                masks.get(_RETRACTS),
            )
        except (ValueError, KeyError, TypeError, pa.ArrowException) as error:
            raise _damaged(path) from error
    return requests


def _missing(path: str) -> CorruptionError:
    return CorruptionError("staged rows are missing; undo the epoch and write it again", file=path)


def _damaged(path: str) -> CorruptionError:
    return CorruptionError("staged rows are not what was staged", file=path)


def _without_masks(rows: pa.RecordBatch) -> tuple[pa.RecordBatch, dict[str, np.ndarray[Any, np.dtype[np.bool_]]]]:
    masks = {}
    for name in (_DELETES, _RETRACTS):
        if name in rows.schema.names:
            masks[name] = rows.column(name).to_numpy(zero_copy_only=False)
            rows = rows.drop_columns([name])
    return rows, masks
