"""The definition of a table, as a handle knows it: columns, partitions, figures."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from penstock.client.link.link import Link
from penstock.model.node.calls import TableStats
from penstock.model.table.table import TableInfo


class TableDefinition:
    """The part of a table handle that is about the table and not about its rows."""

    def __init__(self, link: Link, info: TableInfo) -> None:
        self._link = link
        self._info = info

    @property
    def info(self) -> TableInfo:
        """Return the table as this handle knows it."""
        return self._info

    @property
    def path(self) -> str:
        """Return the table's path: database and name."""
        return self._info.path

    @property
    def schema(self) -> pa.Schema:
        """Return the table's columns as an Arrow schema."""
        return self._info.schema.arrow_schema

    def stats(self) -> TableStats:
        """Return the table's state: rows, bytes, each bucket, what background work did.

        Raises:
            TableNotFoundError: the table was dropped.
        """
        return self._link.retry.run(lambda: self._link.node.tables.stats(self._info.table_id))

    def list_partitions(self) -> list[str]:
        """Return the names of the partitions, sorted.

        Raises:
            UnsupportedError: the table is not partitioned.
        """
        return self._link.retry.run(lambda: self._link.node.catalog.list_partitions(self._info.table_id))

    def create_partition(self, values: Mapping[str, object], if_not_exists: bool = False) -> str:
        """Create the partition with these values; return its name.

        Raises:
            AlreadyExistsError: it is there.
            InvalidError: the values are not those of the partition columns.
            LimitError: there are as many partitions as the table allows.
            UnsupportedError: the table is not partitioned.
        """
        table_id = self._info.table_id
        return self._link.once(
            lambda node: node.catalog.create_partition(table_id, values, if_not_exists=if_not_exists)
        )

    def drop_partition(self, values: Mapping[str, object], if_exists: bool = False) -> None:
        """Drop the partition with these values, and its rows.

        Raises:
            PartitionNotFoundError: it is not there.
            InvalidError: the values are not those of the partition columns.
            UnsupportedError: the table is not partitioned.
        """
        self._link.once(lambda node: node.catalog.drop_partition(self._info.table_id, values, if_exists=if_exists))

    def __repr__(self) -> str:
        key = f", primary key ({', '.join(self._info.primary_key)})" if self._info.keyed else ", log table"
        buckets = "1 bucket" if self._info.buckets == 1 else f"{self._info.buckets} buckets"
        return f"<Table {self.path}{key}, {len(self._info.schema.columns)} columns, {buckets}>"
