"""Apache Iceberg in local files, by pyiceberg: an upsert a batch, the catalog in SQLite."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyiceberg
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.schema import Schema
from pyiceberg.types import DoubleType, LongType, NestedField, StringType, TimestamptzType

from bench.peers.library import Library
from bench.peers.peer import Transport
from bench.workload import SCHEMA

_TYPES = (LongType(), StringType(), DoubleType(), LongType(), TimestamptzType())


class Iceberg(Library):
    """The table format."""

    name = "Iceberg"
    transport = Transport.FILES

    def settings(self) -> str:
        """Return version and settings."""
        return (
            f"pyiceberg {pyiceberg.__version__}; local files, catalog in SQLite, Table.upsert, copy on write; "
            "no changelog; its files are not synced"
        )

    def session(self) -> IcebergSession:
        """Open the catalog."""
        return IcebergSession(self.directory)


class IcebergSession:
    """One catalog."""

    def __init__(self, directory: Path) -> None:
        place = {"uri": f"sqlite:///{directory}/catalog.db", "warehouse": f"file://{directory}"}
        self._catalog = SqlCatalog("bench", **place)
        self._catalog.create_namespace_if_not_exists("bench")
        self._tables = 0

    def create(self, *, changelog: bool = False) -> None:
        """Make the table."""
        self._tables += 1
        fields = [
            NestedField(number, name, kind, required=number == 1)
            for number, (name, kind) in enumerate(zip(SCHEMA.names, _TYPES, strict=True), 1)
        ]
        schema = Schema(*fields, identifier_field_ids=[1])
        self._table = self._catalog.create_table(f"bench.t{self._tables}", schema=schema)

    def upsert(self, batch: pa.RecordBatch) -> None:
        """Upsert, or append to a table that is empty."""
        rows = pa.Table.from_batches([batch])
        if self._table.current_snapshot() is None:
            self._table.append(rows)
        else:
            self._table.upsert(rows)

    def scan(self, columns: Sequence[str], items: int | None = None) -> pa.Table:
        """Read into Arrow."""
        chosen = {} if items is None else {"row_filter": f"items = {items}"}
        return self._table.scan(selected_fields=tuple(columns), **chosen).to_arrow()

    def close(self) -> None:
        """Close the catalog."""
        self._catalog.close()


PEER = Iceberg()
