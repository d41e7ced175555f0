"""Rows of a snapshot straight from storage, under the users' names: what a reader in another process imports.

Loads neither the key index nor a server. A lease on the snapshot keeps its files while it is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType

import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import InvalidError, SchemaMismatchError
from penstock.model.filter.filter import Filter
from penstock.model.schema.projection import Projection
from penstock.model.schema.schema import Schema
from penstock.model.table.table import TableInfo
from penstock.runtime.disk import Disk
from penstock.runtime.local_disk import LocalDisk
from penstock.tablet.snapshots.snapshot_reader import SnapshotReader


class StoredSnapshot:
    """One snapshot of one bucket, read from its files. A context manager; thread-safe: it never changes."""

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
        self,
        columns: Iterable[str] | None = None,
        filter: str | pc.Expression | bytes | None = None,
        schema: Schema | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows, with the columns asked for, that the filter lets through.

        They are shown by the schema that the reader knows, or by that of the table when the snapshot was taken.

        Raises:
            InvalidError: a column is unknown, or the filter is not understood.
            SchemaMismatchError: a column had been dropped by then.
            CorruptionError: stored bytes are not what was written.
        """
        schema = self.info.schema if schema is None else schema
        projection = Projection(schema, columns)
        chosen = Filter.from_bytes(filter, schema) if isinstance(filter, bytes) else Filter(filter, schema)
        tested = [schema.column(name) for name in chosen.columns]
        for column in (*projection.columns, *tested):
            # One that has a later id was added since, and is as its default says.
            if self.info.schema.column_by_id(column.id) is None and column.id < self.info.schema.ids_end:
                raise SchemaMismatchError("the column had been dropped when the snapshot was taken", column=column.name)
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
