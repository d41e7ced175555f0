"""A scan's plan: what is read, checked once, the same for every page."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa

from penstock.engine.scan.resume_token import ResumeToken
from penstock.model.filter.filter import Filter
from penstock.model.place.bucket import BucketId
from penstock.model.place.system_columns import OFFSET_COLUMN
from penstock.model.schema.projection import Projection
from penstock.model.schema.schema import Column, Schema


class ScannedRows(NamedTuple):
    """The columns and the filter of a scan, the same in all scans that ask for the same.

    `stored` has the stored columns of the projection, then those that only the filter needs.
    """

    projection: Projection
    filter: Filter
    stored: pa.Schema

    @classmethod
    def of(cls, schema: Schema, columns: Iterable[str] | None, filter_bytes: bytes) -> ScannedRows:
        """Return what a reader reads who knows that schema.

        Raises:
            InvalidError: a column is unknown, or the filter is none on this schema.
        """
        projection = Projection(schema, columns)
        chosen = Filter.from_bytes(filter_bytes, schema)
        tested = [schema.column(name) for name in chosen.columns]
        return cls(projection, chosen, projection.stored_with(c.stored for c in tested))


@dataclass(frozen=True, slots=True)
class ScanPlan:
    """The plan of a scan of one bucket: what it reads, from where to where."""

    schema_id: int
    bucket: BucketId
    log_offset: int
    projection: Projection
    filter: Filter
    stored: pa.Schema
    page_bytes: int
    end: int | None = None
    database: str | None = None
    offsets: bool = False

    @property
    def columns(self) -> tuple[Column, ...]:
        """Return every column that is read, also for the filter alone."""
        return self.projection.columns + self.filter.bound_columns

    @property
    def shown(self) -> pa.Schema:
        """Return the columns that readers see."""
        return self.projection.shown.append(OFFSET_COLUMN) if self.offsets else self.projection.shown

    @property
    def stop(self) -> int:
        """Return the offset before which the scan ends."""
        return self.log_offset if self.end is None else min(self.end, self.log_offset)

    def token(self, next_offset: int, limit: int | None) -> bytes:
        """Return the resume token of a scan that goes on at an offset, with so many rows left to give."""
        return ResumeToken(
            schema_id=self.schema_id,
            bucket=self.bucket,
            log_offset=self.log_offset,
            next_offset=next_offset,
            limit=limit,
            page_bytes=self.page_bytes,
            columns=self.projection.ids,
            filter=self.filter.to_bytes(),
            end=self.end,
            database=self.database,
            offsets=self.offsets,
        ).encode()
