"""A piece of a file: some rows, and where in the file they stand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from penstock.errors import InvalidError, PenstockError


@dataclass(frozen=True, slots=True)
class InputBlock:
    """Rows of a file, with the line or row number of the first, or of each."""

    data: Any
    rows: int
    file: str
    unit: str
    numbers: Sequence[int]

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
