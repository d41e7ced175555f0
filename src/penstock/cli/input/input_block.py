"""A piece of a file: some rows, and where in the file they stand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from penstock.errors import InvalidError, PenstockError


@dataclass(frozen=True, slots=True)
class InputBlock:
    """Rows of a file, with the line or row number of the first, or of each."""

    data: Any
    rows: int
    file: str
    unit: str
    numbers: Sequence[int]

    @property
    def columns(self) -> dict[str, Any]:
        """Return the values of each column, as arrays or lists."""
        data = self.data
        return dict(zip(data.schema.names, data.columns, strict=True)) if isinstance(data, pa.RecordBatch) else data

    def part(self, start: int, end: int) -> InputBlock:
        """Return some of the rows."""
        columns = {name: values[start:end] for name, values in self.columns.items()}
        return InputBlock(columns, end - start, self.file, self.unit, self.numbers[start:end])

    def row(self, at: int) -> dict[str, Any]:
        """Return the values of a row, as Python has them."""
        values = {name: column[at] for name, column in self.columns.items()}
        return {name: value.as_py() if isinstance(value, pa.Scalar) else value for name, value in values.items()}

    def locate(self, error: InvalidError) -> InvalidError:
        """Return the error with the file, and the place in it if a row is named."""
        return located(error, self.file, self.unit, self.numbers)


def located(error: PenstockError, file: str, unit: str, numbers: Sequence[int]) -> InvalidError:
    """Return an error about a row of a block as one about a place in a file."""
    facts = dict(error.facts)
    row = facts.pop("row", None)
    where = {unit: numbers[row]} if isinstance(row, int) and 0 <= row < len(numbers) else {}
    kind = type(error)
    assert issubclass(kind, InvalidError), "only wrong data has a place in a file"
    return kind(error.message, file=file, **where, **facts)
