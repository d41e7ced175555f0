"""The catalog of a node: databases, tables, partitions, buckets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import pyarrow as pa

from penstock.model.place.bucket import TableBucket
from penstock.model.schema.aggregate import AggFunction
from penstock.model.table.table import TableInfo, TableSpec


class CatalogFacet(Protocol):
    """The catalog of a node: databases, tables, partitions, buckets. Thread-safe."""

    def database_id(self) -> str:
        """Return the id of the database, which no other has."""

    def check_origin(
        self, database: str, table_id: int, offsets: Mapping[TableBucket, int], births: int | None = None
    ) -> None:
        """Refuse a place in a table unless it is of this database, or of what it has of one it was restored from."""

    def create_database(self, name: str, *, if_not_exists: bool = False) -> None:
        """Create a database."""

    def list_databases(self) -> list[str]:
        """Return the names of all databases, sorted."""

    def drop_database(self, name: str, *, cascade: bool = False, if_exists: bool = False) -> None:
        """Drop a database; with tables in it only if `cascade`."""

    def create_table(self, path: str, spec: TableSpec, *, if_not_exists: bool = False) -> TableInfo:
        """Create a table."""

    def table(self, path: str) -> TableInfo:
        """Return the table of that path as it is now."""

    def table_by_id(self, table_id: int) -> TableInfo:
        """Return the table of that id as it is now."""

    def list_tables(self, database: str) -> list[str]:
        """Return the names of a database's tables, sorted."""

    def drop_table(self, path: str, *, if_exists: bool = False) -> None:
        """Drop a table."""

    def table_as_of(self, table_id: int, schema_id: int) -> TableInfo:
        """Return the table of that id under one of its schemas: as who began then knows it."""

    def add_column(
        self,
        table_id: int,
        name: str,
        type: pa.DataType,
        agg: AggFunction | None = None,
        default: pa.Scalar | None = None,
    ) -> TableInfo:
        """Add a nullable column; rows written before have its default, or null."""

    def rename_column(self, table_id: int, old: str, new: str) -> TableInfo:
        """Give a column another name."""

    def drop_column(self, table_id: int, name: str) -> TableInfo:
        """Drop a column with its values."""

    def widen_column(self, table_id: int, name: str, type: pa.DataType) -> TableInfo:
        """Give a column a type that holds every value of its own."""

    def set_properties(self, table_id: int, properties: Mapping[str, str | None]) -> TableInfo:
        """Change properties; None sets one back to its default."""

    def list_partitions(self, table_id: int) -> list[str]:
        """Return the partition names of a table, sorted."""

    def create_partition(self, table_id: int, values: Mapping[str, object], *, if_not_exists: bool = False) -> str:
        """Create a partition; return its name."""

    def drop_partition(self, table_id: int, values: Mapping[str, object], *, if_exists: bool = False) -> None:
        """Drop a partition with its rows."""

    def buckets(self, table_id: int) -> list[TableBucket]:
        """Return every bucket of the table, of every partition, sorted."""
