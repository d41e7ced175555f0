"""What `put` does with a column that a row, or a whole file, lacks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Any, Final

import pyarrow as pa

from penstock.cli.input.input_block import InputBlock
from penstock.cli.input.row_shapes import Rows, same_shapes
from penstock.errors import InvalidError, SchemaMismatchError
from penstock.model.node.calls import Operation
from penstock.model.place.change import ChangeType
from penstock.model.place.system_columns import CHANGE_TYPE
from penstock.model.table.table import TableInfo

_BACK: Final = (ChangeType.UPDATE_BEFORE.value, ChangeType.DELETE.value)


class Missing(StrEnum):
    """What a missing column means."""

    REFUSE = "refuse"
    KEEP = "keep"
    NULL = "null"


class MissingColumns:
    """Decides for each block of rows which columns are written, and which of them are null."""

    def __init__(self, info: TableInfo, operation: Operation, missing: Missing, columns: Sequence[str] | None) -> None:
        """Raise InvalidError if there is nothing to keep: a log table's rows are all new."""
        if missing is Missing.KEEP and operation not in (Operation.UPSERT, Operation.APPLY):
            raise InvalidError("--missing keep goes with upsert and apply: other rows keep nothing; use refuse or null")
        if missing is Missing.KEEP and not info.keyed:
            raise InvalidError("--missing keep needs a table with a primary key; use refuse or null")
        self._info = info
        self._operation = operation
        self._missing = missing
        self._columns = columns
        self._aggregates = info.folds
        wanted = set(info.schema.names if columns is None else columns).union(info.primary_key)
        self._wanted = [name for name in info.schema.names if name in wanted]

    def arrange(self, rows: Rows, numbers: Sequence[int]) -> Iterator[tuple[Rows, Sequence[int]]]:
        """Yield rows of JSON in pieces that have the same names."""
        if self._operation is Operation.APPLY and self._missing is Missing.REFUSE and not self._aggregates:
            # A delete, or the image before an update, needs no more than its key.
            rows = [self._blank | row if row.get(CHANGE_TYPE) in _BACK else row for row in rows]
        yield from same_shapes(rows, numbers, self._info.primary_key if self._operation is Operation.UPSERT else ())

    def settle(self, block: InputBlock) -> tuple[Any, Sequence[str] | None]:
        """Return the data to write, and the columns to name (None: all).

        Raises:
            SchemaMismatchError: a column is missing and may not be; names the block's first row.
        """
        names = list(block.data.schema.names) if isinstance(block.data, pa.RecordBatch) else list(block.data)
        lacking = [name for name in self._wanted if name not in names]
        if self._operation is Operation.DELETE or not lacking:
            return block.data, self._columns
        if self._missing is Missing.NULL:
            return self._with_nulls(block, lacking), self._columns
        if self._columns is None and self._info.added_columns.issuperset(lacking):
            return block.data, None
        if self._missing is Missing.KEEP:
            return block.data, [name for name in self._wanted if name in names]
        required = self._info.primary_key if self._aggregates and self._columns is None else self._wanted
        optional = self._info.added_columns if self._columns is None else ()
        absent = next((name for name in lacking if name in required and name not in optional), None)
        if absent is not None:
            raise SchemaMismatchError(self._advice(absent), row=0, column=absent)
        return block.data, self._columns

    @property
    def _blank(self) -> dict[str, None]:
        return dict.fromkeys(name for name in self._wanted if name not in self._info.primary_key)

    def _with_nulls(self, block: InputBlock, lacking: Sequence[str]) -> Any:
        absent_key = next((name for name in lacking if name in self._info.primary_key), None)
        if absent_key is not None:
            raise SchemaMismatchError(self._advice(absent_key), row=0, column=absent_key)
        data = block.data
        columns = dict(zip(data.schema.names, data.columns, strict=True)) if isinstance(data, pa.RecordBatch) else data
        return dict(columns) | {name: [None] * block.rows for name in lacking}

    def _advice(self, column: str) -> str:
        if column in self._info.primary_key:
            return "a row lacks a key column; add it"
        keep = "--missing keep (what is stored stays), " if self._info.keyed else ""
        columns = ", or --columns" if self._operation is Operation.UPSERT else ""
        return f"a row lacks a column; add it, or say {keep}--missing null{columns}"
