"""Read a snapshot straight from storage: no engine, no index, no lock, only its files.

The reader holds a lease on the snapshot: that is what keeps the files.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from penstock.codec.stored.ends_file import decode_ends
from penstock.codec.stored.manifest import FileEntry
from penstock.codec.stored.snapshot_file import SnapshotFile, decode_snapshot
from penstock.errors import CorruptionError, SnapshotNotFoundError
from penstock.log.chunk_cache import ChunkCache
from penstock.log.data_file import DataFile
from penstock.log.file_pool import FilePool
from penstock.log.settings import LogSettings
from penstock.runtime.disk import Disk
from penstock.tablet.view.ends import Ends
from penstock.tablet.view.span import RowBlock, Run, Span
from penstock.tablet.view.view import TabletView


class SnapshotReader:
    """Reads the rows of one snapshot. Thread-safe: it never changes."""

    def __init__(self, disk: Disk, path: str) -> None:
        """Open the snapshot whose file is at `path`, relative to the disk.

        Raises:
            SnapshotNotFoundError: the snapshot, or a file of it, is gone: no lease held it.
            CorruptionError: stored bytes are not what was written.
            UnsupportedError: a newer version wrote them.
        """
        self._disk = disk
        self._directory = path.rpartition("/")[0]
        settings = LogSettings()
        self._pool = FilePool(disk, settings.open_files_max)
        self._cache = ChunkCache(settings.cache_bytes_max)
        try:
            self.snapshot: SnapshotFile = decode_snapshot(disk.read(path), name=path)
            spans = tuple(
                Span(span.start, span.end, tuple(self._run(entry) for entry in span.files))
                for span in self.snapshot.spans
            )
        except FileNotFoundError as error:
            self._pool.close()
            raise _gone(path) from error
        offset = self.snapshot.offset
        self._view = TabletView.of(self.snapshot.bucket, offset, offset, spans)

    def scan(self, projection: pa.Schema, *, start: int = 0) -> Iterator[RowBlock]:
        """Yield the rows of the snapshot in offset order, those below `start` left out; columns by id.

        Raises:
            CorruptionError: stored bytes are not what was written.
            SnapshotNotFoundError: the files went while they were read: no lease held the snapshot.
        """
        try:
            yield from self._view.scan(self.snapshot.offset, projection, start=start)
        except FileNotFoundError as error:
            raise _gone(self._directory) from error

    def close(self) -> None:
        """Let go of the files; idempotent."""
        self._pool.close()

    def _run(self, entry: FileEntry) -> Run:
        path = self._path(entry.name)
        file = DataFile(self._pool, path, self._cache)
        if file.info.bucket != self.snapshot.bucket or file.info.size_bytes != self.snapshot.sizes[entry.name]:
            raise CorruptionError("data file is not the one that the snapshot names; restore it", file=path)
        if entry.ends is None:
            return Run(file, Ends())
        ends_path = self._path(entry.ends)
        return Run(file, Ends(decode_ends(self._disk.read(ends_path), rows=file.rows, name=ends_path)))

    def _path(self, name: str) -> str:
        return f"{self._directory}/{name}"


def _gone(path: str) -> SnapshotNotFoundError:
    return SnapshotNotFoundError("the snapshot is gone from storage; hold a lease on it while reading", file=path)
