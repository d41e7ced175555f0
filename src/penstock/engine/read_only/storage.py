"""Buckets of a directory that another process may be writing, opened as they are at one moment of their table.

A table's buckets are read one after the other while groups of writes come in. Every group up to the last one that a
first look met is whole, or is not there at all, in what a second look finds: a committer writes one group after the
other. So what the second look finds beyond it is left off, and the table is shown as it was when that group was done.
What is replaced between two reads of one look makes another look necessary.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from penstock.engine.home.storage import Storage
from penstock.engine.read_only.scanned_index import ScannedIndex
from penstock.engine.settings import Settings
from penstock.errors import CorruptionError, PartitionNotFoundError, PenstockError, UnavailableError
from penstock.log.settings import LogSettings
from penstock.model.place.bucket import BucketId
from penstock.runtime.read_only_disk import ReadOnlyDisk, gone
from penstock.tablet.files.durable import NOTHING_DURABLE, Durable
from penstock.tablet.files.found_log import FoundLog
from penstock.tablet.files.group_cut import cut_unfinished_group
from penstock.tablet.merge.rule import MergeRule
from penstock.tablet.schema import TabletSchema
from penstock.tablet.steps.recovery import open_for_reading
from penstock.tablet.tablet import Tablet

LOOKS_MAX: Final = 200
SAME_DAMAGE: Final = 4
"""How often the same damage is met before it is told: a race ends, and is at another place the next time."""


class ReadOnlyStorage(Storage):
    """Opens buckets without changing them. Thread-safe."""

    def __init__(
        self, disk: ReadOnlyDisk, index: ScannedIndex, settings: Settings, log_settings: LogSettings | None = None
    ) -> None:
        super().__init__(disk, index, settings, log_settings)
        self._read_disk = disk
        self._scanned = index
        self._frozen = False

    def freeze(self) -> None:
        """Open nothing from now on: it would be of another moment."""
        self._frozen = True

    def open_tablets(
        self,
        buckets: Mapping[BucketId, int],
        schema: TabletSchema,
        rule: MergeRule,
        durable: Mapping[BucketId, Durable] = MappingProxyType({}),
    ) -> dict[BucketId, Tablet]:
        """Open buckets of a table as they are at one moment.

        Raises:
            CorruptionError: stored bytes are not what was written.
            UnsupportedError: a newer version wrote them.
            UnavailableError: the directory is changed faster than it can be read.
            PartitionNotFoundError: it is too late to open more.
        """
        if self._frozen:
            raise PartitionNotFoundError("what was dropped is not there on a read-only connection")
        told: PenstockError = gone("tables")
        same = 0
        for _ in range(LOOKS_MAX):
            try:
                logs = self._look(buckets, durable)
                if logs is not None:
                    return {bucket: self._open(log, schema, rule) for bucket, log in logs.items()}
            except (CorruptionError, UnavailableError) as error:
                same = same + 1 if str(error) == str(told) else 0
                told = error
                if isinstance(error, CorruptionError) and same >= SAME_DAMAGE:
                    raise
        raise told

    def _look(
        self, buckets: Mapping[BucketId, int], durable: Mapping[BucketId, Durable]
    ) -> dict[BucketId, FoundLog] | None:
        """Return the logs of a table as of one group; None if they were changed too much meanwhile."""
        limit = None
        if len(buckets) > 1:
            limit = max((log.group for log in self._find(buckets, durable).values()), default=-1)
        logs = self._find(buckets, durable)
        if limit is not None and not all(log.limit(limit) for log in logs.values()):
            return None
        cut_unfinished_group(logs)
        for log in logs.values():
            for name, _ in log.segments[-1:]:
                self._read_disk.settle(log.files.path(name))
        return logs

    def _find(self, buckets: Mapping[BucketId, int], durable: Mapping[BucketId, Durable]) -> dict[BucketId, FoundLog]:
        # The index is not asked: it belongs to the writer.
        return {
            bucket: self.find(bucket, first, applied=first, durable=durable.get(bucket, NOTHING_DURABLE))
            for bucket, first in buckets.items()
        }

    def _open(self, log: FoundLog, schema: TabletSchema, rule: MergeRule) -> Tablet:
        tablet = open_for_reading(log, schema, rule=rule, index=self.index, settings=self.tablet_settings)
        if any(not self.disk.exists(tablet.snapshots.path(number)) for number in tablet.snapshots.damaged()):
            raise gone(log.files.directory)  # a snapshot that goes with its files looks damaged for a moment
        self._scanned.adopt(tablet)
        return tablet
