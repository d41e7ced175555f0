"""Blocks of rows into a table, and an account of what was written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any

from penstock.cli.input.input_block import InputBlock
from penstock.cli.write.missing_columns import MissingColumns
from penstock.client.table import Table
from penstock.errors import InvalidError
from penstock.model.node.calls import Operation


class RowWriter:
    """Writes blocks through a pipelined writer. A context manager: leaving it, what was taken is settled."""

    def __init__(self, table: Table, operation: Operation, missing: MissingColumns) -> None:
        self._table = table
        self._missing = missing
        self._writer = table.writer()
        self._applied = 0
        takes: dict[Operation, Callable[[Any, Sequence[str] | None], None]] = {
            Operation.UPSERT: self._writer.upsert,
            Operation.DELETE: self._writer.delete,
            Operation.APPEND: lambda data, _: self._writer.append(data),
            Operation.APPLY: self._apply,
        }
        self._take = takes[operation]

    @property
    def written(self) -> int:
        """Return how many rows are durable and visible."""
        return self._applied + self._writer.acknowledged_rows

    def take(self, block: InputBlock, *, uniform: bool = True) -> None:
        """Write a block, soon; a bad row ends it, whether its file is `uniform` or not.

        Raises:
            InvalidError: the block does not fit; the message names the place, and all before it is written.
            PenstockError: an earlier block failed.
        """
        try:
            self._take(*self._missing.settle(block))
        except InvalidError as error:
            # Raises instead if it was an earlier block that failed: its rows are not those of this one.
            self._writer.flush()
            raise block.locate(error) from error

    def _apply(self, data: Any, columns: Sequence[str] | None) -> None:
        # A changelog's rows stand in order, and a writer has no door for them.
        self._applied += self._table.apply_changes(data, columns=columns).rows

    def __enter__(self) -> RowWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._writer.__exit__(kind, error, trace)
