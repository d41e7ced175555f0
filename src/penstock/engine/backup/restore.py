"""Restore a backup into a new data directory; every byte is checked on the way."""

from __future__ import annotations

import base64
import binascii
import json
import shutil
from pathlib import Path
from typing import Final

from penstock.codec.stored.backup_inventory import BackupInventory, decode_inventory
from penstock.engine.backup.backup import CATALOG, CHUNK_BYTES, INVENTORY, checked, empty_disk
from penstock.engine.metadata.sqlite_store import SqliteMetadataStore
from penstock.engine.metadata.store import WRITES_MAX, Put
from penstock.errors import CorruptionError, NotFoundError, UnavailableError
from penstock.runtime.disk import Disk
from penstock.runtime.local_disk import LocalDisk

RESTORING: Final = ".restoring"


def restore_backup(backup: Path, directory: Path) -> BackupInventory:
    """Make a data directory, which is empty or not there, of a backup; return what it holds.

    It is put together beside the directory and takes its name when it is whole.

    Raises:
        NotFoundError: there is no backup; one that was interrupted has no inventory.
        CorruptionError: a file of it is missing, damaged, or not one of it.
        InvalidError: the directory is not empty.
        UnavailableError: a disk refused.
    """
    inventory = check_backup(backup)
    empty_disk(directory)
    building = directory.with_name(directory.name + RESTORING)
    try:
        shutil.rmtree(building, ignore_errors=True)
        target = empty_disk(building)
        for file in inventory.files:
            if file.path != CATALOG:
                _copy(LocalDisk(backup), target, file.path)
                if checked(target, file.path) != file:
                    raise CorruptionError("a restored file is not what the backup holds; try again", file=file.path)
        _restore_catalog(backup, building)
        directory.rmdir()
        building.rename(directory)
        LocalDisk(directory.parent).sync_directory("")
    except OSError as error:
        raise UnavailableError("disk refused the restore; free space and try again", error=str(error)) from error
    return inventory


def check_backup(backup: Path) -> BackupInventory:
    """Read every file of a backup and compare it with the inventory; return that.

    Raises:
        NotFoundError: there is no backup; one that was interrupted has no inventory.
        CorruptionError: a file of it is missing, damaged, or not one of it.
    """
    if not (backup / INVENTORY).is_file():
        raise NotFoundError("no backup there: it has no inventory", directory=str(backup))
    disk = LocalDisk(backup)
    inventory = decode_inventory(disk.read(INVENTORY), name=str(backup / INVENTORY))
    for file in inventory.files:
        if not (backup / file.path).is_file():
            raise CorruptionError("a file of the backup is missing", file=file.path)
        found = checked(disk, file.path)
        if found != file:
            raise CorruptionError("a file of the backup is damaged", file=file.path, bytes=found.bytes)
    known = {backup / file.path for file in inventory.files} | {backup / INVENTORY}
    strangers = sorted(path for path in backup.rglob("*") if path.is_file() and path not in known)
    if strangers:
        raise CorruptionError("a file is there that the backup does not name", file=str(strangers[0]))
    return inventory


def _copy(source: Disk, target: Disk, path: str) -> None:
    target.make_directory(path.rpartition("/")[0])
    read = source.open_read(path)
    written = target.create(path)
    try:
        for position in range(0, read.size, CHUNK_BYTES):
            written.append(bytes(read.pread(position, CHUNK_BYTES)))
        written.sync()
    finally:
        read.close()
        written.close()
    target.sync_directory(path.rpartition("/")[0])


def _restore_catalog(backup: Path, directory: Path) -> None:
    try:
        entries = json.loads((backup / CATALOG).read_bytes())
        puts = [Put(key, base64.b64decode(value, validate=True)) for key, value in entries.items()]
    except (ValueError, AttributeError, TypeError, binascii.Error) as error:
        raise CorruptionError("the backup's catalog cannot be read", file=CATALOG) from error
    store = SqliteMetadataStore(directory / "metadata.db")
    try:
        for start in range(0, len(puts), WRITES_MAX):
            store.commit(puts[start : start + WRITES_MAX])
    finally:
        store.close()
