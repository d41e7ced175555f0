"""A projection: the columns that a reader asks for, as stored and as shown.

Stored columns are named by id, so a reader's schema decides what it sees: a column added since is not there for
it, one renamed since has its name of then, and rows that are older than a column read its default.
"""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from penstock.errors import InvalidError
from penstock.model.schema.schema import Schema


class Projection:
    """Some columns of a schema, in the order asked. Immutable."""

    def __init__(self, schema: Schema, names: Iterable[str] | None = None) -> None:
        """Choose columns by name; None chooses all.

        Raises:
            InvalidError: a column is unknown or named twice, or there is none.
        """
        self.names = tuple(schema.names if names is None else names)
        if not self.names:
            raise InvalidError("name at least one column")
        if len(set(self.names)) < len(self.names):
            raise InvalidError("a column is named twice", columns=list(self.names))
        self.columns = tuple(schema.column(name) for name in self.names)
        self.stored = pa.schema([column.stored for column in self.columns])
        self.shown = pa.schema([pa.field(c.name, c.type, nullable=c.nullable) for c in self.columns])

    @property
    def ids(self) -> tuple[int, ...]:
        """Return the ids of the columns."""
        return tuple(column.id for column in self.columns)

    def stored_with(self, more: Iterable[pa.Field]) -> pa.Schema:
        """Return the stored columns, then those of `more` that are not among them."""
        return pa.schema([*self.stored, *(field for field in more if self.stored.get_field_index(field.name) < 0)])

    def show(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return a stored batch, whose first columns are the projection's, under the users' names."""
        return pa.RecordBatch.from_arrays(batch.columns[: len(self.names)], schema=self.shown)
