"""The part of a table handle that alters the table: its columns and its properties."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Self

import pyarrow as pa

from penstock.client.catalog.known_table import KnownTable
from penstock.client.ingest.arrow_source import ArrowSource
from penstock.client.link.link import Link
from penstock.errors import InvalidError
from penstock.model.schema.aggregate import AggFunction
from penstock.model.schema.type_words import parse_type
from penstock.model.table.properties import change_properties
from penstock.model.table.table import TableInfo


class TableAlterations(ABC):
    """The part of a table handle that alters the table. What is altered through a handle, the handle takes up."""

    _link: Link
    _known: KnownTable

    @abstractmethod
    def _altered(self, info: TableInfo) -> Self:
        """Take up an altered table; return a new handle to it."""

    def add_column(
        self, name: str, type: pa.DataType | str, agg: AggFunction | str | None = None, default: Any = None
    ) -> Self:
        """Add a nullable column; return a handle that was opened with it.

        Rows that are there have the default, or null, and so have new rows whose write leaves the column out. Columns
        of aggregating tables have a function and no default.

        Raises:
            AlreadyExistsError: there is a column of that name.
            InvalidError: name, type or default is not allowed.
        """
        function = None if agg is None else AggFunction.parse(agg)
        kept = parse_type(type, name)
        value = None if default is None else _default(name, kept, default)
        table_id = self._known.own.table_id
        return self._altered(
            self._link.once(lambda node: node.catalog.add_column(table_id, name, kept, function, value))
        )

    def rename_column(self, old: str, new: str) -> Self:
        """Give a column another name, for readers from now on; handles that are open write it by the old one.

        Raises:
            AlreadyExistsError: there is a column of that name.
            InvalidError: there is no such column, or the name is not allowed.
        """
        table_id = self._known.own.table_id
        return self._altered(self._link.once(lambda node: node.catalog.rename_column(table_id, old, new)))

    def drop_column(self, name: str) -> Self:
        """Drop a column with its values; a column of that name that is added later is another one.

        Raises:
            InvalidError: there is no such column.
            LockedError: an owner holds it, or rows of it are staged.
            UnsupportedError: the table needs it: key, partition, version.
        """
        table_id = self._known.own.table_id
        return self._altered(self._link.once(lambda node: node.catalog.drop_column(table_id, name)))

    def widen_column(self, name: str, type: pa.DataType | str) -> Self:
        """Give a column a type that holds all values of its own: int to bigint, float to double, more digits.

        Raises:
            InvalidError: there is no such column, or the type is not wider.
            LockedError: an owner holds it, or rows of it are staged.
            UnsupportedError: the table needs its type: key, partition, version.
        """
        kept, table_id = parse_type(type, name), self._known.own.table_id
        return self._altered(self._link.once(lambda node: node.catalog.widen_column(table_id, name, kept)))

    def set_properties(self, properties: Mapping[str, Any]) -> Self:
        """Change properties, at once for everybody; None sets one back to its default.

        Raises:
            InvalidError: an unknown property, one that cannot change later, or a value that does not go with the table.
            LockedError: `column-lock.enabled` is changed while there are owners.
        """
        # Checked here, so that what is no text is not sent.
        change_properties(self._known.own.properties, properties)
        said = {name: _said(value) for name, value in properties.items()}
        table_id = self._known.own.table_id
        return self._altered(self._link.once(lambda node: node.catalog.set_properties(table_id, said)))


def _default(name: str, kind: pa.DataType, value: Any) -> pa.Scalar:
    given = value.as_py() if isinstance(value, pa.Scalar) else value
    try:
        default: pa.Scalar = ArrowSource.of([{name: given}]).column(pa.field(name, kind))[0]
    except InvalidError as error:
        raise InvalidError(f"the default is no value of its column: {error.message}", **error.facts) from error
    return default


def _said(value: Any) -> Any:
    return value if isinstance(value, str | bool | int | timedelta | None) else str(value)
