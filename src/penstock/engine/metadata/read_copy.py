"""Read the metadata of a directory that another process may have open, without a lock and without writing to it.

SQLite lets nobody else open the file, so file and log are copied and the copy is opened. A commit or a checkpoint may
come in between: the copy is checked like any file, and must not be older than the mark was before; else it is made
anew.
"""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
import tempfile
from pathlib import Path
from typing import Final

from penstock.engine.metadata.mark import MetadataMark
from penstock.engine.metadata.sqlite_errors import mapped, mapped_reading
from penstock.engine.metadata.sqlite_file import LOG, MARK, read_file
from penstock.engine.metadata.store import Entry
from penstock.errors import CorruptionError, NotFoundError, PenstockError

TRIES: Final = 50


def read_entries(path: Path) -> list[Entry]:
    """Return all entries of a metadata file as of one moment after the call.

    Raises:
        NotFoundError: there is no such file.
        CorruptionError: it is damaged; told after several copies agree.
        UnsupportedError: a newer version of Penstock made it.
        UnavailableError: it cannot be read.
    """
    told: PenstockError | None = None
    for _ in range(TRIES):
        if not path.is_file():
            raise NotFoundError("no data directory there: it has no metadata", path=str(path))
        try:
            with mapped(path), tempfile.TemporaryDirectory(prefix="penstock-") as directory:
                return _read(path, Path(directory) / path.name)
        except CorruptionError as error:
            told = error
    assert told is not None
    raise told


def _read(path: Path, copy: Path) -> list[Entry]:
    mark, log = path.with_name(path.name + MARK), path.with_name(path.name + LOG)
    before = MetadataMark(mark).version() if mark.exists() else 0
    shutil.copyfile(path, copy)
    with contextlib.suppress(FileNotFoundError):
        shutil.copyfile(log, copy.with_name(copy.name + LOG))
    with mapped_reading(path):
        connection = sqlite3.connect(copy, isolation_level=None)
        try:
            connection.text_factory = bytes
            version, entries = read_file(connection, path)
        finally:
            connection.close()
    if version < before:
        raise CorruptionError("the metadata is older than its mark", path=str(path), commits=version, marked=before)
    return entries
