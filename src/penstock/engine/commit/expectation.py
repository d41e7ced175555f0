"""The expectation of a call: which row each of its keys must have for anything of the call to be written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.codec.keys.keys import sort_keys
from penstock.errors import ConflictError, InvalidError
from penstock.model.schema.schema import Schema
from penstock.tablet.merge.rule import Mask, Request

KEYS_NAMED_MAX: Final = 10_000
"""How many keys an error names; it says how many there are."""

VALUES_NAMED_MAX: Final = 200_000
BYTES_NAMED_MAX: Final = 1 << 20
"""How large the keys that an error names may be, as they are encoded; one is always named."""


@dataclass(frozen=True, slots=True)
class Expectation:
    """The expectation of a call, but for what its requests say of their rows themselves.

    `nowhere` are its rows in partitions that do not exist: none of these keys has a row.
    """

    schema: Schema
    nowhere: tuple[Request, ...] = ()

    def check_nowhere(self) -> None:
        """Refuse a call without any row in a partition that exists, if it expects one.

        Raises:
            ConflictError: it does.
        """
        unmet = Unmet(self)
        if unmet.rows:
            raise unmet.error()


class Unmet:
    """The rows of a call whose keys have other rows than it expects."""

    def __init__(self, expectation: Expectation) -> None:
        self._schema = expectation.schema
        self._found: list[Request] = []
        for request in expectation.nowhere:
            assert request.expected is not None
            self.add(request, request.expected.offsets >= 0)

    @property
    def rows(self) -> int:
        """Return how many there are."""
        return sum(request.rows.num_rows for request in self._found)

    def add(self, request: Request, unmet: Mask) -> None:
        """Add some rows of a request."""
        if unmet.any():
            self._found.append(request.take(np.flatnonzero(unmet)))

    def error(self) -> ConflictError:
        """Return the error that names their keys, in the order of the call."""
        numbers = np.concatenate([request.expected.rows for request in self._found if request.expected is not None])
        names = [str(column.id) for column in self._schema.key_columns]
        rows = pa.concat_batches([request.rows.select(names) for request in self._found])
        keys = pa.concat_arrays([request.keys for request in self._found])
        order = pa.array(np.argsort(numbers))
        return ConflictError(
            "a row is not the one that expect= names, and nothing was written; read the rows of these keys again",
            keys=key_dicts(self._schema, rows.take(order), keys.take(order)),
            conflicts=len(numbers),
        )


def check_distinct(schema: Schema, rows: pa.RecordBatch, keys: pa.BinaryArray) -> None:
    """Refuse rows of which two have one key: no expectation can hold for both.

    Raises:
        InvalidError: it names these keys.
    """
    if len(pc.unique(keys)) == len(keys):
        return
    ordered = sort_keys(keys)
    again = np.flatnonzero(~ordered.starts)
    # A key may come more than twice.
    again = again[np.append(True, np.diff(again) > 1)]
    twice = pa.array(np.sort(ordered.order[again]))
    names = [str(column.id) for column in schema.key_columns]
    raise InvalidError(
        "with expect= each key comes once in a call; make one row of these",
        keys=key_dicts(schema, rows.select(names).take(twice), keys.take(twice)),
    )


def key_dicts(schema: Schema, rows: pa.RecordBatch, keys: pa.BinaryArray) -> list[dict[str, Any]]:
    """Return keys as users write them: the first, as many as an error may carry."""
    names = [column.name for column in schema.key_columns]
    bytes_before = np.cumsum(pc.binary_length(keys).to_numpy(zero_copy_only=False)) > BYTES_NAMED_MAX
    fitting = int(np.argmax(bytes_before)) if bytes_before.any() else len(keys)
    most = max(1, min(fitting, KEYS_NAMED_MAX, VALUES_NAMED_MAX // len(names)))
    columns = [_plain(column.slice(0, most)) for column in rows.columns]
    return [dict(zip(names, key, strict=True)) for key in zip(*columns, strict=True)]


def _plain(column: pa.Array) -> list[Any]:
    try:
        values: list[Any] = column.to_pylist()
    except (ValueError, OverflowError):
        # A date or time beyond those of Python.
        values = column.cast(pa.string()).to_pylist()
    return values
