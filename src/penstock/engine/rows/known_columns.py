"""The columns that a reader who began under an older schema may still read: its own, while the table has them."""

from __future__ import annotations

from collections.abc import Iterable

from penstock.errors import SchemaMismatchError
from penstock.model.schema.schema import Column, Schema


def check_there(present: Schema, columns: Iterable[Column]) -> None:
    """Refuse to read columns that the table has no more. To be asked once the view that is read was taken.

    A view that was taken before has them: what drops them from files comes behind the new schema.

    Raises:
        SchemaMismatchError: names the first that was dropped.
    """
    for column in columns:
        if present.column_by_id(column.id) is None:
            raise SchemaMismatchError(
                "the column was dropped since this reader began; begin again without it", column=column.name
            )


def named(error: SchemaMismatchError, schema: Schema) -> SchemaMismatchError:
    """Return an error about a column as files know it with the name that the reader knows."""
    column = schema.column_by_id(error.facts.get("column_id", -1))
    if column is None:
        return error
    facts = {name: value for name, value in error.facts.items() if name != "column_id"}
    return SchemaMismatchError(error.message, column=column.name, **facts)
