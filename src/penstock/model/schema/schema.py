"""A schema: the columns of a table, and which of them are its key. Immutable.

Columns have ids that are never used again; batches store columns under their id, so old batches are
read with the default, or nulls, for columns added since. Key columns are never null.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final

import pyarrow as pa

from penstock.errors import AlreadyExistsError, InvalidError, LimitError
from penstock.model.place.change import SYSTEM_FIELDS
from penstock.model.schema.aggregate import DEFAULT_DELIMITER, DELIMITER, AggFunction, check_takes
from penstock.model.schema.inner_nulls import forbids_inner_nulls
from penstock.model.schema.stored_field import DEFAULT_BYTES_MAX, decode_default, encode_default, stored_field
from penstock.model.schema.type_words import format_type, parse_type
from penstock.model.schema.types import check_key_type
from penstock.model.words.names import check_column_name, fold
from penstock.model.words.near_name import did_you_mean

COLUMNS_MAX: Final = 2_000
DELIMITER_LENGTH_MAX: Final = 64


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its id, what it is called, what it holds, how it is folded on aggregating tables.

    `default` is what rows have that lack the column; None: null. `first_name` is what a renamed column was called
    first: partitions are named by it for ever.
    """

    id: int
    name: str
    type: pa.DataType
    nullable: bool = True
    agg: AggFunction | None = None
    agg_params: Mapping[str, str] = field(default_factory=dict, hash=False)
    default: pa.Scalar | None = field(default=None, hash=False)
    first_name: str | None = None

    @property
    def label(self) -> str:
        """Return what names of partitions call the column, whatever it is called since."""
        return self.first_name or self.name

    @property
    def stored(self) -> pa.Field:
        """Return the column as files have it."""
        return stored_field(self.id, self.type, self.default)

    def to_json(self) -> dict[str, Any]:
        """Return the column as JSON values."""
        stored: dict[str, Any] = {"id": self.id, "name": self.name, "type": format_type(self.type)}
        if not self.nullable:
            stored["nullable"] = False
        if self.agg is not None:
            stored["agg"] = self.agg.value
        if self.agg_params:
            stored["agg_params"] = dict(self.agg_params)
        if self.default is not None:
            stored["default"] = encode_default(self.default).decode()
        if self.first_name is not None:
            stored["first_name"] = self.first_name
        return stored

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Column:
        """Return the column that JSON values describe."""
        kind = parse_type(stored["type"], stored["name"])
        default = decode_default(stored["default"].encode()) if "default" in stored else None
        if default is not None and default.type != kind:
            raise InvalidError("a column's default is of another type", column=stored["name"], type=str(default.type))
        return cls(
            id=stored["id"],
            name=stored["name"],
            type=kind,
            nullable=stored.get("nullable", True),
            agg=AggFunction.parse(stored["agg"]) if "agg" in stored else None,
            agg_params=stored.get("agg_params", {}),
            default=default,
            first_name=stored.get("first_name"),
        )


@dataclass(frozen=True)
class Schema:
    """The columns of a table and its primary key (empty: an append-only log table).

    Ids below `ids_given` were given to columns before, also to some that were dropped.
    """

    columns: tuple[Column, ...]
    primary_key: tuple[str, ...] = ()
    ids_given: int = 0

    @staticmethod
    def builder() -> SchemaBuilder:
        """Return an empty builder."""
        return SchemaBuilder()

    @classmethod
    def from_arrow(cls, schema: pa.Schema, primary_key: Sequence[str] = ()) -> Schema:
        """Return the schema with the columns of an Arrow schema.

        Raises:
            InvalidError: a column or the key is not allowed; the message says why.
        """
        builder = SchemaBuilder()
        for arrow_field in schema:
            builder.column(arrow_field.name, arrow_field.type, nullable=arrow_field.nullable)
        return builder.primary_key(*primary_key).build()

    @property
    def names(self) -> list[str]:
        """Return the column names in order."""
        return [column.name for column in self.columns]

    @property
    def ids_end(self) -> int:
        """Return the number above the ids of all columns that there are or were."""
        return max(self.ids_given, 1 + max(column.id for column in self.columns))

    @property
    def keyed(self) -> bool:
        """Tell whether there is a primary key."""
        return bool(self.primary_key)

    @cached_property
    def arrow_schema(self) -> pa.Schema:
        """Return the columns as users see them."""
        return pa.schema([pa.field(c.name, c.type, nullable=c.nullable) for c in self.columns])

    @cached_property
    def nullable_arrow_schema(self) -> pa.Schema:
        """Return the columns as batches from elsewhere mostly have them: all nullable."""
        return pa.schema([pa.field(c.name, c.type) for c in self.columns])

    @cached_property
    def key_columns(self) -> tuple[Column, ...]:
        """Return the key columns, in key order."""
        return tuple(self.column(name) for name in self.primary_key)

    @cached_property
    def value_columns(self) -> tuple[Column, ...]:
        """Return the columns outside the key."""
        return tuple(column for column in self.columns if column.name not in self.primary_key)

    @cached_property
    def inner_required(self) -> tuple[Column, ...]:
        """Return the columns whose type says of something inside it that it is never null."""
        return tuple(column for column in self.columns if forbids_inner_nulls(column.type))

    def storage_schema(self) -> pa.Schema:
        """Return the columns as batches store them: under their ids, all nullable.

        The system fields follow on keyed tables; a stored row of a log table is its columns alone.
        """
        fields = [column.stored for column in self.columns]
        return pa.schema([*fields, *SYSTEM_FIELDS] if self.keyed else fields)

    @cached_property
    def _by_name(self) -> dict[str, Column]:
        return {column.name: column for column in self.columns}

    @cached_property
    def _by_id(self) -> dict[int, Column]:
        return {column.id: column for column in self.columns}

    @cached_property
    def _by_fold(self) -> dict[str, Column]:
        return {fold(column.name): column for column in self.columns}

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    def column(self, name: str) -> Column:
        """Return a column by its exact name.

        Raises:
            InvalidError: there is none; the message lists the columns.
        """
        column = self._by_name.get(name)
        if column is None:
            raise _unknown_column(name, self)
        return column

    def find(self, name: str) -> Column:
        """Return a column by its name in any case, as SQL does.

        Raises:
            InvalidError: there is none; the message lists the columns.
        """
        column = self._by_name.get(name) or self._by_fold.get(fold(name))
        if column is None:
            raise _unknown_column(name, self)
        return column

    def column_by_id(self, column_id: int) -> Column | None:
        """Return a column by its id, None if there is none."""
        return self._by_id.get(column_id)

    def add_column(
        self,
        name: str,
        type_: str | pa.DataType,
        *,
        agg: AggFunction | str | None = None,
        delimiter: str | None = None,
        default: pa.Scalar | None = None,
    ) -> Schema:
        """Return the schema with one more column, which is nullable.

        Raises:
            AlreadyExistsError: there is a column of that name, whatever its case.
            InvalidError: the column is not allowed.
        """
        if isinstance(name, str) and (twin := self._by_fold.get(fold(name))) is not None:
            raise AlreadyExistsError(
                "there is a column of that name (case does not tell them apart); choose another", column=twin.name
            )
        column = make_column(self.ids_end, name, type_, agg=agg, delimiter=delimiter)
        column = replace(column, default=check_default(column, default))
        return checked(Schema((*self.columns, column), self.primary_key))

    def to_json(self) -> dict[str, Any]:
        """Return the schema as JSON values."""
        stored = {"columns": [column.to_json() for column in self.columns], "primary_key": list(self.primary_key)}
        return stored | ({"ids_given": self.ids_given} if self.ids_given else {})

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Schema:
        """Return the schema that JSON values describe."""
        columns = tuple(Column.from_json(column) for column in stored["columns"])
        return cls(columns, tuple(stored["primary_key"]), stored.get("ids_given", 0))

    def __str__(self) -> str:
        lines = [
            f"  {column.name}: {column.type}{'' if column.nullable else ' not null'}"
            f"{'' if column.agg is None else f' {column.agg}'}"
            for column in self.columns
        ]
        if self.primary_key:
            lines.append(f"  primary key ({', '.join(self.primary_key)})")
        return "\n".join(["schema", *lines])

    def __repr__(self) -> str:
        shown = ", ".join(f"{column.name} {format_type(column.type)}" for column in self.columns[:8])
        more = "" if len(self.columns) <= 8 else f", {len(self.columns) - 8} more"
        return f"Schema({shown}{more}; primary_key={list(self.primary_key)})"


class SchemaBuilder:
    """Collects columns, then builds a schema."""

    def __init__(self) -> None:
        self._columns: list[Column] = []
        self._primary_key: tuple[str, ...] = ()

    def column(self, name: str, type_: str | pa.DataType, *, nullable: bool = True) -> SchemaBuilder:
        """Add a column; the type is an Arrow type or DDL words such as `"bigint"`.

        Raises:
            InvalidError: name or type is not allowed.
        """
        self._columns.append(make_column(len(self._columns), name, type_, nullable=nullable))
        return self

    def agg_column(
        self, name: str, type_: str | pa.DataType, function: AggFunction | str, *, delimiter: str | None = None
    ) -> SchemaBuilder:
        """Add a column that an aggregating table folds; the delimiter (`","`) is for listagg.

        Raises:
            InvalidError: name or type is not allowed, or the function cannot take the type.
        """
        column_id = len(self._columns)
        self._columns.append(make_column(column_id, name, type_, agg=function, delimiter=delimiter))
        return self

    def primary_key(self, *names: str) -> SchemaBuilder:
        """Name the key columns, in key order.

        Raises:
            InvalidError: a name is no string.
        """
        for name in names:
            if not isinstance(name, str):
                raise InvalidError('name the key columns one by one: .primary_key("a", "b")', found=type(name).__name__)
        self._primary_key = names
        return self

    def build(self) -> Schema:
        """Return the schema.

        Raises:
            InvalidError: no column, two of one name, or a key column that is unknown or of a wrong type.
            LimitError: too many columns.
        """
        key = set(self._primary_key)
        columns = tuple(require(column) if column.name in key else column for column in self._columns)
        return checked(Schema(columns, tuple(self._primary_key)))


def make_column(
    column_id: int,
    name: str,
    type_: str | pa.DataType,
    *,
    nullable: bool = True,
    agg: AggFunction | str | None = None,
    delimiter: str | None = None,
) -> Column:
    """Return a column whose name, type and function have been checked.

    Raises:
        InvalidError: one of them is not allowed.
    """
    check_column_name(name)
    kept = parse_type(type_, name)
    function = None if agg is None else AggFunction.parse(agg)
    params: dict[str, str] = {}
    if function is not None:
        check_takes(function, name, kept)
    if function is AggFunction.LISTAGG:
        params[DELIMITER] = DEFAULT_DELIMITER if delimiter is None else delimiter
        if not isinstance(params[DELIMITER], str) or len(params[DELIMITER]) > DELIMITER_LENGTH_MAX:
            raise InvalidError(f"a delimiter has at most {DELIMITER_LENGTH_MAX} characters", column=name)
    elif delimiter is not None:
        raise InvalidError("only listagg takes a delimiter", column=name)
    return Column(column_id, name, kept, nullable, function, params)


def require(column: Column) -> Column:
    """Return the column, never null."""
    return replace(column, nullable=False)


def check_default(column: Column, default: pa.Scalar | None) -> pa.Scalar | None:
    """Return the default of a column, None for null.

    Raises:
        InvalidError: a column that is folded has none, or it is of another type.
        LimitError: it is too large.
    """
    if default is None or not default.is_valid:
        return None
    if column.agg is not None:
        raise InvalidError("a column of an aggregate table has no default; leave it out", column=column.name)
    if default.type != column.type:
        raise InvalidError("the default is of another type", column=column.name, type=str(default.type))
    if len(encode_default(default)) > DEFAULT_BYTES_MAX:
        raise LimitError(f"a default has at most {DEFAULT_BYTES_MAX} bytes", column=column.name)
    return default


def checked(schema: Schema) -> Schema:
    """Return the schema if its columns go together.

    Raises:
        InvalidError: no column, two of one name, or a key column that is unknown or of a wrong type.
        LimitError: too many columns.
    """
    if not schema.columns:
        raise InvalidError("a schema has at least one column")
    if len(schema.columns) > COLUMNS_MAX:
        raise LimitError(f"a schema has at most {COLUMNS_MAX} columns", columns=len(schema.columns))
    _refuse_twins(schema.names, "two columns have the same name (case does not tell them apart)")
    _refuse_twins(schema.primary_key, "the primary key names a column twice")
    for column in schema.key_columns:
        check_key_type(column.type, column.name)
        if column.agg is not None:
            raise InvalidError("a key column has no aggregate function", column=column.name)
    return schema


def _refuse_twins(names: Iterable[str], message: str) -> None:
    seen: set[str] = set()
    for name in names:
        if fold(name) in seen:
            raise InvalidError(message, column=name)
        seen.add(fold(name))


def _unknown_column(name: object, schema: Schema) -> InvalidError:
    choices = ", ".join(schema.names[:20]) + (", ..." if len(schema.columns) > 20 else "")
    return InvalidError(f"no such column; {did_you_mean(name, schema.names)}there are {choices}", column=name)
