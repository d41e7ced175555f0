"""Columns outside the key that are declared not null, whatever the rule makes of a write.

A whole row is checked before it gets here. What only the rule can know is whether a write of some
columns makes a new row, and then leaves out one that is required, or clears it.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from penstock.errors import SchemaMismatchError
from penstock.model.schema.schema import Schema
from penstock.tablet.merge.key_groups import KeyGroups
from penstock.tablet.merge.rule import Fetch, Merged, MergeRule, Request


class RequiredColumns:
    """A rule whose rows have a value in every column that is declared not null."""

    def __init__(self, rule: MergeRule, schema: Schema) -> None:
        self._rule = rule
        self._required = required_columns(schema)
        self._keys = {str(column.id): column.name for column in schema.key_columns}

    def merge(self, request: Request, groups: KeyGroups, fetch: Fetch, schema: pa.Schema) -> Merged:
        """Return the rows to store.

        Raises:
            SchemaMismatchError: one would lack a value that is required; names column and key.
        """
        merged = self._rule.merge(request, groups, fetch, schema)
        for name, column in self._required.items():
            values = merged.images.column(name)
            if not values.null_count:
                continue
            lacking = values.is_null().to_numpy(zero_copy_only=False)
            if merged.accept is not None:
                lacking = lacking & merged.accept
            if merged.deletes is not None:
                lacking = lacking & ~merged.deletes
            if lacking.any():
                row = int(np.argmax(lacking))
                key = {called: merged.images.column(place)[row].as_py() for place, called in self._keys.items()}
                raise SchemaMismatchError(
                    "the column is declared not null, and this would leave a row without a value there; name it, too, "
                    "or write whole rows",
                    column=column,
                    key=key,
                )
        return merged


def required_columns(schema: Schema) -> dict[str, str]:
    """Return the ids and names of the columns outside the key that are never null."""
    return {str(column.id): column.name for column in schema.value_columns if not column.nullable}
