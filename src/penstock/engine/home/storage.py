"""The parts that all buckets of a node share: disk, key index, open files, cached chunks."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

from penstock.engine.home.disk_room import DiskRoom
from penstock.engine.home.memory_budget import MemoryBudget
from penstock.engine.settings import Settings
from penstock.errors import CorruptionError, DiskFullError, UnavailableError
from penstock.index.front.front import FrontedKeyIndex
from penstock.index.front.front_settings import FrontSettings
from penstock.index.key_index import KeyIndex
from penstock.index.rocks.index import RocksKeyIndex
from penstock.index.rocks.settings import RocksIndexSettings
from penstock.log.append_pool import AppendPool
from penstock.log.chunk_cache import ChunkCache
from penstock.log.file_pool import FilePool
from penstock.log.settings import LogSettings
from penstock.model.place.bucket import BucketId
from penstock.runtime.disk import Disk
from penstock.tablet.files.bucket_files import BucketFiles
from penstock.tablet.files.durable import NOTHING_DURABLE, Durable
from penstock.tablet.files.found_log import FoundLog
from penstock.tablet.files.group_cut import cut_unfinished_group
from penstock.tablet.merge.rule import MergeRule
from penstock.tablet.schema import TabletSchema
from penstock.tablet.settings import TabletSettings
from penstock.tablet.steps.recovery import find_log, open_found
from penstock.tablet.tablet import Tablet

_log = logging.getLogger("penstock")

TABLES: Final = "tables"


class Storage:
    """Opens buckets on shared parts. Thread-safe: each part has a lock of its own."""

    def __init__(
        self, disk: Disk, index: KeyIndex, settings: Settings, log_settings: LogSettings | None = None
    ) -> None:
        self.disk = disk
        self.index = index
        self._log_settings = log_settings or LogSettings()
        self._pool = FilePool(disk, self._log_settings.open_files_max)
        self._appends = AppendPool(disk, self._log_settings.open_segments_max)
        self.room = DiskRoom(disk)
        self._cache = ChunkCache(self._log_settings.cache_bytes_max)
        budget = MemoryBudget.of(settings)
        self.tablet_settings = TabletSettings(
            segment_bytes=budget.segment_bytes(settings.segment_bytes),
            file_rows_max=budget.file_rows(),
            fsync=settings.fsync,
        )

    def open_tablets(
        self,
        buckets: Mapping[BucketId, int],
        schema: TabletSchema,
        rule: MergeRule,
        durable: Mapping[BucketId, Durable] = MappingProxyType({}),
    ) -> dict[BucketId, Tablet]:
        """Open buckets of a table, or make them; their logs begin there, and are as long as others know them to be.

        A last group that is not in all of those that have a part in it is cut off.

        Raises:
            CorruptionError: stored bytes are not what was written.
            UnsupportedError: a newer version wrote them.
            OSError: as the disk gave it.
        """
        logs: dict[BucketId, FoundLog] = {}
        for bucket, first_offset in buckets.items():
            files = self._files(bucket)
            logs[bucket] = find_log(files, self.index, first_offset, durable.get(bucket, NOTHING_DURABLE))
        cut_unfinished_group(logs)
        settings = self.tablet_settings
        return {
            bucket: open_found(log, schema, rule=rule, index=self.index, settings=settings)
            for bucket, log in logs.items()
        }

    def find(self, bucket: BucketId, first_offset: int, *, applied: int, durable: Durable) -> FoundLog:
        """Return what the disk has of a bucket's log, as far as `applied` the index knows it.

        Raises:
            CorruptionError, UnsupportedError, OSError: as `open_tablets` has it.
        """
        return FoundLog(self._files(bucket), first_offset=first_offset, applied=applied, durable=durable)

    def _files(self, bucket: BucketId) -> BucketFiles:
        return BucketFiles(self.disk, bucket, self._pool, self._cache, self._log_settings, appends=self._appends)

    def tidy(self) -> None:
        """Take their descriptors from the segments that were not written since the last call; see to the reserve."""
        self._appends.park_idle()
        self.room.keep()

    def remove_table(self, table_id: int, buckets: list[BucketId]) -> None:
        """Remove the files and index entries of a dropped table."""
        for bucket in buckets:
            self.index.drop(bucket)
        self._remove_durably(TABLES, table_id)

    def remove_partition(self, table_id: int, partition_id: int, buckets: int) -> None:
        """Remove the files and index entries of a dropped partition."""
        for bucket in range(buckets):
            self.index.drop(BucketId(table_id, partition_id, bucket))
        self._remove_durably(f"{TABLES}/{table_id}", partition_id)

    def _remove_durably(self, directory: str, name: int) -> None:
        # The catalog forgets it next: after that nothing would remove what a power loss brought back.
        self.disk.remove_tree(f"{directory}/{name}")
        self._pool.drop_under(f"{directory}/{name}")
        self._cache.drop_under(f"{directory}/{name}")
        if self.disk.exists(directory):
            self.disk.sync_directory(directory)

    def close(self, *, flush: bool = True) -> None:
        """Flush and close the index, and let go of files; idempotent."""
        try:
            if flush:
                self.index.flush()
        except (DiskFullError, UnavailableError) as error:
            _log.warning("the key index was not saved; the next start reads more of the log reason=%s", error)
        self.index.close()
        self._pool.close()


def open_index(path: Path, front: FrontSettings | None = None, settings: RocksIndexSettings | None = None) -> KeyIndex:
    """Open the key index of a data directory, with a front unless that has no room.

    A damaged index is removed and made anew from the log.
    """
    index = _open_rocks(path, settings)
    return FrontedKeyIndex(index, front) if front is not None and front.table_bytes_max else index


def _open_rocks(path: Path, settings: RocksIndexSettings | None) -> RocksKeyIndex:
    try:
        index = RocksKeyIndex(path, settings)
        try:
            # The opening of a node asks this first; what fails then can still be made anew.
            index.buckets()
        except CorruptionError:
            index.close()
            raise
        return index
    except CorruptionError as error:
        _log.warning("key index is damaged and will be rebuilt from the log path=%s reason=%s", path, error)
        RocksKeyIndex.destroy(path)
        return RocksKeyIndex(path, settings)
