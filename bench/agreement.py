"""Whether two peers hold the same rows: a count and a checksum over every column, however a peer stores them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from bench.workload import SCHEMA

_FACTORS = (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x27D4EB2F165667C5, 0x85EBCA77C2B2AE63)


class DisagreementError(Exception):
    """A peer does not hold the rows it should: its figure would mean nothing."""


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """How many rows, and the sum of their mixed columns, whatever their order."""

    rows: int
    checksum: int


def fingerprint(rows: pa.Table | pa.RecordBatch) -> Fingerprint:
    """Return the fingerprint of rows of some of our columns."""
    mixed = np.zeros(rows.num_rows, np.uint64)
    for name, factor in zip(SCHEMA.names, _FACTORS, strict=True):
        if name in rows.schema.names:
            # Added within a row before a step that is not linear: values swapped between rows are seen.
            mixed += _whole(rows.column(name), name) * np.uint64(factor)
            mixed ^= mixed >> np.uint64(29)
    return Fingerprint(rows.num_rows, int(mixed.sum(dtype=np.uint64)))


def totals_fingerprint(totals: pa.Table) -> Fingerprint:
    """Return the fingerprint of a table of totals."""
    columns = dict(zip(("id", "items", "at", "amount"), ("key", "total", "top", "times"), strict=True))
    arrays = {ours: totals.column(name).cast(pa.int64()) for ours, name in columns.items()}
    return fingerprint(pa.table({**arrays, "amount": pc.cast(arrays["amount"], pa.float64())}))


def agree(who: str, found: object, expected: object) -> None:
    """Fail loudly unless they are equal.

    Raises:
        DisagreementError: they are not; says who and what.
    """
    if found != expected:
        raise DisagreementError(f"{who} holds {found}, not {expected}")


def _whole(column: pa.ChunkedArray | pa.Array, name: str) -> npt.NDArray[np.uint64]:
    """Return a column as whole numbers: cents, microseconds, the number of a city."""
    if name == "city":
        column = pc.utf8_slice_codeunits(column.cast(pa.string()), 5).cast(pa.int64())
    elif name == "amount":
        column = pc.round(pc.multiply(column, 100.0)).cast(pa.int64())
    elif pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("us", tz=column.type.tz)).cast(pa.int64())
    return np.asarray(column.to_numpy()).astype(np.int64).view(np.uint64)
