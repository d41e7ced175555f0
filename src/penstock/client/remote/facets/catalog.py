"""The catalog of a server."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from penstock.client.remote.calls import RemoteCalls
from penstock.model.place.bucket import TableBucket
from penstock.model.schema.aggregate import AggFunction
from penstock.model.table.table import TableInfo, TableSpec
from penstock.wire import calls as wire


class RemoteCatalog:
    """The catalog of a server. Implements `penstock.model.node.facets.catalog.CatalogFacet`."""

    def __init__(self, calls: RemoteCalls) -> None:
        self._calls = calls

    def database_id(self) -> str:
        """Return the id of the database, which is asked for once: no other is talked to from then on."""
        return self._calls.database_id()

    def check_origin(
        self, database: str, table_id: int, offsets: Mapping[TableBucket, int], births: int | None = None
    ) -> None:
        """Refuse a place in a table unless it is of this database, or of what it has of an ancestor."""
        self._calls.ask(wire.CHECK_ORIGIN, database=database, table_id=table_id, offsets=offsets, births=births)

    def create_database(self, name: str, *, if_not_exists: bool = False) -> None:
        """Create a database."""
        self._calls.ask(wire.CREATE_DATABASE, name=name, if_not_exists=if_not_exists)

    def list_databases(self) -> list[str]:
        """Return the names of all databases, sorted."""
        return self._calls.ask(wire.LIST_DATABASES)

    def drop_database(self, name: str, *, cascade: bool = False, if_exists: bool = False) -> None:
        """Drop a database; with tables in it only if `cascade`."""
        self._calls.ask(wire.DROP_DATABASE, name=name, cascade=cascade, if_exists=if_exists)

    def create_table(self, path: str, spec: TableSpec, *, if_not_exists: bool = False) -> TableInfo:
        """Create a table."""
        return self._calls.ask(wire.CREATE_TABLE, path=path, spec=spec, if_not_exists=if_not_exists)

    def table(self, path: str) -> TableInfo:
        """Return the table of that path as it is now."""
        return self._calls.ask(wire.TABLE, path=path)

    def table_by_id(self, table_id: int) -> TableInfo:
        """Return the table of that id as it is now."""
        return self._calls.ask(wire.TABLE_BY_ID, table_id=table_id)

    def list_tables(self, database: str) -> list[str]:
        """Return the names of a database's tables, sorted."""
        return self._calls.ask(wire.LIST_TABLES, database=database)

    def drop_table(self, path: str, *, if_exists: bool = False) -> None:
        """Drop a table."""
        self._calls.ask(wire.DROP_TABLE, path=path, if_exists=if_exists)

    def table_as_of(self, table_id: int, schema_id: int) -> TableInfo:
        """Return the table of that id under one of its schemas: as who began then knows it."""
        return self._calls.ask(wire.TABLE_AS_OF, table_id=table_id, schema_id=schema_id)

    def add_column(
        self,
        table_id: int,
        name: str,
        type: pa.DataType,
        agg: AggFunction | None = None,
        default: pa.Scalar | None = None,
    ) -> TableInfo:
        """Add a nullable column; rows written before have its default, or null."""
        if default is None:
            return self._calls.ask(wire.ADD_COLUMN, table_id=table_id, name=name, type=type, agg=agg)
        return self._calls.ask(
            wire.ADD_DEFAULTED_COLUMN, table_id=table_id, name=name, type=type, agg=agg, default=default
        )

    def rename_column(self, table_id: int, old: str, new: str) -> TableInfo:
        """Give a column another name."""
        return self._calls.ask(wire.RENAME_COLUMN, table_id=table_id, old=old, new=new)

    def drop_column(self, table_id: int, name: str) -> TableInfo:
        """Drop a column with its values."""
        return self._calls.ask(wire.DROP_COLUMN, table_id=table_id, name=name)

    def widen_column(self, table_id: int, name: str, type: pa.DataType) -> TableInfo:
        """Give a column a type that holds every value of its own."""
        return self._calls.ask(wire.WIDEN_COLUMN, table_id=table_id, name=name, type=type)

    def set_properties(self, table_id: int, properties: Mapping[str, str | None]) -> TableInfo:
        """Change properties; None sets one back to its default."""
        return self._calls.ask(wire.SET_PROPERTIES, table_id=table_id, properties=properties)

    def list_partitions(self, table_id: int) -> list[str]:
        """Return the partition names of a table, sorted."""
        return self._calls.ask(wire.LIST_PARTITIONS, table_id=table_id)

    def create_partition(self, table_id: int, values: Mapping[str, object], *, if_not_exists: bool = False) -> str:
        """Create a partition; return its name."""
        return self._calls.ask(wire.CREATE_PARTITION, table_id=table_id, values=values, if_not_exists=if_not_exists)

    def drop_partition(self, table_id: int, values: Mapping[str, object], *, if_exists: bool = False) -> None:
        """Drop a partition with its rows."""
        self._calls.ask(wire.DROP_PARTITION, table_id=table_id, values=values, if_exists=if_exists)

    def buckets(self, table_id: int) -> list[TableBucket]:
        """Return every bucket of the table, of every partition, sorted."""
        return self._calls.ask(wire.BUCKETS, table_id=table_id)
