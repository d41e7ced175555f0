"""A table: what makes one (`TableSpec`), and one that exists (`TableInfo`). Both are plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from penstock.model.schema.schema import Column, Schema
from penstock.model.schema.type_words import format_type
from penstock.model.table.merge_engine import DeleteBehavior, MergeEngine
from penstock.model.table.properties import TableProperties
from penstock.model.words.html_table import html_table
from penstock.model.words.names import TablePath


@dataclass(frozen=True, kw_only=True)
class TableSpec:
    """Everything about a table that its creator says; made and checked by `penstock.model.table.spec.make_spec`.

    A log table (no key) has no merge engine and no bucket key.
    """

    schema: Schema
    buckets: int = 1
    bucket_key: tuple[str, ...] = ()
    partitioned_by: tuple[str, ...] = ()
    merge_engine: MergeEngine | None = None
    version_column: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict, hash=False)

    @property
    def primary_key(self) -> tuple[str, ...]:
        """Return the names of the key columns; empty for a log table."""
        return self.schema.primary_key

    @property
    def keyed(self) -> bool:
        """Tell whether the table has a primary key."""
        return self.schema.keyed

    @property
    def partitioned(self) -> bool:
        """Tell whether the table has partitions."""
        return bool(self.partitioned_by)

    @cached_property
    def folds(self) -> bool:
        """Tell whether columns fold what is written to them."""
        return self.merge_engine is not None and self.merge_engine.traits.folds

    @cached_property
    def retracts(self) -> bool:
        """Tell whether changes that are applied take back the images before them."""
        return self.merge_engine is not None and self.merge_engine.traits.retracts

    @cached_property
    def takes_partial(self) -> bool:
        """Tell whether a write may name some of the columns only."""
        return self.merge_engine is not None and self.merge_engine.traits.takes_partial

    @cached_property
    def added_columns(self) -> frozenset[str]:
        """Return the names of the columns that were added after the creation: a writer may leave them out."""
        return frozenset()

    @cached_property
    def options(self) -> TableProperties:
        """Return the properties as the engine reads them."""
        engine = self.merge_engine
        return TableProperties.read(
            self.properties,
            default_delete=DeleteBehavior.DISABLE if engine is None else engine.traits.default_delete,
            locks_columns=engine is not None and engine.traits.locks_columns,
        )

    def to_json(self) -> dict[str, Any]:
        """Return the spec as JSON values."""
        return {
            "schema": self.schema.to_json(),
            "buckets": self.buckets,
            "bucket_key": list(self.bucket_key),
            "partitioned_by": list(self.partitioned_by),
            "merge_engine": None if self.merge_engine is None else self.merge_engine.value,
            "version_column": self.version_column,
            "properties": dict(self.properties),
        }


@dataclass(frozen=True, kw_only=True, repr=False)
class TableInfo(TableSpec):
    """A table that exists. `schema_id` grows with each change of its columns; ids are never used again.

    The columns that it was created with have ids below `created_with`; None: all of its columns.
    """

    path: str
    table_id: int
    schema_id: int = 0
    created_ms: int = 0
    created_with: int | None = None

    @property
    def name(self) -> str:
        """Return the table's name without its database."""
        return TablePath.parse(self.path).table

    @property
    def database(self) -> str:
        """Return the name of the table's database."""
        return TablePath.parse(self.path).database

    @cached_property
    def added_columns(self) -> frozenset[str]:
        """Return the names of the columns that were added after the creation: a writer may leave them out."""
        return frozenset(column.name for column in self.schema.columns if self.was_added(column))

    def was_added(self, column: Column) -> bool:
        """Tell whether a column that the table has or had was added after its creation."""
        return self.created_with is not None and column.id >= self.created_with

    def to_json(self) -> dict[str, Any]:
        """Return the table as JSON values."""
        own = {
            "path": self.path,
            "table_id": self.table_id,
            "schema_id": self.schema_id,
            "created_ms": self.created_ms,
            "created_with": self.created_with,
        }
        return own | super().to_json()

    @classmethod
    def from_json(cls, stored: Mapping[str, Any], schema: Schema | None = None) -> TableInfo:
        """Return the table that JSON values describe, with its schema if that is stored elsewhere.

        The values are ours, and not checked again.
        """
        engine = stored["merge_engine"]
        return cls(
            path=stored["path"],
            table_id=stored["table_id"],
            schema_id=stored["schema_id"],
            created_ms=stored["created_ms"],
            created_with=stored.get("created_with"),
            schema=Schema.from_json(stored["schema"]) if schema is None else schema,
            buckets=stored["buckets"],
            bucket_key=tuple(stored["bucket_key"]),
            partitioned_by=tuple(stored["partitioned_by"]),
            merge_engine=None if engine is None else MergeEngine(engine),
            version_column=stored["version_column"],
            properties=stored["properties"],
        )

    def __repr__(self) -> str:
        facts: dict[str, object] = {"table_id": self.table_id}
        if self.keyed:
            facts |= {"primary_key": list(self.primary_key), "merge_engine": str(self.merge_engine)}
        if self.partitioned:
            facts["partitioned_by"] = list(self.partitioned_by)
        facts |= {"buckets": self.buckets, "columns": len(self.schema.columns)}
        if self.properties:
            facts["properties"] = dict(self.properties)
        return f"TableInfo({self.path}: {', '.join(f'{name}={value}' for name, value in facts.items())})"

    def _repr_html_(self) -> str:
        """Return the columns as a notebook shows them."""
        rows = [
            (
                column.name,
                format_type(column.type),
                "key" if column.name in self.primary_key else column.agg and column.agg.value,
                "" if column.nullable else "not null",
            )
            for column in self.schema.columns
        ]
        return html_table(repr(self), ("column", "type", "", ""), rows)
