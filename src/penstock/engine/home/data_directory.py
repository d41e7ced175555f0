"""A data directory that a node holds: its lock, key index, disk and metadata, taken together and let go together."""

from __future__ import annotations

import logging
import os
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from penstock.engine.home.disk_room import DiskRoom
from penstock.engine.home.memory_budget import MemoryBudget
from penstock.engine.home.storage import TABLES, Storage, open_index
from penstock.engine.metadata.sqlite_store import SqliteMetadataStore
from penstock.engine.settings import Settings
from penstock.runtime.clock import Clock
from penstock.runtime.directory_lock import DirectoryLock, take_directory
from penstock.runtime.local_disk import LocalDisk
from penstock.runtime.open_files import allow_open_files, share_open_files

_log = logging.getLogger("penstock")
METADATA: Final = "metadata.db"
_NAMED_MAX: Final = 10


@dataclass(frozen=True)
class DataDirectory:
    """Everything that a node needs of its directory, held by this process."""

    lock: DirectoryLock
    settings: Settings
    storage: Storage
    metadata: SqliteMetadataStore
    _held: ExitStack

    @classmethod
    def take(cls, root: Path, settings: Settings | None, clock: Clock) -> DataDirectory:
        """Open a directory, made if it is not there; what fails leaves it free for the next who tries.

        Raises:
            DirectoryInUseError: another process, or this one, has it open.
            InvalidError: the path is a file's.
            PermissionDeniedError: it may not be written.
            CorruptionError: stored bytes are not what was written.
        """
        with ExitStack() as stack:
            lock = take_directory(root, clock=clock)
            stack.callback(lock.release)
            _warn_if_open_to_others(root)
            shares = share_open_files(allow_open_files())
            found = settings if settings is not None else Settings.load(root / "penstock.toml")
            disk = LocalDisk(root, in_place=lambda: lock.in_place)
            DiskRoom(disk).give_up()
            budget = MemoryBudget.of(found)
            tables = [name for name in disk.list(TABLES) if name.isdigit()]
            if tables and not (root / "index").exists():
                _log.info("making the key index of the rows, as after a restore directory=%s", root)
            index = open_index(root / "index", budget.front_settings(), budget.index_settings(shares))
            stack.callback(index.close)
            tables = tables or [str(bucket) for bucket in index.buckets()]
            named = f"{TABLES}/{{{','.join(tables[:_NAMED_MAX])}}}" if tables else ""
            metadata = SqliteMetadataStore(root / METADATA, expected=named)
            stack.callback(metadata.close)
            storage = Storage(disk, index, found, budget.log_settings(shares))
            storage.room.keep()
            return cls(lock, found, storage, metadata, stack.pop_all())

    def let_go(self) -> None:
        """Leave the directory as it is and to the next."""
        self._held.close()


def _warn_if_open_to_others(root: Path) -> None:
    """Tell of a directory of an earlier version, whose files others may read."""
    try:
        modes = [os.stat(root).st_mode, os.stat(root / METADATA).st_mode]
    except FileNotFoundError:
        return
    if all(mode & 0o077 for mode in modes):
        _log.warning("other users may read the data directory; close it with: chmod -R go= %s", root)
