"""The write calls of one table handle, from whatever data the user has."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from penstock.client.ingest.expected_offsets import with_expected
from penstock.client.ingest.ingest import (
    check_columns,
    ingest_changes,
    ingest_keys,
    ingest_partial,
    ingest_present,
    ingest_rows,
)
from penstock.errors import InvalidError, UnsupportedError
from penstock.model.node.calls import Operation, WriteCall
from penstock.model.place.facts import NO_ID
from penstock.model.schema.agg_mode import AggMode
from penstock.model.table.table import TableInfo


def listed(columns: Iterable[str] | None) -> Iterable[str] | None:
    """Return column names that can be read more than once."""
    return list(columns) if isinstance(columns, Iterator) else columns


def is_kept(data: object) -> bool:
    """Tell whether data can be read again, and does not flow past."""
    return isinstance(data, list | tuple | dict | pa.RecordBatch | pa.Table | pa.Array | pa.ChunkedArray) or (
        type(data).__module__.partition(".")[0] in {"pandas", "polars"}
    )


class WriteRequests:
    """Makes write calls against the schema that the handle knew when it was opened.

    The calls have no writer identity yet: the sender gives it one.
    """

    def __init__(self, info: TableInfo) -> None:
        self._info = info

    def upsert(
        self,
        data: object,
        columns: Iterable[str] | None = None,
        agg_mode: str = "accumulate",
        owner: bytes | None = None,
        attempt: bytes = NO_ID,
        *,
        expect: object = None,
    ) -> WriteCall:
        """Return the call that upserts `data`, where `expect` says which rows must be there.

        Raises:
            InvalidError: data or `agg_mode` is not understood.
            SchemaMismatchError: the data does not fit the table.
            UnsupportedError: the table has no primary key.
        """
        self.require_key("upsert", "append")
        mode = AggMode.parse(agg_mode)
        schema = self._info.schema
        targets: tuple[str, ...] | None = None
        if columns is not None:
            batch, targets = ingest_partial(data, schema, columns)
        elif self._aggregates:
            batch, targets = ingest_present(data, schema)
        else:
            batch = ingest_rows(data, schema, self._info.added_columns)
        batch = self._expecting(batch, expect, owner)
        return self._call(Operation.UPSERT, batch, columns=targets, agg_mode=mode, owner=owner, attempt=attempt)

    def delete(
        self,
        keys: object,
        columns: Iterable[str] | None = None,
        owner: bytes | None = None,
        attempt: bytes = NO_ID,
        *,
        expect: object = None,
    ) -> WriteCall:
        """Return the call that deletes the rows of `keys`, or nulls the columns named in them.

        Raises:
            InvalidError: the keys are not understood, or `columns` names a key column.
            SchemaMismatchError: the keys do not fit the table.
            UnsupportedError: the table has no primary key.
        """
        self.require_key("delete")
        schema = self._info.schema
        targets: tuple[str, ...] | None = None
        if columns is not None:
            named = check_columns(columns, schema)
            if not named or not named.isdisjoint(schema.primary_key):
                raise InvalidError(
                    "delete(columns=) names columns outside the key; leave columns out to delete rows",
                    columns=sorted(named),
                )
            targets = tuple(name for name in schema.names if name in named)
        batch = self._expecting(ingest_keys(keys, schema), expect, owner)
        return self._call(Operation.DELETE, batch, columns=targets, owner=owner, attempt=attempt)

    def append(self, data: object, owner: bytes | None = None, attempt: bytes = NO_ID) -> WriteCall:
        """Return the call that appends `data` to a log table.

        Raises:
            InvalidError: the data is not understood.
            SchemaMismatchError: the data does not fit the table.
            UnsupportedError: the table has a primary key.
        """
        if self._info.schema.keyed:
            raise UnsupportedError("only log tables take appends; use upsert", table=self._info.path)
        batch = ingest_rows(data, self._info.schema, self._info.added_columns)
        return self._call(Operation.APPEND, batch, owner=owner, attempt=attempt)

    def apply_changes(
        self,
        changes: object,
        owner: bytes | None = None,
        attempt: bytes = NO_ID,
        columns: Iterable[str] | None = None,
    ) -> WriteCall:
        """Return the call that applies rows with `_change_type`.

        Raises:
            InvalidError: the data or a change type is not understood.
            SchemaMismatchError: the data does not fit the table.
        """
        batch, targets = ingest_changes(
            changes, self._info.schema, columns, some_absent=self._aggregates, optional=self._info.added_columns
        )
        return self._call(Operation.APPLY, batch, columns=targets, owner=owner, attempt=attempt)

    def require_key(self, verb: str, instead: str | None = None) -> None:
        """Refuse what only tables with a primary key offer.

        Raises:
            UnsupportedError: the table has none.
        """
        if not self._info.schema.keyed:
            hint = "" if instead is None else f"; use {instead}"
            raise UnsupportedError(f"{verb} needs a table with a primary key{hint}", table=self._info.path)

    def _expecting(self, batch: pa.RecordBatch, expect: object, owner: bytes | None) -> pa.RecordBatch:
        if expect is None:
            return batch
        if owner is not None:
            raise UnsupportedError("expect= does not go with owner=; write without the owner", table=self._info.path)
        return with_expected(batch, expect)

    @property
    def _aggregates(self) -> bool:
        return self._info.folds

    def _call(
        self,
        operation: Operation,
        batch: pa.RecordBatch,
        *,
        columns: tuple[str, ...] | None = None,
        agg_mode: AggMode = AggMode.ACCUMULATE,
        owner: bytes | None,
        attempt: bytes,
    ) -> WriteCall:
        if attempt != NO_ID and owner is None:
            raise InvalidError("an attempt belongs to an owner's epoch; pass owner=", table=self._info.path)
        return WriteCall(
            table_id=self._info.table_id,
            schema_id=self._info.schema_id,
            operation=operation,
            batch=batch,
            columns=columns,
            agg_mode=agg_mode,
            owner=owner,
            attempt=attempt,
        )
