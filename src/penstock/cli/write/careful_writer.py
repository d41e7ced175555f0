"""Blocks of rows into a table, where a row that does not fit is left out and the others are written.

Each block is a call of its own, which writes all of its rows or none. One that is refused is parted, before and
after the row that the error names or in the middle, until the bad row stands alone: what is left out was refused
by the table itself, and nothing else is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from penstock.cli.input.bad_rows import BadRows
from penstock.cli.input.input_block import InputBlock, located
from penstock.cli.write.missing_columns import MissingColumns
from penstock.client.table import Table
from penstock.errors import DeleteDisabledError, InvalidError, SchemaMismatchError, UnsupportedError
from penstock.model.node.calls import Operation, WriteResult

_NO_ROWS_FAULT = (DeleteDisabledError, UnsupportedError)


class CarefulWriter:
    """Writes blocks one after the other; what was taken is settled."""

    def __init__(self, table: Table, operation: Operation, missing: MissingColumns, bad: BadRows) -> None:
        calls: dict[Operation, Callable[[Any, Sequence[str] | None], WriteResult]] = {
            Operation.UPSERT: lambda data, columns: table.upsert(data, columns=columns),
            Operation.DELETE: lambda data, columns: table.delete(data, columns=columns),
            Operation.APPEND: lambda data, _: table.append(data),
        }
        if operation not in calls:
            raise InvalidError("--skip-bad and --rejects go with upsert, append and delete")
        self._call = calls[operation]
        self._missing = missing
        self._bad = bad
        self._written = 0

    @property
    def written(self) -> int:
        """Return how many rows are durable and visible."""
        return self._written

    def __enter__(self) -> CarefulWriter:
        return self

    def __exit__(self, *_: object) -> None:
        """Do nothing: each block was settled."""

    def take(self, block: InputBlock, *, uniform: bool) -> None:
        """Write a block; `uniform` if all rows of its file have the same columns, so that one is wrong for all.

        Raises:
            InvalidError: the file does not fit at all, or a row is one bad row too many.
            PenstockError: the table cannot be written.
        """
        try:
            data, columns = self._missing.settle(block)
        except InvalidError as error:
            if uniform:
                raise block.locate(error) from error
            for at in range(block.rows):
                self._leave_out(block, at, error)
            return
        self._write(replace(block, data=data), columns, uniform=uniform)

    def _write(self, block: InputBlock, columns: Sequence[str] | None, *, uniform: bool) -> None:
        while block.rows:
            try:
                self._written += self._call(block.data, columns).rows
            except _NO_ROWS_FAULT:
                raise
            except InvalidError as error:
                named = error.facts.get("row")
                if uniform and isinstance(error, SchemaMismatchError) and not {"row", "key"} & set(error.facts):
                    raise block.locate(error) from error
                if block.rows == 1:
                    self._leave_out(block, 0, error)
                    return
                middle = block.rows // 2
                # The row that is named comes to stand alone in two steps.
                at = named if isinstance(named, int) and 0 < named < block.rows else 1 if named == 0 else middle
                self._write(block.part(0, at), columns, uniform=uniform)
                block = block.part(at, block.rows)
            else:
                return

    def _leave_out(self, block: InputBlock, at: int, error: InvalidError) -> None:
        told = type(error)(error.message, **error.facts | {"row": at})
        self._bad.add(located(told, block.file, block.unit, block.numbers), block.row(at))
