"""Rows of a snapshot straight from storage, under the users' names: what a reader in another process imports.

Loads neither the key index nor a server. A lease on the snapshot keeps its files while it is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType

import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import InvalidError
from penstock.model.filter.filter import Filter
from penstock.model.schema.projection import Projection
from penstock.model.table.table import TableInfo
from penstock.runtime.disk import Disk
from penstock.runtime.local_disk import LocalDisk
from penstock.tablet.snapshots.snapshot_reader import SnapshotReader


class StoredSnapshot:
    """One snapshot of one bucket, read from its files. A context manager; thread-safe."""

    def __init__(self, directory: str | Path | Disk, path: str | None) -> None:
        """Open the snapshot at `path` (as `Snapshot.path` has it) of a data directory.

        Raises:
            InvalidError: there is no path: the lease pins a cut, which has no files of its own.
            SnapshotNotFoundError: the snapshot is gone: no lease held it.
            CorruptionError: stored bytes are not what was written.
        """
        if path is None:
            raise InvalidError("a cut has no files of its own; lease a snapshot to read it from storage")
        disk = LocalDisk(Path(directory)) if isinstance(directory, str | Path) else directory
        self._reader = SnapshotReader(disk, path)
        self.info = TableInfo.from_json(self._reader.snapshot.table)
        self.offset = self._reader.snapshot.offset
        self.partition = self._reader.snapshot.partition

    def read(
        self, columns: Iterable[str] | None = None, filter: str | pc.Expression | bytes | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows, with the columns asked for, that the filter lets through.

        Raises:
            InvalidError: a column is unknown, or the filter is not understood.
            CorruptionError: stored bytes are not what was written.
        """
        schema = self.info.schema
        projection = Projection(schema, columns)
        chosen = Filter.from_bytes(filter, schema) if isinstance(filter, bytes) else Filter(filter, schema)
        tested = [schema.column(name) for name in chosen.columns]
        stored = projection.stored_with(column.stored for column in tested)
        for block in self._reader.scan(stored):
            shown = projection.show(block.batch)
            if not chosen.is_all:
                shown = shown.filter(pa.array(chosen.mask_stored(block.batch)))
            if shown.num_rows:
                yield shown

    def to_arrow(self, columns: Iterable[str] | None = None) -> pa.Table:
        """Return all rows as a table."""
        names = None if columns is None else tuple(columns)
        shown = Projection(self.info.schema, names).shown
        return pa.Table.from_batches(self.read(names), schema=shown)

    def close(self) -> None:
        """Let go of the files; idempotent."""
        self._reader.close()

    def __enter__(self) -> StoredSnapshot:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
