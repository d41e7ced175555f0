"""The snapshots of one bucket: what there is, who holds which, and when one may go.

A snapshot is a pin at its offset and a list of files that stay, for as long as its file is there. It
is there while it is among the newest, or while a lease holds it; holding one and removing one are
decided under one lock. Numbers are never used twice: the newest snapshot always stays, and a partition that
comes back under its name begins with numbers of its own.
"""

from __future__ import annotations

import logging
import threading
from typing import Final

from penstock.codec.stored.snapshot_file import SnapshotFile, decode_snapshot, encode_snapshot
from penstock.errors import CorruptionError, SnapshotNotFoundError, UnsupportedError
from penstock.model.place.bucket import LIFE_OFFSETS, BucketId
from penstock.runtime.disk import write_atomically
from penstock.tablet.files.bucket_files import BucketFiles
from penstock.tablet.view.pins import PinHolder, PinKind, Pins

_log = logging.getLogger("penstock")
KIND: Final = "snapshot"
LIFE_SNAPSHOTS: Final = 100_000
"""How many numbers a partition has for itself: two years of one every ten minutes, and names of twelve digits."""


class TabletSnapshots:
    """The snapshots of a bucket that is open. Thread-safe by one lock."""

    def __init__(self, files: BucketFiles, pins: Pins) -> None:
        self._files = files
        self._pins = pins
        self._lock = threading.RLock()
        self._snapshots: dict[int, SnapshotFile] = {}
        self._damaged: dict[int, CorruptionError | UnsupportedError] = {}
        self._holders: dict[int, set[PinHolder]] = {}
        self._next_id = 1

    def load(self, *, log_level: int = logging.ERROR) -> None:
        """Read what is stored; to be called before rubbish is removed.

        One that cannot be read is listed so and not offered: the bucket itself is whole. It is logged at a level:
        beside a writer one that is just being removed is nothing to tell.
        """
        first_offset = self._files.bucket.first_offset(self._pins.base)
        self._next_id = first_offset // LIFE_OFFSETS * LIFE_SNAPSHOTS + 1
        for name in self._files.names(KIND):
            path = self._files.path(name)
            snapshot_id = int(name.rpartition("-")[2])
            self._next_id = snapshot_id + 1
            try:
                snapshot = decode_snapshot(self._files.disk.read(path), name=path)
                self._check_whole(snapshot, path)
            except (CorruptionError, UnsupportedError) as error:
                _log.log(log_level, "snapshot cannot be read and is not offered file=%s reason=%s", path, error)
                self._damaged[snapshot_id] = error
                continue
            self._take_up(snapshot)

    def all(self) -> list[SnapshotFile]:
        """Return the snapshots, oldest first."""
        with self._lock:
            return [self._snapshots[snapshot_id] for snapshot_id in sorted(self._snapshots)]

    def damaged(self) -> dict[int, CorruptionError | UnsupportedError]:
        """Return the snapshots that cannot be read, by number, with the reason."""
        with self._lock:
            return dict(self._damaged)

    def newest(self) -> SnapshotFile | None:
        """Return the newest snapshot; None if that is damaged: one before it is of an older cut."""
        with self._lock:
            newest = max((*self._snapshots, *self._damaged), default=0)
            return self._snapshots.get(newest)

    def next_id(self) -> int:
        """Return the number of the next snapshot; only the one who adds it asks."""
        return self._next_id

    def add(self, snapshot: SnapshotFile) -> None:
        """Store a snapshot, durably.

        Raises:
            OSError: as the disk gave it; there is no such snapshot.
        """
        assert snapshot.snapshot_id == self._next_id, "snapshots are numbered in order"
        with self._lock:
            # Its number is spent even if the disk refuses: half of a file may be there under it.
            self._next_id += 1
            self._files.make_directory()
            self._take_up(snapshot)
            try:
                write_atomically(self._files.disk, self.path(snapshot.snapshot_id), encode_snapshot(snapshot))
            except OSError:
                self._forget(snapshot.snapshot_id)
                raise

    def path(self, snapshot_id: int) -> str:
        """Return the path of a snapshot's file, relative to the data directory."""
        return snapshot_path(self._files.bucket, snapshot_id)

    def hold(self, snapshot_id: int, holder: PinHolder) -> SnapshotFile:
        """Have a snapshot stay until `release`.

        Raises:
            SnapshotNotFoundError: there is no such snapshot (any more).
            CorruptionError: it is damaged.
            UnsupportedError: a newer version wrote it.
        """
        with self._lock:
            snapshot = self._snapshots.get(snapshot_id)
            if snapshot_id in self._damaged:
                raise self._damaged[snapshot_id]
            if snapshot is None:
                raise SnapshotNotFoundError(
                    "no such snapshot, or no longer; look at list_snapshots",
                    snapshot_id=snapshot_id,
                    bucket=self._files.bucket,
                )
            self._holders.setdefault(snapshot_id, set()).add(holder)
            return snapshot

    def release(self, snapshot_id: int, holder: PinHolder) -> None:
        """Hold a snapshot no longer; idempotent. `prune` removes it if nothing else keeps it."""
        with self._lock:
            holders = self._holders.get(snapshot_id, set())
            holders.discard(holder)
            if not holders:
                self._holders.pop(snapshot_id, None)

    def holders(self, snapshot_id: int) -> list[PinHolder]:
        """Return who holds a snapshot."""
        with self._lock:
            return sorted(self._holders.get(snapshot_id, ()))

    def prune(self, retained: int) -> int:
        """Remove the snapshots that are neither held nor among the newest `retained`; return how many.

        Raises:
            OSError: as the disk gave it; the snapshot stays.
        """
        assert retained >= 1, "the newest snapshot stays: its number must not come again"
        with self._lock:
            ids = sorted((*self._snapshots, *self._damaged))
            old = [s for s in ids[:-retained] if s not in self._holders]
            for snapshot_id in old:
                # Durably, before its files go and its pin: it must not come back without them.
                self._remove_file(snapshot_id)
                if self._damaged.pop(snapshot_id, None) is None:
                    self._files.remove(self._forget(snapshot_id))
            return len(old)

    def kept_bytes(self, holder: PinHolder, retained: int) -> int:
        """Return the size of the files that are there only because one holder holds their snapshots."""
        with self._lock:
            retained_ids = set(sorted(self._snapshots)[-retained:])
            mine = {s for s, holders in self._holders.items() if holders == {holder} and s not in retained_ids}
            sizes = {name: size for s in mine for name, size in self._snapshots[s].sizes.items()}
            return sum(sizes[name] for name in self._files.kept.waiting(mine))

    def _remove_file(self, snapshot_id: int) -> None:
        if self._files.disk.exists(self.path(snapshot_id)):
            self._files.remove_durably(f"{KIND}-{snapshot_id:012d}")
        else:
            # An attempt before this one removed it and could not make that durable.
            self._files.disk.sync_directory(self._files.directory)

    def _take_up(self, snapshot: SnapshotFile) -> None:
        self._pins.pin(_holder(snapshot.snapshot_id), snapshot.offset)
        self._files.kept.keep(snapshot.snapshot_id, snapshot.file_names())
        self._snapshots[snapshot.snapshot_id] = snapshot

    def _forget(self, snapshot_id: int) -> list[str]:
        del self._snapshots[snapshot_id]
        self._pins.unpin(_holder(snapshot_id))
        return self._files.kept.let_go(snapshot_id)

    def _check_whole(self, snapshot: SnapshotFile, path: str) -> None:
        """Refuse a snapshot that does not fit its bucket: a removal takes its own file first."""
        if snapshot.bucket != self._files.bucket:
            raise CorruptionError("snapshot belongs to another bucket", file=path, bucket=snapshot.bucket)
        if snapshot.offset < self._pins.base:
            raise CorruptionError("snapshot lies below the base", file=path, offset=snapshot.offset)
        gone = sorted(snapshot.file_names() - set(self._files.disk.list(self._files.directory)))
        if gone:
            raise CorruptionError("a file of the snapshot is missing; restore it", file=path, missing=gone[0])


def snapshot_path(bucket: BucketId, snapshot_id: int) -> str:
    """Return the path of a snapshot's file, relative to the data directory."""
    return f"{bucket.directory()}/{KIND}-{snapshot_id:012d}"


def _holder(snapshot_id: int) -> PinHolder:
    return PinHolder(PinKind.SNAPSHOT, str(snapshot_id))
