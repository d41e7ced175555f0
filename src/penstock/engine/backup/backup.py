"""Back up a node to a directory, while it works: each table at one cut, and the catalog.

A backup holds, bucket by bucket, what was live at the cut (of a log table what it kept), the catalog,
and last an inventory with sizes and checksums. The key index is not in it; it is made anew. Leases,
owners and the history of changes stay behind.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import google_crc32c

from penstock.codec.stored.backup_inventory import BackupInventory, CopiedFile, encode_inventory
from penstock.engine.catalog.catalog import Catalog
from penstock.engine.catalog.identity import Identity
from penstock.engine.catalog.records import ROOT
from penstock.engine.leases.claims import Claimed, LeaseClaims
from penstock.engine.metadata.store import MetadataStore
from penstock.engine.scan.cuts import Cuts
from penstock.engine.table.open_tables import OpenTables
from penstock.errors import InvalidError, NotFoundError, NotLeaderError, UnavailableError
from penstock.model.node.lease import AcquireLease, CutOffsets
from penstock.model.node.principal import LOCAL
from penstock.model.place.bucket import BucketId, TableBucket
from penstock.runtime.clock import Clock
from penstock.runtime.disk import Disk, write_atomically
from penstock.runtime.local_disk import DIRECTORY_MODE, LocalDisk
from penstock.tablet.steps.bucket_copy import copy_bucket

INVENTORY: Final = "inventory"
CATALOG: Final = "catalog.json"
CHUNK_BYTES: Final = 4 << 20


class Backup:
    """Backs up the tables of a node."""

    def __init__(
        self, tables: OpenTables, catalog: Catalog, metadata: MetadataStore, claims: LeaseClaims, *, clock: Clock
    ) -> None:
        self._tables = tables
        self._catalog = catalog
        self._metadata = metadata
        self._claims = claims
        self._clock = clock

    def write(self, directory: Path, cuts: Cuts) -> BackupInventory:
        """Write a backup into a directory that is empty or not there; return what it holds.

        Raises:
            InvalidError: the directory is not empty.
            UnavailableError: a disk refused, or a bucket cannot be read now; what was written is no backup.
            CorruptionError: stored bytes are not what was written.
        """
        target = empty_disk(directory)
        created_ms = self._clock.wall_ms()
        tables = self._catalog.tables()
        births = {table.table_id: self._catalog.partitions.births(table.table_id) for table in tables}
        claimed, taken = self._claim([table.table_id for table in tables], cuts)
        try:
            paths = [path for bucket in sorted(claimed.holds) for path in self._copy(bucket, claimed, target)]
            write_atomically(target, CATALOG, self._described(taken, births))
        except OSError as error:
            raise UnavailableError("disk refused the backup; start it again elsewhere", error=str(error)) from error
        finally:
            self._claims.release(claimed)
        files = tuple(checked(target, path) for path in sorted([*paths, CATALOG]))
        inventory = BackupInventory(created_ms, len(tables), files)
        write_atomically(target, INVENTORY, encode_inventory(inventory))
        return inventory

    def _claim(self, table_ids: list[int], cuts: Cuts) -> tuple[Claimed, list[CutOffsets]]:
        """Pin the present cut of every table, each at one moment, for as long as it takes."""
        taken = []
        for table_id in table_ids:
            try:
                cut = cuts.open(self._tables.get(table_id), principal=LOCAL)
            except NotFoundError:
                continue  # dropped meanwhile
            taken.append((cut.cut_id, CutOffsets(table_id, cut.offsets)))
        try:
            claimed = self._claims.claim(AcquireLease("backup", 1, cuts=tuple(offsets for _, offsets in taken)))
        finally:
            for cut_id, _ in taken:
                cuts.release(cut_id)
        if claimed.unavailable:
            self._claims.release(claimed)
            bucket, reason = next(iter(claimed.unavailable.items()))
            raise UnavailableError("a bucket cannot be read now; try again", bucket=bucket, reason=reason)
        return claimed, [offsets for _, offsets in taken]

    def _copy(self, bucket: BucketId, claimed: Claimed, target: Disk) -> list[str]:
        table = self._tables.holding(bucket)
        tablet = table.tablet(bucket)
        if tablet is None:
            raise NotLeaderError("this node does not lead the bucket now; try again", bucket=bucket)
        offset = claimed.holds[bucket].offset
        return copy_bucket(tablet.view, table.schema, offset, target, timestamp_ms=tablet.state.timestamp_ms)

    def _described(self, taken: list[CutOffsets], births: Mapping[int, int]) -> bytes:
        # After the cut: a table or partition that was born since is in it without rows, as it was at the cut.
        entries = {entry.key: entry.value for entry in self._metadata.list(ROOT)}
        # The copy becomes a database of its own, which knows up to where it is this one.
        offsets = {cut.table_id: self._ends_of_dropped(cut.table_id) | dict(cut.offsets) for cut in taken}
        entries |= Identity(self._metadata).backed_up(offsets, births)
        encoded = {key: base64.b64encode(value).decode() for key, value in entries.items()}
        return json.dumps(encoded, indent=0, sort_keys=True).encode()

    def _ends_of_dropped(self, table_id: int) -> dict[TableBucket, int]:
        """Return where the buckets ended that a position may still name although their partition is gone."""
        return {
            TableBucket("", gone.name, number): end
            for gone in self._catalog.partitions.gone(table_id)
            for number, end in enumerate(gone.ends)
        }


def empty_disk(directory: Path) -> LocalDisk:
    """Return the disk of a directory that is made, or was empty.

    Raises:
        InvalidError: there is something in it.
        UnavailableError: it cannot be made.
    """
    try:
        directory.mkdir(DIRECTORY_MODE, parents=True, exist_ok=True)
        if any(directory.iterdir()):
            raise InvalidError("the directory is not empty; name another", directory=str(directory))
    except OSError as error:
        raise UnavailableError("the directory cannot be made", directory=str(directory), error=str(error)) from error
    return LocalDisk(directory)


def checked(disk: Disk, path: str) -> CopiedFile:
    """Return a file with its size and the checksum of its bytes, read from the disk."""
    file = disk.open_read(path)
    try:
        crc = 0
        for position in range(0, file.size, CHUNK_BYTES):
            crc = google_crc32c.extend(crc, bytes(file.pread(position, CHUNK_BYTES)))
        return CopiedFile(path, file.size, crc)
    finally:
        file.close()
