"""Restore a backup into a new data directory; every byte is checked on the way.

The directory is put together beside its place, under a temporary name, and takes its name when it is whole and synced.
Where that cannot be, for the place is a mount point, it is put together inside, and the catalog comes last: a directory
with tables and without a catalog is not opened.
"""

from __future__ import annotations

import base64
import binascii
import errno
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import google_crc32c

from penstock.codec.stored.backup_inventory import (
    DESCRIPTION,
    INVENTORY,
    BackupInventory,
    CopiedFile,
    decode_inventory,
)
from penstock.engine.home.data_directory import METADATA
from penstock.engine.metadata.sqlite_store import SqliteMetadataStore
from penstock.engine.metadata.store import WRITES_MAX, Put
from penstock.errors import (
    CorruptionError,
    DiskFullError,
    InvalidError,
    NotFoundError,
    PermissionDeniedError,
    UnavailableError,
)
from penstock.model.node.backup import RestoreResult
from penstock.runtime.disk import Disk, write_atomically
from penstock.runtime.local_disk import DIRECTORY_MODE, LocalDisk

RESTORING: Final = ".restoring"
"""What the temporary name ends with, and the name itself inside a mount point."""
MARKER: Final = "RESTORING"
"""The file that tells a directory of an interrupted restore from one that belongs to a user."""
CATALOG: Final = "catalog.json"
"""The description of a backup of version 1: the catalog alone."""
CHUNK_BYTES: Final = 4 << 20


def restore(
    source: str | os.PathLike[str], target: str | os.PathLike[str] | None = None, *, verify_only: bool = False
) -> RestoreResult:
    """Make a data directory, which is empty or not there, of a backup; with `verify_only` only read all of the backup.

    The copy is a database of its own: it has a new id, and knows which one it was made of.

    Raises:
        NotFoundError: there is no whole backup at the source.
        CorruptionError: a file of it is missing or damaged; nothing was restored.
        InvalidError: the target is not empty, or a path is no directory.
        DiskFullError: the target's disk is full; free some and restore again.
        UnavailableError: a disk refused; restore again.
        UnsupportedError: a newer version of Penstock made the backup.
    """
    backup = Path(os.fspath(source))
    if verify_only:
        found = check_backup(backup)
        return _result(found, None)
    if target is None:
        raise InvalidError("say where to restore to: a directory that is empty or not there")
    directory = Path(os.fspath(target)).absolute()
    inventory = read_inventory(backup)
    if directory.resolve().is_relative_to(backup.resolve()):
        raise InvalidError("the target is inside the backup; name a directory outside", target=str(directory))
    with _refusals(directory):
        inside = directory.is_dir() and directory.is_mount()
        building = directory / RESTORING if inside else directory.with_name(directory.name + RESTORING)
        _check_target(directory, building)
        _build(backup, inventory, building)
        _put_in_place(building, directory, inside=inside)
    return _result(inventory, directory)


def check_backup(backup: Path) -> BackupInventory:
    """Read every file of a backup and compare it with the inventory; return that.

    Raises:
        NotFoundError: there is no whole backup.
        CorruptionError: a file of it is missing or damaged.
        UnavailableError: a file cannot be read.
    """
    inventory = read_inventory(backup)
    disk = LocalDisk(backup)
    with _refusals(backup):
        for file in inventory.files:
            for _ in _checked_pieces(disk, file):
                pass
        _read_description(disk, inventory)
    return inventory


def read_inventory(backup: Path) -> BackupInventory:
    """Return the inventory of a backup.

    Raises:
        NotFoundError: there is no whole backup.
        CorruptionError: the inventory is damaged.
        UnsupportedError: a newer version of Penstock made the backup.
    """
    if not (backup / INVENTORY).is_file():
        if (backup / METADATA).is_file():
            raise NotFoundError(
                "that is a data directory, and no backup of one; make a backup of it first, or open it as it is",
                directory=str(backup),
            )
        raise NotFoundError(
            "no whole backup there: it has no inventory, which a backup that was interrupted has not either",
            directory=str(backup),
        )
    with _refusals(backup):
        return decode_inventory(LocalDisk(backup).read(INVENTORY), name=str(backup / INVENTORY))


def _check_target(directory: Path, building: Path) -> None:
    for place, allowed in ((directory, {RESTORING}), (building, None)):
        if place.exists() and not place.is_dir():
            raise InvalidError("the target is a file; name a directory that is empty or not there", target=str(place))
        if not place.is_dir():
            continue
        names = {entry.name for entry in place.iterdir()}
        interrupted = (building / MARKER).is_file()
        if allowed is None and names and not interrupted:
            raise InvalidError("a directory of other things is in the way; move it", directory=str(place))
        if allowed is not None and names and not (building.parent == directory and interrupted):
            raise InvalidError(
                "the target is not empty; name a directory that is empty or not there", target=str(place)
            )


def _build(backup: Path, inventory: BackupInventory, building: Path) -> None:
    """Put a data directory together; what is left of one that was interrupted goes first."""
    shutil.rmtree(building, ignore_errors=True)
    building.mkdir(DIRECTORY_MODE, parents=True)
    try:
        source, target = LocalDisk(backup), LocalDisk(building)
        write_atomically(target, MARKER, b"")
        catalog, manifests = _read_description(source, inventory)
        for file in inventory.files:
            if file.path not in {CATALOG, DESCRIPTION}:
                _copy(source, target, file)
        for path, data in manifests.items():
            target.make_directory(path.rpartition("/")[0])
            write_atomically(target, path, data)
        _make_catalog(catalog, building)
    except BaseException:
        shutil.rmtree(building, ignore_errors=True)
        raise


def _put_in_place(building: Path, directory: Path, *, inside: bool) -> None:
    parent = LocalDisk(directory if inside else directory.parent)
    if not inside:
        (building / MARKER).unlink()
        LocalDisk(building).sync_directory("")
        # In the place of an empty directory, or of none, in one step.
        building.rename(directory)
        parent.sync_directory("")
        return
    for entry in directory.iterdir():
        if entry != building:  # of a restore that was interrupted in this very loop
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
    names = sorted((entry.name for entry in building.iterdir()), key=lambda name: (name == METADATA, name))
    for name in names:
        if name == METADATA:
            parent.sync_directory("")
        if name != MARKER:
            (building / name).rename(directory / name)
    parent.sync_directory("")
    shutil.rmtree(building)
    parent.sync_directory("")


def _copy(source: Disk, target: Disk, file: CopiedFile) -> None:
    directory = file.path.rpartition("/")[0]
    target.make_directory(directory)
    written = target.create(file.path)
    try:
        for piece in _checked_pieces(source, file):
            written.append(piece)
        written.sync()
    finally:
        written.close()
    target.sync_directory(directory)


def _checked_pieces(disk: Disk, file: CopiedFile) -> Iterator[memoryview]:
    """Yield the bytes of a file; end with an error if they are not those of the inventory."""
    try:
        opened = disk.open_read(file.place)
    except FileNotFoundError:
        raise CorruptionError("a file of the backup is missing; restore from another backup", file=file.place) from None
    try:
        crc = 0
        if opened.size == file.bytes:
            for position in range(0, file.bytes, CHUNK_BYTES):
                piece = opened.pread(position, CHUNK_BYTES)
                crc = google_crc32c.extend(crc, bytes(piece))
                yield piece
        if (opened.size, crc) != (file.bytes, file.crc32c):
            raise CorruptionError(
                "a file of the backup is damaged; restore from another backup, or back up again into this one: what is"
                " damaged is copied again",
                file=file.place,
                bytes=opened.size,
            )
    finally:
        opened.close()


def _read_description(disk: Disk, inventory: BackupInventory) -> tuple[list[Put], Mapping[str, bytes]]:
    """Return the entries of the catalog and the manifests."""
    named = {file.path: file for file in inventory.files}
    file = named.get(DESCRIPTION) or named.get(CATALOG)
    if file is None:
        raise CorruptionError("the backup does not name its catalog; restore from another backup")
    data = b"".join(bytes(piece) for piece in _checked_pieces(disk, file))
    try:
        document: dict[str, Any] = json.loads(data)
        entries, manifests = (
            (document["catalog"], document["manifests"]) if file.path == DESCRIPTION else (document, {})
        )
        puts = [Put(key, base64.b64decode(value, validate=True)) for key, value in entries.items()]
        return puts, {path: base64.b64decode(value, validate=True) for path, value in manifests.items()}
    except (ValueError, AttributeError, KeyError, TypeError, binascii.Error) as error:
        raise CorruptionError("the backup's catalog cannot be read", file=file.place) from error


def _make_catalog(puts: list[Put], directory: Path) -> None:
    store = SqliteMetadataStore(directory / METADATA)
    try:
        for start in range(0, len(puts), WRITES_MAX):
            store.commit(puts[start : start + WRITES_MAX])
    finally:
        store.close()
    LocalDisk(directory).sync_directory("")


def _result(inventory: BackupInventory, directory: Path | None) -> RestoreResult:
    return RestoreResult(
        directory=None if directory is None else str(directory),
        created_at=datetime.fromtimestamp(inventory.created_ms / 1000, UTC),
        tables=inventory.tables,
        files=len(inventory.files),
        bytes=inventory.bytes,
    )


@contextmanager
def _refusals(directory: Path) -> Iterator[None]:
    """Turn what a disk refuses into errors that say what to do."""
    try:
        yield
    except PermissionError as error:
        raise PermissionDeniedError(
            "a file or directory may not be read or written; check its rights",
            path=str(error.filename or directory),
        ) from error
    except OSError as error:
        if error.errno in {errno.ENOSPC, errno.EDQUOT}:
            raise DiskFullError(
                "the disk is full; free some space, then restore again: nothing is left of this try",
                directory=str(directory),
            ) from error
        raise UnavailableError(
            "the disk refused; check it, then restore again", directory=str(directory), cause=str(error)
        ) from error
