"""The directory of one bucket: how its files are named, opened, and let go.

Names carry a number that is never used twice in a bucket: `segment-…`, `data-…`, `ends-…`,
`manifest-…`. The newest manifest counts; a file that it does not name, and a segment below its
`log_start`, is rubbish of an interrupted step and is removed when the bucket is opened. Files that
a `snapshot-…` names stay until that is gone.
"""

from __future__ import annotations

import contextlib
import itertools
import weakref
from collections import deque
from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from penstock.codec.stored.ends_file import decode_ends, encode_ends
from penstock.codec.stored.manifest import Manifest, decode_manifest, encode_manifest
from penstock.errors import CorruptionError
from penstock.log.append_pool import AppendPool
from penstock.log.chunk_cache import ChunkCache
from penstock.log.data_file import DataFile
from penstock.log.file_pool import FilePool
from penstock.log.settings import LogSettings
from penstock.model.place.bucket import BucketId
from penstock.runtime.disk import Disk, write_atomically
from penstock.tablet.files.kept_files import KeptFiles

_DIGITS: Final = 12


class BucketFiles:
    """The files of one bucket."""

    def __init__(
        self,
        disk: Disk,
        bucket: BucketId,
        pool: FilePool,
        cache: ChunkCache,
        settings: LogSettings,
        *,
        appends: AppendPool | None = None,
    ) -> None:
        self.disk = disk
        self.bucket = bucket
        self.settings = settings
        self.directory = bucket.directory()
        self.kept = KeptFiles()
        self.appends = appends or AppendPool(disk, settings.open_segments_max)
        self._pool = pool
        self._cache = cache
        self._made = False
        self._retired: deque[str] = deque()
        numbers = [int(name[-_DIGITS:]) for name in disk.list(self.directory) if name[-_DIGITS:].isdigit()]
        self._numbers = itertools.count(max(numbers, default=0) + 1)

    def make_directory(self) -> None:
        """Create the directory, durably; a bucket without writes needs none."""
        if not self._made:
            self.disk.make_directory(self.directory)
            self._made = True

    def path(self, name: str) -> str:
        """Return the path of a file of this bucket."""
        return f"{self.directory}/{name}"

    def size_bytes(self) -> int:
        """Return the size of all files of the bucket."""
        return sum(self.disk.size(self.path(name)) for name in self.disk.list(self.directory))

    def new_name(self, kind: str) -> str:
        """Return a name that was never used before."""
        return f"{kind}-{next(self._numbers):0{_DIGITS}d}"

    def names(self, kind: str) -> list[str]:
        """Return the names of all files of a kind, oldest first."""
        return [n for n in self.disk.list(self.directory) if n.startswith(kind + "-") and n[-_DIGITS:].isdigit()]

    def sync_names(self) -> None:
        """Make durable what a killed process had renamed but not synced: it is about to be acted upon."""
        if self.disk.exists(self.directory):
            self.disk.sync_directory(self.directory)

    def newest_manifest(self) -> Manifest | None:
        """Return the newest manifest, None for a bucket that has none yet.

        Raises:
            CorruptionError: the manifest is damaged or missing.
        """
        names = self.names("manifest")
        if not names:
            # Data files beside the whole log are those of a first seal that did not get to its manifest.
            if self.names("data") and not self.names("segment"):
                raise CorruptionError("bucket has data files but no manifest; restore it", directory=self.directory)
            return None
        path = self.path(names[-1])
        manifest = decode_manifest(self.disk.read(path), name=path)
        if manifest.bucket != self.bucket:
            raise CorruptionError("manifest belongs to another bucket", file=path, bucket=manifest.bucket)
        return manifest

    def write_manifest(self, manifest: Manifest) -> None:
        """Make a manifest the newest, durably; older ones go.

        Raises:
            OSError: as the disk gave it; which manifest counts after a crash is open, and both are true.
        """
        self.make_directory()
        older = self.names("manifest")
        self._write(f"manifest-{manifest.number:0{_DIGITS}d}", encode_manifest(manifest))
        self.remove(older)

    def new_manifest_number(self) -> int:
        """Return a number for the next manifest."""
        return next(self._numbers)

    def open_data(self, name: str) -> DataFile:
        """Open a data file.

        Raises:
            CorruptionError: it is missing, damaged, or that of another bucket.
        """
        path = self.path(name)
        try:
            file = DataFile(self._pool, path, self._cache)
        except FileNotFoundError as error:
            raise CorruptionError("data file is missing; restore it", file=path) from error
        if file.info.bucket != self.bucket:
            raise CorruptionError("data file belongs to another bucket", file=path, bucket=file.info.bucket)
        return file

    def write_ends(self, ends: npt.NDArray[np.int64]) -> str:
        """Write the ends of a data file to a new file; return its name. Durable when this returns."""
        name = self.new_name("ends")
        self._write(name, encode_ends(ends))
        return name

    def read_ends(self, name: str, rows: int) -> npt.NDArray[np.int64]:
        """Return the ends saved under a name."""
        path = self.path(name)
        return decode_ends(self.disk.read(path), rows=rows, name=path)

    def remove(self, names: Sequence[str]) -> None:
        """Remove files that no manifest names any more; what cannot be removed goes at the next open."""
        for name in names:
            path = self.path(name)
            self._pool.drop(path)
            self._cache.drop(path)
            if not self.kept.defer(name):
                with contextlib.suppress(OSError):
                    self.disk.remove(path)

    def remove_durably(self, name: str) -> None:
        """Remove a file that must not come back after a power loss."""
        self.disk.remove(self.path(name))
        self.disk.sync_directory(self.directory)

    def discard(self, names: Sequence[str]) -> None:
        """Remove new files after the step that wrote them failed, unless a manifest came to name them after all."""
        with contextlib.suppress(OSError, CorruptionError):
            manifest = self.newest_manifest()
            named = manifest.file_names() if manifest is not None else set()
            self.remove([name for name in names if name not in named])

    def retire(self, file: DataFile) -> None:
        """Let a data file go at the first `sweep` after the last view that holds it is gone."""
        # Python may collect a view anywhere, also where a lock of the pool is held: nothing more is done there.
        weakref.finalize(file, self._retired.append, file.path.rpartition("/")[2]).atexit = False

    def sweep(self) -> None:
        """Remove the retired files that no view holds any more."""
        while self._retired:
            self.remove([self._retired.popleft()])

    def remove_rubbish(self, manifest: Manifest | None) -> None:
        """Remove what an interrupted step left behind."""
        named = manifest.file_names() if manifest is not None else set()
        rubbish = [name for kind in ("data", "ends") for name in self.names(kind) if name not in named]
        rubbish += self.names("manifest")[:-1]
        rubbish += [name for name in self.disk.list(self.directory) if name.endswith(".tmp")]
        self.remove(rubbish)

    def _write(self, name: str, data: bytes) -> None:
        try:
            write_atomically(self.disk, self.path(name), data)
        except OSError:
            with contextlib.suppress(OSError):
                self.disk.remove(self.path(name) + ".tmp")
            raise
