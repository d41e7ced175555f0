"""The catalog as a node offers it: what a change of the catalog means for tables that are open follows at once.

Here and not in `engine.catalog`, which knows no open tables.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pyarrow as pa

from penstock.engine.catalog.catalog import Catalog
from penstock.engine.catalog.identity import Identity
from penstock.engine.home.node_state import NodeState
from penstock.engine.table.alteration import Change, alter_table
from penstock.engine.table.open_tables import OpenTables
from penstock.model.node.principal import ActsForPrincipal
from penstock.model.place.bucket import BucketId, TableBucket
from penstock.model.schema.aggregate import AggFunction
from penstock.model.table.alteration import (
    as_of,
    with_column,
    with_properties,
    with_renamed,
    with_widened,
    without_column,
)
from penstock.model.table.table import TableInfo, TableSpec
from penstock.tablet.merge.factory import merge_rule

OnDrop = Callable[[TableInfo, list[BucketId]], None]
"""Told of a table that was dropped, and of its buckets that were open."""
HoldsDropped = Callable[[int, str], bool]
"""Tell whether a principal has a lease on a table that was dropped."""


class CatalogService(ActsForPrincipal):
    """Answers calls about the catalog; implements `penstock.model.node.facets.catalog.CatalogFacet`.

    Thread-safe by the locks of catalog and tables; holds nothing else that changes.
    """

    def __init__(
        self,
        catalog: Catalog,
        identity: Identity,
        tables: OpenTables,
        state: NodeState,
        *,
        on_drop: OnDrop,
        holds_dropped: HoldsDropped,
        principal: str,
    ) -> None:
        super().__init__(principal)
        self._catalog = catalog
        self._identity = identity
        self._tables = tables
        self._state = state
        self._on_drop = on_drop
        self._holds_dropped = holds_dropped
        self.create_database = catalog.create_database
        self.list_databases = catalog.list_databases
        self.list_tables = catalog.list_tables
        self.table = catalog.table
        self.check_origin = identity.check_origin

    def database_id(self) -> str:
        """Return the id of this database, which no other has."""
        return self._identity.database

    def drop_database(self, name: str, *, cascade: bool = False, if_exists: bool = False) -> None:
        """Drop a database; with tables in it only if `cascade`."""
        for info in self._catalog.drop_database(name, cascade=cascade, if_exists=if_exists):
            self._drop(info)

    def create_table(self, path: str, spec: TableSpec, *, if_not_exists: bool = False) -> TableInfo:
        """Create a table."""
        if spec.keyed:
            # A rule that cannot be made of the spec refuses the table before there is one.
            merge_rule(spec)
        return self._catalog.create_table(path, spec, creator=self._principal, if_not_exists=if_not_exists)

    def table_by_id(self, table_id: int) -> TableInfo:
        """Return the table of that id as it is now; a dropped one only to a principal that has a lease on it."""
        return self._catalog.table_by_id(table_id, dropped=self._holds_dropped(table_id, self._principal))

    def drop_table(self, path: str, *, if_exists: bool = False) -> None:
        """Drop a table."""
        info = self._catalog.drop_table(path, if_exists=if_exists)
        if info is not None:
            self._drop(info)

    def table_as_of(self, table_id: int, schema_id: int) -> TableInfo:
        """Return the table of that id under one of its schemas."""
        info = self.table_by_id(table_id)
        return (
            info if schema_id == info.schema_id else as_of(info, self._catalog.schema(table_id, schema_id), schema_id)
        )

    def add_column(
        self,
        table_id: int,
        name: str,
        type: pa.DataType,
        agg: AggFunction | None = None,
        default: pa.Scalar | None = None,
    ) -> TableInfo:
        """Add a nullable column; rows written before have its default, or null."""
        return self._alter(table_id, lambda info: with_column(info, name, type, agg, default=default))

    def rename_column(self, table_id: int, old: str, new: str) -> TableInfo:
        """Give a column another name."""
        return self._alter(table_id, lambda info: with_renamed(info, old, new))

    def drop_column(self, table_id: int, name: str) -> TableInfo:
        """Drop a column with its values."""
        return self._alter(table_id, lambda info: without_column(info, name))

    def widen_column(self, table_id: int, name: str, type: pa.DataType) -> TableInfo:
        """Give a column a type that holds every value of its own."""
        return self._alter(table_id, lambda info: with_widened(info, name, type))

    def set_properties(self, table_id: int, properties: Mapping[str, str | None]) -> TableInfo:
        """Change properties; None sets one back to its default."""
        return self._alter(table_id, lambda info: with_properties(info, properties))

    def _alter(self, table_id: int, change: Change) -> TableInfo:
        self._state.check()
        return alter_table(self._tables.get(table_id), self._catalog, change)

    def list_partitions(self, table_id: int) -> list[str]:
        """Return the partition names of a table, sorted."""
        return [partition.name for partition in self._catalog.partitions.of(table_id)]

    def create_partition(self, table_id: int, values: Mapping[str, object], *, if_not_exists: bool = False) -> str:
        """Create a partition; return its name."""
        self._state.check()
        return self._tables.get(table_id).create_partition(values, if_not_exists=if_not_exists).name

    def drop_partition(self, table_id: int, values: Mapping[str, object], *, if_exists: bool = False) -> None:
        """Drop a partition with its rows."""
        self._state.check()
        self._tables.drop_partition(table_id, values, if_exists=if_exists)

    def buckets(self, table_id: int) -> list[TableBucket]:
        """Return every bucket of the table, of every partition, sorted."""
        self._state.check()
        return self._tables.get(table_id).buckets()

    def _drop(self, info: TableInfo) -> None:
        table = self._tables.opened(info.table_id)
        open_buckets = [] if table is None else [table.bucket_id(bucket) for bucket in table.buckets()]
        self._tables.drop(info)
        self._on_drop(info, open_buckets)
