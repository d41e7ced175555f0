"""DuckDB in this process, in a file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import duckdb
import pyarrow as pa

from bench.peers.library import Library

_SET = 'city = excluded.city, amount = excluded.amount, items = excluded.items, "at" = excluded."at"'


class DuckDB(Library):
    """The library."""

    name = "DuckDB"

    def settings(self) -> str:
        """Return version and settings."""
        return (
            f"{duckdb.__version__}; file, primary key, INSERT .. ON CONFLICT from Arrow, a transaction a batch, "
            "write-ahead log synced at commit (default), no changelog"
        )

    def session(self) -> DuckDBSession:
        """Open the file."""
        return DuckDBSession(duckdb.connect(self.directory / "bench.duckdb"))


class DuckDBSession:
    """One connection. Each call uses a cursor of its own, as threads must."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._connection = connection
        self._connection.execute("SET TimeZone = 'UTC'")

    def create(self, *, changelog: bool = False) -> None:
        """Make the table."""
        self._connection.execute(
            "CREATE OR REPLACE TABLE bench "
            '(id BIGINT PRIMARY KEY, city VARCHAR, amount DOUBLE, items BIGINT, "at" TIMESTAMPTZ)'
        )

    def upsert(self, batch: pa.RecordBatch) -> None:
        """Upsert from Arrow."""
        self._write(f"INSERT INTO bench SELECT * FROM batch ON CONFLICT (id) DO UPDATE SET {_SET}", batch)

    def scan(self, columns: Sequence[str], items: int | None = None) -> pa.Table:
        """Select into Arrow."""
        where = "" if items is None else f" WHERE items = {items}"
        with self._connection.cursor() as cursor:
            return cursor.sql(f"SELECT {_names(columns)} FROM bench{where}").to_arrow_table()

    def open_scan(self) -> Iterator[pa.RecordBatch]:
        """Select batch by batch."""
        return iter(self._connection.cursor().sql("SELECT * FROM bench").to_arrow_reader())

    def lookup(self, ids: Sequence[int]) -> int:
        """Select by key; many keys by a join."""
        with self._connection.cursor() as cursor:
            if len(ids) == 1:
                return cursor.sql("SELECT * FROM bench WHERE id = ?", params=[ids[0]]).to_arrow_table().num_rows
            cursor.register("keys", pa.table({"id": ids}))
            return cursor.sql("SELECT bench.* FROM bench JOIN keys USING (id)").to_arrow_table().num_rows

    def set_amounts(self, batch: pa.RecordBatch) -> None:
        """Update one column."""
        self._write("UPDATE bench SET amount = batch.amount FROM batch WHERE bench.id = batch.id", batch)

    def create_totals(self) -> None:
        """Make the table of totals."""
        self._connection.execute(
            "CREATE OR REPLACE TABLE totals (key BIGINT PRIMARY KEY, total BIGINT, top BIGINT, times BIGINT)"
        )

    def fold(self, batch: pa.RecordBatch) -> None:
        """Group the batch, since a key may be touched once a statement, and fold it in."""
        self._write(
            "INSERT INTO totals SELECT key, sum(value), max(value), count(*) FROM batch GROUP BY key "
            "ON CONFLICT (key) DO UPDATE SET total = total + excluded.total, "
            "top = greatest(top, excluded.top), times = times + excluded.times",
            batch,
        )

    def totals(self) -> pa.Table:
        """Select the totals."""
        return self._connection.sql("SELECT * FROM totals").to_arrow_table()

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def _write(self, statement: str, batch: pa.RecordBatch) -> None:
        with self._connection.cursor() as cursor:
            cursor.register("batch", pa.Table.from_batches([batch]))
            cursor.execute(statement)
            cursor.unregister("batch")


def _names(columns: Sequence[str]) -> str:
    # One of ours is a keyword.
    return ", ".join(f'"{name}"' for name in columns)


PEER = DuckDB()
