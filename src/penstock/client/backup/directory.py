"""The directory of a backup: one whole backup, and beside it the files of one that is under way.

What is whole is named by the inventory. A file is written under a temporary name, synced, renamed, and noted in a
journal; so a backup that was interrupted goes on with the files that it has. When the new inventory stands, files that
it does not name go. All access is through a `Disk`, so that a place that is no local directory can be another one.
"""

from __future__ import annotations

import errno
import json
import os
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import google_crc32c

from penstock.codec.stored.backup_inventory import (
    GENERATIONS,
    INVENTORY,
    LOCK,
    PROGRESS,
    BackupInventory,
    CopiedFile,
    decode_inventory,
    encode_inventory,
    file_row,
    generation_path,
    read_file_row,
)
from penstock.errors import (
    DirectoryInUseError,
    DiskFullError,
    InvalidError,
    PermissionDeniedError,
    UnavailableError,
)
from penstock.model.node.backup import BackupFile
from penstock.runtime.directory_lock import DirectoryLock
from penstock.runtime.disk import AppendFile, Disk, write_atomically
from penstock.runtime.local_disk import DIRECTORY_MODE, LocalDisk

PART: Final = ".part"
TABLES: Final = "tables"
CHUNK_BYTES: Final = 4 << 20
_OURS: Final = frozenset({INVENTORY, PROGRESS, LOCK, TABLES, GENERATIONS})


class BackupDirectory:
    """A directory that takes backups of one database, held by one process. Not thread-safe; a context manager."""

    def __init__(self, path: Path) -> None:
        """Take the directory, made if it is not there.

        Raises:
            InvalidError: it holds something else, or is in a data directory.
            DirectoryInUseError: another process is backing up into it.
            PermissionDeniedError: it may not be written.
            UnavailableError: the disk refuses it.
        """
        self.path = path.absolute()
        _check_outside(self.path)
        self._lock = DirectoryLock(self.path)
        with refusals(self.path):
            self._take()
        self._disk: Disk = LocalDisk(self.path)
        self._journal: AppendFile | None = None
        self.target_id = ""
        """By this the node knows a backup that goes on from one that another directory takes."""
        try:
            with refusals(self.path):
                self.former = self._read_inventory()
                self._before = {} if self.former is None else {file.path: file for file in self.former.files}
                self._noted_database, self._noted = self._read_journal()
                self._check_ours()
        except BaseException:
            self._lock.release()
            raise

    def __enter__(self) -> BackupDirectory:
        return self

    def __exit__(self, *_: object) -> None:
        if self._journal is not None:
            self._journal.close()
        self._lock.release()

    @property
    def next_generation(self) -> int:
        """Return the number of the backup that comes after the one that is whole."""
        return 1 if self.former is None else self.former.generation + 1

    def begin(self, database: str) -> None:
        """Begin, or go on with, a backup of a database.

        Raises:
            InvalidError: the directory has backups of another one.
        """
        former = None if self.former is None else self.former.database
        if former == "":
            raise InvalidError(
                "the directory holds a backup in an earlier format, which cannot be added to; name another directory",
                directory=str(self.path),
            )
        for kind, found in (("a backup", former), ("an interrupted backup", self._noted_database)):
            if found not in {None, database}:
                raise InvalidError(
                    f"the directory holds {kind} of another database; name another directory",
                    directory=str(self.path),
                    database=database,
                    found=found,
                )
        if self._noted_database is None:
            self.target_id = uuid.uuid4().hex
            head = {"database": database, "target": self.target_id}
            write_atomically(self._disk, PROGRESS, json.dumps(head).encode() + b"\n")
        # What a kill cut off in the middle of a line is cut.
        self._journal = self._disk.open_append(PROGRESS, self._journal_bytes())

    def known(self, file: BackupFile) -> CopiedFile | None:
        """Return the file if the directory has it whole: every byte of it is read and compared."""
        if not file.fingerprint:
            return None
        for found in (self._noted.get(file.path), self._before.get(file.path)):
            if found is None or (found.bytes, found.fingerprint) != (file.bytes, file.fingerprint):
                continue
            if self._crc(found.place, found.bytes) == found.crc32c:
                return found
        return None

    def place(self, file: BackupFile) -> str:
        """Return where a file is to be stored: never over another one that the whole backup names."""
        own = generation_path(self.next_generation, file.path)
        if not file.fingerprint:
            return own
        # Names are never given twice in a database; should one be, the backup before keeps its file.
        before = self._before.get(file.path)
        return file.path if before is None or before.fingerprint == file.fingerprint else own

    def write(self, file: BackupFile, pieces: Iterable[bytes]) -> CopiedFile:
        """Store a file, durably, and note it.

        Raises:
            OSError: as the disk gave it; the file is not there.
        """
        path = self.place(file)
        self._disk.make_directory(path.rpartition("/")[0])
        with suppress(FileNotFoundError):
            self._disk.remove(path + PART)
        opened = self._disk.create(path + PART)
        crc = 0
        try:
            for piece in pieces:
                crc = google_crc32c.extend(crc, piece)
                opened.append(piece)
            opened.sync()
        finally:
            opened.close()
        self._disk.replace(path + PART, path)
        self._disk.sync_directory(path.rpartition("/")[0])
        copied = CopiedFile(file.path, file.bytes, crc, path, file.fingerprint)
        assert self._journal is not None, "begin comes first"
        self._journal.append(json.dumps(file_row(copied)).encode() + b"\n")
        return copied

    def publish(self, inventory: BackupInventory) -> None:
        """Make this the backup that is whole; then remove what it does not name.

        Raises:
            OSError: as the disk gave it; the backup before still counts, or this one does already.
        """
        write_atomically(self._disk, INVENTORY, encode_inventory(inventory))
        self.former = inventory
        if self._journal is not None:
            self._journal.close()
            self._journal = None
        self._disk.remove(PROGRESS)
        named = {self.path / file.place for file in inventory.files}
        for root in (self.path / TABLES, self.path / GENERATIONS):
            _remove_others(root, named)

    def _take(self) -> None:
        if self.path.exists() and not self.path.is_dir():
            raise InvalidError("the target is a file; name a directory", target=str(self.path))
        if self.path.is_dir():
            strangers = sorted({entry.name for entry in self.path.iterdir()} - _OURS)
            if strangers:
                raise InvalidError(
                    "the directory is not empty, and holds more than backups; name another",
                    directory=str(self.path),
                    found=strangers[0],
                )
        self.path.mkdir(DIRECTORY_MODE, parents=True, exist_ok=True)
        try:
            self._lock.acquire()
        except DirectoryInUseError as error:
            raise DirectoryInUseError(
                "another backup into this directory is under way; wait until it has ended", **error.facts
            ) from error

    def _check_ours(self) -> None:
        names = set(self._disk.list("")) - {LOCK}
        if names and self.former is None and self._noted_database is None:
            raise InvalidError(
                "the directory is not empty, and no backup; name another",
                directory=str(self.path),
                found=min(names),
            )

    def _read_inventory(self) -> BackupInventory | None:
        if not self._disk.exists(INVENTORY):
            return None
        return decode_inventory(self._disk.read(INVENTORY), name=str(self.path / INVENTORY))

    def _read_journal(self) -> tuple[str | None, dict[str, CopiedFile]]:
        """Return the database and the files of a backup that was interrupted; a line that was cut does not count."""
        if not self._disk.exists(PROGRESS):
            return None, {}
        head, *lines = self._disk.read(PROGRESS)[: self._journal_bytes()].splitlines() or [b""]
        try:
            begun = json.loads(head)
            database, self.target_id = str(begun["database"]), str(begun["target"])
            files = [read_file_row(json.loads(line)) for line in lines]
        except (ValueError, KeyError, TypeError):
            # Only what saves work is lost with it.
            self._disk.remove(PROGRESS)
            return None, {}
        return database, {file.path: file for file in files}

    def _journal_bytes(self) -> int:
        return self._disk.read(PROGRESS).rfind(b"\n") + 1

    def _crc(self, path: str, size: int) -> int | None:
        """Return the checksum of a stored file, None if it is not there in that size."""
        try:
            opened = self._disk.open_read(path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        try:
            if opened.size != size:
                return None
            crc = 0
            for position in range(0, size, CHUNK_BYTES):
                crc = google_crc32c.extend(crc, bytes(opened.pread(position, CHUNK_BYTES)))
            return crc
        finally:
            opened.close()


def _check_outside(path: Path) -> None:
    """Refuse a directory that is a data directory, or inside one.

    Raises:
        InvalidError: it is.
    """
    resolved = path.resolve()
    for place in (resolved, *resolved.parents):
        if (place / "metadata.db").is_file() and (place / TABLES).is_dir():
            raise InvalidError(
                "the target is a data directory, or inside one; name a directory outside",
                target=str(path),
                data=str(place),
            )


def _remove_others(root: Path, named: set[Path]) -> None:
    """Remove the files below a directory that are not named, and directories that are empty then."""
    for directory, _, files in os.walk(root, topdown=False):
        here = Path(directory)
        for name in files:
            if here / name not in named:
                (here / name).unlink(missing_ok=True)
        with suppress(OSError):
            here.rmdir()


@contextmanager
def refusals(path: Path) -> Iterator[None]:
    """Turn what the target's disk refuses into errors that say what to do."""
    try:
        yield
    except TimeoutError:
        raise  # of the node, not of the disk
    except PermissionError as error:
        raise PermissionDeniedError(
            "the backup's directory may not be written; check its rights, or name another",
            path=str(error.filename or path),
        ) from error
    except OSError as error:
        if error.errno in {errno.ENOSPC, errno.EDQUOT}:
            raise DiskFullError(
                "the backup's disk is full; free some space there and back up again: it goes on where it was, and the"
                " backup before is whole",
                directory=str(path),
            ) from error
        raise UnavailableError(
            "the backup's disk refused; check it and back up again: it goes on where it was",
            directory=str(path),
            cause=str(error),
        ) from error
