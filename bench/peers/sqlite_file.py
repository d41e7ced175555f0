"""SQLite in this process, in a file."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from bench.peers.library import Library
from bench.peers.peer import Bootstrap, Drained
from bench.workload import SCHEMA

_SET = "city = excluded.city, amount = excluded.amount, items = excluded.items, at = excluded.at"
_LOG_COLUMNS = "old_id, old_city, old_amount, old_items, old_at, id, city, amount, items, at"
_LOG = f"""
DROP TABLE IF EXISTS log;
CREATE TABLE log (seq INTEGER PRIMARY KEY, {_LOG_COLUMNS});
CREATE TRIGGER inserted AFTER INSERT ON bench BEGIN
  INSERT INTO log (id, city, amount, items, at) VALUES (new.id, new.city, new.amount, new.items, new.at);
END;
CREATE TRIGGER updated AFTER UPDATE ON bench BEGIN
  INSERT INTO log ({_LOG_COLUMNS}) VALUES (old.id, old.city, old.amount, old.items, old.at,
    new.id, new.city, new.amount, new.items, new.at);
END;
"""


class SQLite(Library):
    """The library."""

    name = "SQLite"

    def settings(self) -> str:
        """Return version and settings."""
        return (
            f"{sqlite3.sqlite_version}; journal_mode=WAL, synchronous=FULL, cache 256 MB, executemany, a transaction "
            "a batch; its changelog is a table filled by triggers, with before-images"
        )

    def session(self) -> SQLiteSession:
        """Open the file."""
        return SQLiteSession(self.directory / "bench.sqlite")


class SQLiteSession:
    """One connection for writes and one for reads, since a reader in another thread needs its own."""

    def __init__(self, path: Path) -> None:
        self._writes, self._reads = _connect(path), _connect(path)
        self._drained = 0

    def create(self, *, changelog: bool = False) -> None:
        """Make the table, with triggers if asked."""
        self._writes.executescript(
            "DROP TABLE IF EXISTS bench;"
            "CREATE TABLE bench (id INTEGER PRIMARY KEY, city TEXT, amount REAL, items INTEGER, at INTEGER);"
            + (_LOG if changelog else "")
        )
        self._drained = 0

    def upsert(self, batch: pa.RecordBatch) -> None:
        """Insert or update row by row in one transaction."""
        statement = f"INSERT INTO bench VALUES (?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET {_SET}"
        columns = [batch.column(name) for name in SCHEMA.names]
        columns[-1] = columns[-1].cast(pa.int64())
        self._write(statement, columns)

    def scan(self, columns: Sequence[str], items: int | None = None) -> pa.Table:
        """Select all rows and make Arrow of them."""
        where = "" if items is None else f" WHERE items = {items}"
        return _arrow(self._reads.execute(f"SELECT {', '.join(columns)} FROM bench{where}").fetchall(), columns)

    def lookup(self, ids: Sequence[int]) -> int:
        """Select by key; many keys by a list of them."""
        marks = ", ".join("?" * len(ids))
        return len(self._reads.execute(f"SELECT * FROM bench WHERE id IN ({marks})", ids).fetchall())

    def drain(self) -> Drained:
        """Select what the triggers wrote."""
        rows = self._reads.execute("SELECT * FROM log WHERE seq > ? ORDER BY seq", (self._drained,)).fetchall()
        self._drained = rows[-1][0] if rows else self._drained
        return Drained(len(rows), sum(row[6] for row in rows))

    def set_amounts(self, batch: pa.RecordBatch) -> None:
        """Update row by row in one transaction."""
        self._write("UPDATE bench SET amount = ? WHERE id = ?", [batch.column("amount"), batch.column("id")])

    def create_totals(self) -> None:
        """Make the table of totals."""
        self._writes.executescript(
            "DROP TABLE IF EXISTS totals;"
            "CREATE TABLE totals (key INTEGER PRIMARY KEY, total INTEGER, top INTEGER, times INTEGER)"
        )

    def fold(self, batch: pa.RecordBatch) -> None:
        """Fold row by row in one transaction."""
        value = batch.column("value")
        self._write(
            "INSERT INTO totals VALUES (?, ?, ?, 1) ON CONFLICT (key) DO UPDATE SET "
            "total = total + excluded.total, top = max(top, excluded.top), times = times + 1",
            [batch.column("key"), value, value],
        )

    def totals(self) -> pa.Table:
        """Select the totals."""
        rows = self._reads.execute("SELECT * FROM totals").fetchall()
        return pa.Table.from_arrays(
            [pa.array(column, pa.int64()) for column in zip(*rows, strict=True)], ["key", "total", "top", "times"]
        )

    @contextmanager
    def bootstrap(self) -> Iterator[Bootstrap]:
        """Read the rows and the end of the log in one read transaction."""
        yield SQLiteBootstrap(self)

    def read_with_position(self) -> pa.Table:
        """Return all rows; what is drained next is what came after them."""
        self._reads.execute("BEGIN")
        self._drained = self._reads.execute("SELECT coalesce(max(seq), 0) FROM log").fetchone()[0]
        rows = self.scan(SCHEMA.names)
        self._reads.execute("COMMIT")
        return rows

    def close(self) -> None:
        """Close both connections."""
        self._writes.close()
        self._reads.close()

    def _write(self, statement: str, columns: Sequence[pa.Array]) -> None:
        self._writes.execute("BEGIN")
        self._writes.executemany(statement, zip(*(column.to_pylist() for column in columns), strict=True))
        self._writes.execute("COMMIT")


class SQLiteBootstrap:
    """All rows, then the log after them."""

    def __init__(self, session: SQLiteSession) -> None:
        self._session = session

    def snapshot(self) -> pa.Table:
        """Read the rows."""
        return self._session.read_with_position()

    def tail(self, rows: int) -> Drained:
        """Read the log."""
        return self._session.drain()


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    for setting in ("journal_mode=WAL", "synchronous=FULL", "cache_size=-262144", "busy_timeout=60000"):
        connection.execute(f"PRAGMA {setting}")
    return connection


def _arrow(rows: list[tuple[Any, ...]], columns: Sequence[str]) -> pa.Table:
    values = zip(*rows, strict=True) if rows else [()] * len(columns)
    schema = pa.schema([SCHEMA.field(name) for name in columns])
    arrays = [pa.array(column, field.type) for column, field in zip(values, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)


PEER = SQLite()
