"""PostgreSQL over loopback: COPY into a temporary table, then INSERT .. ON CONFLICT; changes from a logical slot."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pyarrow as pa
from adbc_driver_postgresql import dbapi

from bench.peers.peer import Bootstrap, Drained, Transport
from bench.peers.postgres_server import SETTINGS, PostgresServer, missing_words
from bench.workload import SCHEMA

_SET = "city = excluded.city, amount = excluded.amount, items = excluded.items, at = excluded.at"
_CHANGES = "pg_logical_slot_get_binary_changes('{}', NULL, NULL, 'proto_version', '1', 'publication_names', 'bench')"


class PostgreSQL:
    """The server."""

    name = "PostgreSQL"
    transport = Transport.SERVED
    bounds: frozenset[str] = frozenset()

    def __init__(self) -> None:
        self._server: PostgresServer | None = None
        self._version = ""

    def missing(self) -> str | None:
        """Say whether there are binaries."""
        return missing_words()

    def start(self, directory: Path) -> None:
        """Start a server; after a kill, the same one."""
        server = self._server or PostgresServer(directory)
        server.start()
        self._server = server

    def settings(self) -> str:
        """Return version and settings."""
        with psycopg.connect(self._uri) as connection:
            version = connection.info.server_version
        words = ", ".join(f"{name}={value}" for name, value in SETTINGS.items())
        return (
            f"{version // 10000}.{version % 10000}; {words}; binary COPY by ADBC into a temporary table, then "
            "INSERT .. ON CONFLICT DO UPDATE; scans by ADBC into Arrow; the changelog is a logical slot (pgoutput, "
            "REPLICA IDENTITY FULL), read in binary; of its messages only the ids are decoded"
        )

    def session(self) -> PostgresSession:
        """Connect."""
        return PostgresSession(self._uri)

    def pids(self) -> list[int]:
        """Return all its processes."""
        assert self._server is not None
        return self._server.pids()

    def kill(self) -> None:
        """Kill all its processes."""
        assert self._server is not None
        self._server.kill()

    def stop(self) -> None:
        """Stop the server."""
        if self._server is not None:
            self._server.stop()
            self._server = None

    @property
    def _uri(self) -> str:
        assert self._server is not None
        return self._server.uri


class PostgresSession:
    """An ADBC connection for rows as Arrow, and a plain one for the rest."""

    def __init__(self, uri: str) -> None:
        self._uri = uri
        self._arrow = dbapi.connect(uri)
        self._plain = psycopg.connect(uri, autocommit=True)
        self._slots = 0
        self._staged: set[str] = set()

    def create(self, *, changelog: bool = False) -> None:
        """Make the table, and a slot if asked."""
        self._plain.execute("DROP TABLE IF EXISTS bench")
        self._plain.execute(
            "CREATE TABLE bench "
            "(id bigint PRIMARY KEY, city text, amount double precision, items bigint, at timestamptz)"
        )
        self._plain.execute("SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots")
        self._plain.execute("DROP PUBLICATION IF EXISTS bench")
        if changelog:
            self._plain.execute("ALTER TABLE bench REPLICA IDENTITY FULL")
            self._plain.execute("CREATE PUBLICATION bench FOR TABLE bench")
            self._plain.execute("SELECT pg_create_logical_replication_slot('bench', 'pgoutput')")

    def upsert(self, batch: pa.RecordBatch) -> None:
        """Copy, then upsert, in one transaction."""
        self._write(batch, f"INSERT INTO bench SELECT * FROM {{}} ON CONFLICT (id) DO UPDATE SET {_SET}")

    def scan(self, columns: Sequence[str], items: int | None = None) -> pa.Table:
        """Select into Arrow."""
        where = "" if items is None else f" WHERE items = {items}"
        with self._arrow.cursor() as cursor:
            cursor.execute(f"SELECT {', '.join(columns)} FROM bench{where}")
            rows = cursor.fetch_arrow_table()
        self._arrow.commit()
        return rows

    def open_scan(self) -> Iterator[pa.RecordBatch]:
        """Select by a server-side cursor of a connection of its own, 10,000 rows at a time."""
        with psycopg.connect(self._uri) as connection, connection.cursor("held", binary=True) as cursor:
            cursor.execute("SELECT * FROM bench")
            while rows := cursor.fetchmany(10_000):
                arrays = [pa.array(column) for column in zip(*rows, strict=True)]
                yield pa.RecordBatch.from_arrays(arrays, SCHEMA.names)

    def lookup(self, ids: Sequence[int]) -> int:
        """Select by key, binary, prepared."""
        statement = "SELECT * FROM bench WHERE id = ANY(%s)" if len(ids) > 1 else "SELECT * FROM bench WHERE id = %s"
        asked = list(ids) if len(ids) > 1 else ids[0]
        with self._plain.cursor(binary=True) as cursor:
            return len(cursor.execute(statement, [asked], prepare=True).fetchall())

    def drain(self) -> Drained:
        """Read every change of the slot, and move it on."""
        return self.drain_slot("bench")

    def drain_slot(self, slot: str) -> Drained:
        """Read every change of this slot; the messages come over the wire, and are counted."""
        with self._plain.cursor(binary=True) as cursor:
            messages = cursor.execute(f"SELECT data FROM {_CHANGES.format(slot)}").fetchall()
        ids = [_new_id(data) for (data,) in messages if data[0] in b"IU"]
        return Drained(len(ids), sum(ids))

    def set_amounts(self, batch: pa.RecordBatch) -> None:
        """Copy, then update one column."""
        self._write(batch, "UPDATE bench SET amount = new.amount FROM {} new WHERE bench.id = new.id")

    def create_totals(self) -> None:
        """Make the table of totals."""
        self._plain.execute("DROP TABLE IF EXISTS totals")
        self._plain.execute("CREATE TABLE totals (key bigint PRIMARY KEY, total bigint, top bigint, times bigint)")

    def fold(self, batch: pa.RecordBatch) -> None:
        """Copy, group, since a key may be touched once a statement, and fold it in."""
        self._write(
            batch,
            "INSERT INTO totals AS t SELECT key, sum(value), max(value), count(*) FROM {} GROUP BY key "
            "ON CONFLICT (key) DO UPDATE SET total = t.total + excluded.total, "
            "top = greatest(t.top, excluded.top), times = t.times + excluded.times",
        )

    def totals(self) -> pa.Table:
        """Select the totals."""
        with self._arrow.cursor() as cursor:
            cursor.execute("SELECT * FROM totals")
            rows = cursor.fetch_arrow_table()
        self._arrow.commit()
        return rows

    @contextmanager
    def bootstrap(self) -> Iterator[Bootstrap]:
        """Make a slot that exports its snapshot, as replication tools do."""
        self._slots += 1
        slot = f"bootstrap{self._slots}"
        with psycopg.connect(f"{self._uri}?replication=database", autocommit=True) as replication:
            made = replication.pgconn.exec_(f"CREATE_REPLICATION_SLOT {slot} LOGICAL pgoutput".encode())
            yield PostgresBootstrap(self, slot, (made.get_value(0, 2) or b"").decode())
        self._plain.execute("SELECT pg_drop_replication_slot(%s)", [slot])

    def scan_snapshot(self, name: str) -> pa.Table:
        """Select all rows as of an exported snapshot."""
        with self._arrow.cursor() as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            cursor.execute(f"SET TRANSACTION SNAPSHOT '{name}'")
        return self.scan(SCHEMA.names)

    def close(self) -> None:
        """Close the connections."""
        self._arrow.close()
        self._plain.close()

    def _write(self, batch: pa.RecordBatch, statement: str) -> None:
        staging = f"staging_{'_'.join(batch.schema.names)}"
        with self._arrow.cursor() as cursor:
            if staging in self._staged:
                cursor.execute(f"TRUNCATE {staging}")
            mode = "append" if staging in self._staged else "create"
            cursor.adbc_ingest(staging, batch, mode=mode, temporary=True)
            cursor.execute(statement.format(staging))
        self._arrow.commit()
        self._staged.add(staging)


class PostgresBootstrap:
    """A slot and the snapshot that it exported."""

    def __init__(self, session: PostgresSession, slot: str, snapshot: str) -> None:
        self._session = session
        self._slot = slot
        self._snapshot = snapshot

    def snapshot(self) -> pa.Table:
        """Select as of the snapshot."""
        return self._session.scan_snapshot(self._snapshot)

    def tail(self, rows: int) -> Drained:
        """Read the slot."""
        return self._session.drain_slot(self._slot)


def _new_id(message: bytes) -> int:
    """Return the first column of the new tuple of an insert or update, as pgoutput writes it."""
    at = 5
    if message[at] in b"OK":
        count = struct.unpack_from(">h", message, at + 1)[0]
        at += 3
        for _ in range(count):
            kind = message[at : at + 1]
            at += 1 if kind != b"t" else 5 + struct.unpack_from(">i", message, at + 1)[0]
    assert message[at : at + 1] == b"N"
    length = struct.unpack_from(">i", message, at + 4)[0]
    return int(message[at + 8 : at + 8 + length])


PEER = PostgreSQL()
