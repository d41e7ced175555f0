"""What a scan reads, as values that were checked against the table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc

from penstock.client.pages.change_pull import change_schema
from penstock.errors import InvalidError
from penstock.model.filter.filter import Filter
from penstock.model.place.bucket import TableBucket
from penstock.model.place.change import OFFSET_MAX
from penstock.model.place.system_columns import OFFSET_COLUMN
from penstock.model.schema.schema import Schema
from penstock.model.table.table import TableInfo
from penstock.model.words.names import name_list


class ScanSource(StrEnum):
    """Where a scan's rows come from."""

    LIVE_KV = "live"
    SNAPSHOT = "snapshot"
    LOG = "log"

    @classmethod
    def parse(cls, word: str | ScanSource) -> ScanSource:
        """Return the source of that name.

        Raises:
            InvalidError: there is none; the message lists them.
        """
        if word not in list(cls):
            raise InvalidError(f"no such scan source; choose one of {', '.join(cls)}", source=word)
        return cls(word)


ScanSourceLike = ScanSource | Literal["live", "snapshot", "log"]
"""One of them, or its name."""


@dataclass(frozen=True, slots=True)
class ScanRequest:
    """What a scan reads.

    `filter` is serialised; `as_of` None means the moment `timestamp_ms`; without one
    the present, or what the lease holds. With `order_by` only the
    first `limit` rows in that order are read; a scan that `counts` reads none.
    """

    source: ScanSource
    columns: tuple[str, ...] | None = None
    filter: bytes | None = None
    limit: int | None = None
    buckets: tuple[TableBucket, ...] | None = None
    as_of: Mapping[TableBucket, int] | None = None
    lease_id: str | None = None
    offsets: bool = False
    timestamp_ms: int | None = None
    order_by: str | None = None
    counts: bool = False

    @classmethod
    def default(cls, info: TableInfo) -> ScanRequest:
        """Return the request for everything: the live rows, or all of a log table."""
        return cls(ScanSource.LIVE_KV if info.keyed else ScanSource.LOG)

    def schema(self, info: TableInfo) -> pa.Schema:
        """Return the schema of the rows that the scan gives; changes of a keyed table say what they are."""
        if self.source is ScanSource.LOG and info.keyed:
            return change_schema(info, self.columns)
        full = info.schema.arrow_schema
        chosen = full if self.columns is None else pa.schema([full.field(name) for name in self.columns])
        return chosen.append(OFFSET_COLUMN) if self.offsets else chosen


def project(columns: Iterable[str] | None, schema: Schema) -> tuple[str, ...] | None:
    """Return the columns to read, in the order asked; None for all.

    Raises:
        InvalidError: not a list of names; a column is unknown or named twice, or there is none.
    """
    if columns is None:
        return None
    names = tuple(name_list(columns))
    if not names:
        raise InvalidError("name at least one column")
    for position, name in enumerate(names):
        schema.column(name)
        if name in names[:position]:
            raise InvalidError("a column is named twice", column=name)
    return names


def check_limit(limit: int | None) -> int | None:
    """Return the limit; one beyond all offsets is as good as the last of them.

    Raises:
        InvalidError: it is negative or no number.
    """
    if limit is None:
        return None
    if not isinstance(limit, int) or isinstance(limit, bool) or limit < 0:
        raise InvalidError("a limit is a number of rows", limit=repr(limit))
    return min(limit, OFFSET_MAX)


def compile_filter(filter: str | pc.Expression | None, schema: Schema) -> bytes | None:
    """Return a filter in its serialised form.

    Raises:
        InvalidError: it is not understood, or names an unknown column.
    """
    return None if filter is None else Filter(filter, schema).to_bytes()
