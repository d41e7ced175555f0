"""The SQLite file of a metadata store: made, brought to today's format, and checked whole when it is opened.

A file that was left by a kill has a log beside it. SQLite would fold that log into the file when it lets go of the two,
also where it could read only half of it. So such files are checked on a copy first; what fails is left as it is.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NoReturn

from penstock.engine.metadata.chain import Chain, entry_digest
from penstock.engine.metadata.mark import MetadataMark
from penstock.engine.metadata.sqlite_errors import RESTORE, mapped_reading
from penstock.engine.metadata.store import Entry
from penstock.errors import CorruptionError, UnsupportedError
from penstock.runtime.local_disk import DIRECTORY_MODE, FILE_MODE

APPLICATION_ID: Final = 0x504E5354
"""`PNST`, in the file's header."""

FORMAT_VERSION: Final = 2
LOG: Final = "-wal"
MARK: Final = "-mark"
COPY: Final = "-copy"
_TABLES: Final = {1: {b"entry", b"counter"}, 2: {b"entry", b"chain"}}
_MAKE: Final = (
    "CREATE TABLE entry (key TEXT PRIMARY KEY, value BLOB NOT NULL, version INTEGER NOT NULL, digest BLOB NOT NULL)"
    " WITHOUT ROWID",
    "CREATE TABLE chain (version INTEGER NOT NULL, total BLOB NOT NULL, previous BLOB NOT NULL, link BLOB NOT NULL)",
    f"PRAGMA application_id = {APPLICATION_ID}",
    f"PRAGMA user_version = {FORMAT_VERSION}",
)
Digests = dict[str, tuple[int, bytes]]
"""Version and digest of every entry, by key."""


def open_metadata(path: Path, *, expected: str) -> tuple[sqlite3.Connection, MetadataMark, Chain, Digests]:
    """Open the file, or make it; return it with its mark, where it stands, and the digests of its entries.

    `expected` says what is there that a file must describe; empty if there may be none yet.

    Raises:
        CorruptionError: it is damaged, not ours, or missing though it is expected; or commits of it are lost.
        UnsupportedError: a newer version of Penstock made it.
        sqlite3.Error, OSError: as SQLite or the disk gave it.
    """
    mark = MetadataMark(path.with_name(path.name + MARK))
    if not path.exists() or path.stat().st_size == 0:
        # SQLite would remove a log that lies there without its file.
        _check_new(mark, path, expected or ("its log" if _log_bytes(path) else ""))
    if _is_left_open(path):
        with _copied(path) as copy, _connected(copy, path) as connection:
            _look(connection, mark, path, expected)
    with mapped_reading(path):
        connection = _connect(path)
    try:
        with mapped_reading(path):
            found = _look(connection, mark, path, expected)
        return connection, mark, *(_make(connection, mark) if found is None else _adopt(connection, mark, *found))
    except BaseException:
        connection.close()
        raise


def read_file(connection: sqlite3.Connection, path: Path) -> tuple[int, list[Entry]]:
    """Return the version of the last commit and all entries of a file that has some, checked whole.

    Raises:
        CorruptionError: it is damaged, or not ours.
        UnsupportedError: a newer version of Penstock made it.
        sqlite3.Error: as SQLite gave it.
    """
    format_version = _check_format(connection, path)
    if format_version == 1:
        rows = connection.execute("SELECT key, value, version FROM entry ORDER BY key").fetchall()
        ((version,),) = connection.execute("SELECT version FROM counter").fetchall()
        return version, [Entry(key.decode("ascii"), value, number) for key, value, number in rows]
    stored = connection.execute("SELECT key, value, version, digest FROM entry ORDER BY key").fetchall()
    checked = [read_entry(row, path) for row in stored]
    chain = _read_chain(connection, path)
    if not chain.sums(digest for _, _, _, digest in checked):
        damaged(path, "entries are missing, or older than its last commit")
    return chain.version, [Entry(key, value, number) for key, value, number, _ in checked]


def read_entry(row: tuple[object, ...], path: Path) -> tuple[str, bytes, int, bytes]:
    """Return a stored row of the file, checked.

    Raises:
        CorruptionError: it is not what was written.
    """
    key, value, version, digest = row
    if not isinstance(key, bytes) or not isinstance(value, bytes) or not isinstance(version, int) or version < 0:
        damaged(path, "an entry is of the wrong kind")
    name = key.decode("ascii", "replace")
    if entry_digest(name, value, version) != digest:
        damaged(path, "an entry fails its checksum", key=ascii(name))
    return name, value, version, digest


def store_chain(connection: sqlite3.Connection, chain: Chain) -> None:
    """Store where the store stands; part of every commit."""
    connection.execute(
        "UPDATE chain SET version = ?, total = ?, previous = ?, link = ?",
        (chain.version, chain.total, chain.previous, chain.link),
    )


def damaged(path: Path, why: str, **facts: object) -> NoReturn:
    """Refuse a file that is not what was written."""
    raise CorruptionError(
        f"the metadata file is damaged: {why}; {RESTORE}",
        path=str(path),
        **facts,
    )


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Make what is done inside one commit; an error takes it back."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def _look(
    connection: sqlite3.Connection, mark: MetadataMark, path: Path, expected: str
) -> tuple[Chain | None, Digests] | None:
    """Return where the file stands and what is in it; no chain for one of format 1, nothing for one that is new."""
    (application_id,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
    if not application_id and not version and not tables:
        _check_new(mark, path, expected)
        return None
    version = _check_format(connection, path)
    if version == 1:
        return None, _read_first_format(connection, mark, path)
    rows = connection.execute("SELECT key, value, version, digest FROM entry").fetchall()
    digests = {key: (number, digest) for key, _, number, digest in (read_entry(row, path) for row in rows)}
    chain = _read_chain(connection, path)
    if not chain.sums(digest for _, digest in digests.values()):
        damaged(path, "entries are missing, or older than its last commit")
    mark.check(chain)
    return chain, digests


def _check_format(connection: sqlite3.Connection, path: Path) -> int:
    """Return the format of a file that has something in it.

    Raises:
        CorruptionError: it is not ours, or damaged.
        UnsupportedError: a newer version of Penstock made it.
    """
    (application_id,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
    if application_id != APPLICATION_ID:
        raise CorruptionError("this is no metadata file of ours; name another directory", path=str(path))
    if version > FORMAT_VERSION:
        raise UnsupportedError(
            "a newer version of penstock wrote this directory; use that version",
            path=str(path),
            format=version,
            known=FORMAT_VERSION,
        )
    if tables != _TABLES.get(version):
        damaged(path, "it has other tables than its format", format=version)
    ((whole,), *_) = connection.execute("PRAGMA quick_check").fetchall()
    if whole != b"ok":
        damaged(path, "sqlite finds its pages wrong", cause=whole.decode(errors="replace"))
    return int(version)


def _check_new(mark: MetadataMark, path: Path, expected: str) -> None:
    marked = mark.version() if mark.exists else 0
    if not expected and not marked:
        return
    raise CorruptionError(
        "the metadata is missing, and without it the tables have no names; restore metadata.db with what begins so"
        " from a copy, or a backup with `penstock restore`",
        path=str(path),
        found=expected or "its mark",
        commits=marked,
    )


def _read_first_format(connection: sqlite3.Connection, mark: MetadataMark, path: Path) -> Digests:
    ((version,),) = connection.execute("SELECT version FROM counter").fetchall()
    if mark.exists and mark.version() != version:
        damaged(path, "it is older than its mark", commits=version, marked=mark.version())
    digests = {}
    for key, value, number in connection.execute("SELECT key, value, version FROM entry"):
        if not isinstance(key, bytes) or not isinstance(value, bytes) or not isinstance(number, int) or number < 0:
            damaged(path, "an entry is of the wrong kind")
        digests[key.decode("ascii")] = (number, entry_digest(key.decode("ascii"), value, number))
    return digests


def _read_chain(connection: sqlite3.Connection, path: Path) -> Chain:
    rows = connection.execute("SELECT version, total, previous, link FROM chain").fetchall()
    if len(rows) != 1 or [type(part) for part in rows[0]] != [int, bytes, bytes, bytes]:
        damaged(path, "it does not say where it stands")
    *stored, link = rows[0]
    chain = Chain(*stored)
    if chain.version < 0 or {len(chain.total), len(chain.previous), len(link)} != {len(chain.link)}:
        damaged(path, "it does not say where it stands")
    if chain.link != link:
        damaged(path, "where it stands fails its checksum")
    return chain


def _make(connection: sqlite3.Connection, mark: MetadataMark) -> tuple[Chain, Digests]:
    chain = Chain.begin()
    # The mark is first: a file without one has lost it.
    mark.create(chain)
    with transaction(connection):
        for statement in _MAKE:
            connection.execute(statement)
        connection.execute("INSERT INTO chain VALUES (0, x'', x'', x'')")
        store_chain(connection, chain)
    return chain, {}


def _adopt(
    connection: sqlite3.Connection, mark: MetadataMark, chain: Chain | None, digests: Digests
) -> tuple[Chain, Digests]:
    if chain is None:
        chain = _upgrade(connection, mark, digests)
    else:
        # A kill may have come between a commit and its mark, or inside the mark.
        mark.create(chain)
    return chain, digests


def _upgrade(connection: sqlite3.Connection, mark: MetadataMark, digests: Digests) -> Chain:
    """Make a file of format 1 one of today's: all of it in one commit."""
    with transaction(connection):
        (version,) = connection.execute("SELECT version FROM counter").fetchone()
        chain = Chain.begin(version, (digest for _, digest in digests.values()))
        mark.create(chain)
        connection.execute("ALTER TABLE entry RENAME TO entry_before")
        connection.execute("DROP TABLE counter")
        for statement in _MAKE:
            connection.execute(statement)
        connection.create_function("digest_of", 1, lambda key: digests[key][1])
        connection.execute("INSERT INTO entry SELECT key, value, version, digest_of(key) FROM entry_before")
        connection.execute("DROP TABLE entry_before")
        connection.execute("INSERT INTO chain VALUES (0, x'', x'', x'')")
        store_chain(connection, chain)
    return chain


def _connect(path: Path) -> sqlite3.Connection:
    # SQLite would make it readable for others; the log gets the rights of the file.
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE))
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=0)
    try:
        # Damaged text must not become an error of Python's.
        connection.text_factory = bytes
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        with transaction(connection):
            # The lock is taken by the first to write: from here on the file is held.
            pass
    except BaseException:
        connection.close()
        raise
    return connection


@contextmanager
def _connected(copy: Path, path: Path) -> Iterator[sqlite3.Connection]:
    with mapped_reading(path):
        connection = _connect(copy)
        try:
            yield connection
        finally:
            connection.close()


@contextmanager
def _copied(path: Path) -> Iterator[Path]:
    """Copy file and log beside them; a kill meanwhile leaves a copy that the next opening removes."""
    directory = path.with_name(path.name + COPY)
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(DIRECTORY_MODE)
    try:
        copy = directory / path.name
        shutil.copyfile(path, copy)
        shutil.copyfile(_log(path), _log(copy))
        yield copy
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _is_left_open(path: Path) -> bool:
    return path.exists() and _log_bytes(path) > 0


def _log_bytes(path: Path) -> int:
    try:
        return _log(path).stat().st_size
    except FileNotFoundError:
        return 0


def _log(path: Path) -> Path:
    return path.with_name(path.name + LOG)
