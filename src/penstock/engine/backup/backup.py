"""Begin a backup of a node while it works: all tables at one moment, and the catalog.

Nobody waits for the copy. What a backup needs is fixed when it begins: data files that never change, the few rows
that are in none yet, a manifest for each bucket, the catalog. The key index is not in it; it is made anew. Leases,
owners and staged rows stay behind; the history of changes comes along.
"""

from __future__ import annotations

import errno
import logging
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Final

from penstock.codec.stored.backup_inventory import DESCRIPTION
from penstock.codec.stored.lease_record import Hold
from penstock.engine.backup.bucket_files import describe_bucket
from penstock.engine.backup.moment import TableMoment, take_moment
from penstock.engine.backup.session import BackupSession, Stored, backup_holder, encode_description
from penstock.engine.catalog.catalog import Catalog
from penstock.engine.catalog.identity import Identity
from penstock.engine.catalog.records import ROOT
from penstock.engine.metadata.store import MetadataStore
from penstock.engine.table.lease_pins import LeasePins
from penstock.engine.table.open_table import OpenTable
from penstock.engine.table.open_tables import OpenTables
from penstock.errors import BucketFailedError, DiskFullError, NotFoundError, NotLeaderError, UnavailableError
from penstock.model.node.backup import BackupFile, BackupPlan
from penstock.model.place.bucket import BucketId, TableBucket
from penstock.runtime.clock import Clock
from penstock.runtime.disk import Disk
from penstock.tablet.tablet import Tablet

_log = logging.getLogger("penstock")
STAGED: Final = "backup"
"""The directory of a node with the newest rows of backups under way."""
SEALED_BYTES_MIN: Final = 1 << 20
"""Unsealed rows of a bucket above this are sealed first: the next backup need not copy them again."""
Seal = Callable[[OpenTable, Tablet], None]


class BackupStart:
    """Begins the backups of a node. Thread-safe: keeps nothing of its own."""

    def __init__(
        self,
        tables: OpenTables,
        catalog: Catalog,
        metadata: MetadataStore,
        *,
        lease_pins: LeasePins,
        disk: Disk,
        seal: Seal,
        clock: Clock,
    ) -> None:
        """Back up these tables; `seal` moves the unsealed rows of a bucket into a data file."""
        self._tables = tables
        self._catalog = catalog
        self._metadata = metadata
        self._lease_pins = lease_pins
        self._disk = disk
        self._seal = seal
        self._clock = clock

    def begin(self, target: str, principal: str) -> BackupSession:
        """Return a backup of this moment; what it holds stays until `end`.

        Raises:
            UnavailableError: a bucket cannot be read now, or the disk refused.
            DiskFullError: there is no room for the rows that are in no data file yet.
        """
        backup_id = uuid.uuid4().hex
        tables = self._open_tables()
        for table in tables:
            self._seal_large_tails(table)
        births = {table.info.table_id: self._catalog.partitions.births(table.info.table_id) for table in tables}
        moments = take_moment(tables)
        created_ms = self._clock.wall_ms()
        held = [bucket for moment in moments for bucket in moment.ids()]
        self._hold(backup_id, moments)
        staged = f"{STAGED}/{backup_id}"
        try:
            entries, moments = self._still_there(moments)
            manifests, files = self._describe(moments, staged)
            entries |= Identity(self._metadata).backed_up(self._cuts(moments), births)
            description = encode_description(entries, manifests)
        except BaseException as error:
            self.let_go(backup_id, staged, held)
            if isinstance(error, OSError):
                raise _refused(error) from error
            raise
        files.append(Stored(BackupFile(DESCRIPTION, len(description)), data=description))
        total = sum(stored.file.bytes for stored in files)
        database = Identity(self._metadata).database
        plan = BackupPlan(backup_id, database, created_ms, len(moments), len(files), total)
        views = [bucket.view for moment in moments for bucket in moment.buckets.values()]
        return BackupSession(
            plan, target, principal, self._disk, staged, files, views, held, used_ms=self._clock.monotonic_ms()
        )

    def let_go(self, backup_id: str, staged: str, held: Sequence[BucketId]) -> None:
        """Let go of what a backup holds, and remove what it wrote; idempotent."""
        self._lease_pins.forget(backup_holder(backup_id), held)
        with suppress(OSError):
            self._disk.remove_tree(staged)

    def remove_rubbish(self) -> None:
        """Remove what backups of before a crash wrote."""
        with suppress(OSError):
            self._disk.remove_tree(STAGED)

    def _open_tables(self) -> list[OpenTable]:
        tables = []
        for info in self._catalog.tables():
            with suppress(NotFoundError):  # dropped meanwhile
                tables.append(self._tables.get(info.table_id))
        return tables

    def _seal_large_tails(self, table: OpenTable) -> None:
        for tablet in list(table.committer.tablets.values()):
            if tablet.tail_bytes >= SEALED_BYTES_MIN:
                try:
                    self._seal(table, tablet)
                except (OSError, BucketFailedError) as error:
                    # The rows are copied as they are: once more than need be, and no less.
                    _log.warning("rows were not sealed for a backup bucket=%s reason=%s", tablet.bucket, error)

    def _hold(self, backup_id: str, moments: Sequence[TableMoment]) -> None:
        now_ms = self._clock.wall_ms()
        for moment in moments:
            holds = {
                bucket.view.bucket: Hold(0, bucket.view.visible, bucket.view.visible, now_ms)
                for bucket in moment.buckets.values()
            }
            self._lease_pins.note(backup_holder(backup_id), holds)

    def _still_there(self, moments: Sequence[TableMoment]) -> tuple[dict[str, bytes], list[TableMoment]]:
        """Return the catalog, and of the tables what is in it: what was dropped before it was held is left out."""
        entries = {entry.key: entry.value for entry in self._metadata.list(ROOT)}
        dropped = set(self._catalog.dropped())
        gone = set(self._catalog.partitions.dropped())
        kept: list[TableMoment] = []
        for moment in moments:
            table_id = moment.table.info.table_id
            if table_id in dropped or not self._catalog.knows(table_id):
                continue
            for bucket in [name for name, found in moment.buckets.items() if self._is_gone(found.view.bucket, gone)]:
                del moment.buckets[bucket]
            kept.append(moment)
            if moment.away:
                raise NotLeaderError(
                    "this node does not lead a bucket now; try again",
                    bucket=moment.away[0],
                    table=moment.table.info.path,
                )
        return entries, kept

    def _is_gone(self, bucket: BucketId, gone: set[tuple[int, int]]) -> bool:
        key = (bucket.table_id, bucket.partition_id)
        return key in gone or not self._catalog.knows(*key)

    def _describe(self, moments: Sequence[TableMoment], staged: str) -> tuple[dict[str, bytes], list[Stored]]:
        manifests: dict[str, bytes] = {}
        files: list[Stored] = []
        for moment in moments:
            for bucket in moment.buckets.values():
                found = describe_bucket(bucket, moment.schema, self._disk, staged)
                if found is None:
                    continue
                manifests[found.manifest_path] = found.manifest
                for data in found.data:
                    file = BackupFile(data.path, data.info.size_bytes, data.fingerprint())
                    files.append(Stored(file, data.path))
                if found.tail_path is not None and found.tail_stored is not None:
                    size = self._disk.size(found.tail_stored)
                    files.append(Stored(BackupFile(found.tail_path, size), found.tail_stored))
        return manifests, files

    def _cuts(self, moments: Sequence[TableMoment]) -> dict[int, Mapping[TableBucket, int]]:
        """Return where each table is at the moment, also of partitions that are gone: the copy's origin up to there."""
        return {
            moment.table.info.table_id: self._ends_of_dropped(moment.table.info.table_id)
            | {name: bucket.view.visible for name, bucket in moment.buckets.items()}
            for moment in moments
        }

    def _ends_of_dropped(self, table_id: int) -> dict[TableBucket, int]:
        """Return where the buckets ended that a position may still name although their partition is gone."""
        return {
            TableBucket("", gone.name, number): end
            for gone in self._catalog.partitions.gone(table_id)
            for number, end in enumerate(gone.ends)
        }


def _refused(error: OSError) -> UnavailableError:
    if error.errno in {errno.ENOSPC, errno.EDQUOT}:
        return DiskFullError(
            "the node's disk has no room for the rows that are in no data file yet; free some there", cause=str(error)
        )
    return UnavailableError("the node's disk refused the backup; try again", cause=str(error))
