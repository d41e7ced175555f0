"""A backup under way: its files, each readable piece by piece, and what keeps them there.

A data file stays while a view holds it, and the session holds the views; the tables and partitions themselves are
held as by a lease, so that a drop waits with their files.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from penstock.errors import InvalidError, NotFoundError, UnavailableError
from penstock.model.node.backup import BackupFile, BackupPlan
from penstock.model.place.bucket import BucketId
from penstock.runtime.disk import Disk
from penstock.tablet.view.pins import PinHolder, PinKind
from penstock.tablet.view.view import TabletView

PIECE_BYTES_MAX: Final = 8 << 20
FILES_AT_ONCE: Final = 5_000


@dataclass(frozen=True, slots=True)
class Stored:
    """The place of a file of a backup: on the disk of the node, or in memory."""

    file: BackupFile
    path: str = ""
    data: bytes = b""


@dataclass(slots=True)
class BackupSession:
    """One backup. Immutable but for `used_ms`."""

    plan: BackupPlan
    target: str
    principal: str
    disk: Disk
    staged: str
    files: list[Stored]
    views: list[TabletView]
    held: list[BucketId]
    used_ms: int
    by_path: dict[str, Stored] = field(init=False)

    def __post_init__(self) -> None:
        self.by_path = {stored.file.path: stored for stored in self.files}

    @property
    def holder(self) -> PinHolder:
        """Return what holds the tables and partitions."""
        return backup_holder(self.plan.backup_id)

    def listed(self, start: int) -> list[BackupFile]:
        """Return files from a number on, some at a time."""
        return [stored.file for stored in self.files[max(start, 0) :][:FILES_AT_ONCE]]

    def read(self, path: str, position: int, length: int) -> bytes:
        """Return a piece of a file.

        Raises:
            InvalidError: a piece begins inside its file, or at its end, and is not too long.
            NotFoundError: the backup has no such file.
            UnavailableError: the disk refused.
        """
        stored = self.by_path.get(path)
        if stored is None:
            raise NotFoundError("the backup has no such file", file=path)
        if not 0 <= position <= stored.file.bytes or not 0 <= length <= PIECE_BYTES_MAX:
            raise InvalidError("no such piece of the file", file=path, position=position, length=length)
        if not stored.path:
            return stored.data[position : position + length]
        try:
            opened = self.disk.open_read(stored.path)
            try:
                return bytes(opened.pread(position, min(length, stored.file.bytes - position)))
            finally:
                opened.close()
        except OSError as error:
            raise UnavailableError("the disk refused a file of the backup", file=path, cause=str(error)) from error


def backup_holder(backup_id: str) -> PinHolder:
    """Return what holds the tables and partitions of a backup."""
    return PinHolder(PinKind.ACQUIRING, f"backup-{backup_id}")


def encode_description(catalog: Mapping[str, bytes], manifests: Mapping[str, bytes]) -> bytes:
    """Return the file that describes a backup: the entries of the catalog, and the manifests by their paths."""
    document = {
        "catalog": {key: b64encode(value).decode() for key, value in catalog.items()},
        "manifests": {path: b64encode(data).decode() for path, data in manifests.items()},
    }
    return json.dumps(document, indent=0, sort_keys=True).encode()
