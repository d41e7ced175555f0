"""What is asked of a node and what it answers: the values of every call, embedded or on the wire.

Tables are named by id here, so that a handle never reaches a table that was dropped and created
again under the same name. Batches carry the user's column names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, Literal, NamedTuple

import pyarrow as pa

from penstock.errors import LimitError
from penstock.model.place.bucket import TableBucket
from penstock.model.place.facts import NO_ID
from penstock.model.schema.agg_mode import AggMode
from penstock.model.words.html_fields import HtmlFields

PAGE_TOKEN_MAGIC: Final = b"PSRT"
"""What the resume token of a page begins with."""


class Operation(StrEnum):
    """What a write does with its rows."""

    UPSERT = "upsert"
    DELETE = "delete"
    APPEND = "append"
    APPLY = "apply"


OperationLike = Operation | Literal["upsert", "delete", "append", "apply"]
"""One of them, or its name."""


class Images(StrEnum):
    """Which rows of an update and delete a log reader wants."""

    FULL = "full"
    AFTER = "after"


ImagesLike = Images | Literal["full", "after"]
"""One of them, or its name."""


class Offsets(NamedTuple):
    """The readable range of a bucket's log, half-open: base is the oldest, end the next to come."""

    base: int
    end: int


@dataclass(frozen=True, slots=True)
class WriteCall:
    """One write, applied whole or not at all.

    Where its rows entered this process every value of `batch` was checked, and nothing checks them again.

    `schema_id` is the schema that the writing handle knows: a full upsert writes those columns.
    `columns` names the target columns of a partial update, or the columns that a delete nulls.
    Where the rows of an upsert or a delete have the column `_offset`, the call is made only if each key's
    live row has that offset, and none if it is null.
    """

    table_id: int
    schema_id: int
    operation: Operation
    batch: pa.RecordBatch
    columns: tuple[str, ...] | None = None
    agg_mode: AggMode = AggMode.ACCUMULATE
    writer_id: bytes = NO_ID
    sequence: int = -1
    owner: bytes | None = None
    attempt: bytes = NO_ID


def check_call_bytes(size: int, most: int) -> None:
    """Refuse a call that is larger than one may be.

    Raises:
        LimitError: it is.
    """
    if size > most:
        raise LimitError(
            "the call is larger than call.max-bytes; send smaller batches, or use writer(), which does",
            bytes=size,
            most=most,
        )


@dataclass(frozen=True, slots=True)
class WriteResult(HtmlFields):
    """What a write did: rows accepted, changes made, rows ignored, and where the changes are."""

    rows: int
    changes: int
    ignored: int
    offsets: Mapping[TableBucket, tuple[int, int]] = field(default_factory=dict)
    done: bool = False
    """Another attempt had ended where this one would write: those rows were dropped."""
    ignored_because: str = ""
    """Why rows are ignored that are: they met the rules of their table, and nothing failed."""

    def __repr__(self) -> str:
        words = [f"rows={self.rows}", f"changes={self.changes}"]
        if self.ignored:
            words.append(f"ignored={self.ignored}" + (f" ({self.ignored_because})" if self.ignored_because else ""))
        if self.done:
            words.append("done=True")
        return f"WriteResult({', '.join(words)})"


@dataclass(frozen=True, slots=True)
class Cut:
    """One offset per bucket, taken at one moment, pinned under `cut_id` until idle for a scanner TTL.

    Of a cut of the present, `births` is the id that the next partition had just before: one that the cut does not
    name and that has that id or a higher one was born after it.
    """

    cut_id: str
    offsets: Mapping[TableBucket, int]
    births: int | None = None
    schema_id: int = 0
    """The table's schema when the cut was taken."""


@dataclass(frozen=True, slots=True)
class OpenScan:
    """Open a scan session over one bucket.

    `as_of` is the snapshot (None: the present); rows of the offsets [`start`, `end`) are read (None: up
    to the snapshot); `columns` the projection (None: all); `filter` a serialised `Filter`; `cut_id` the
    cut that pins the snapshot, or `lease_id` the lease. With `pin` the snapshot of a scan that has more
    than one page is pinned as a cut of its own.

    With `offsets` each row has the column `_offset`, the offset at which it began.

    `scanner_id` is the session's name, which the caller chooses: opening it again gives the first page again, and
    not a second session, so a reply that was lost costs nothing.
    """

    table_id: int
    schema_id: int
    bucket: TableBucket
    columns: tuple[str, ...] | None = None
    filter: bytes | None = None
    limit: int | None = None
    page_bytes: int | None = None
    as_of: int | None = None
    start: int = 0
    cut_id: str | None = None
    lease_id: str | None = None
    end: int | None = None
    pin: bool = False
    scanner_id: str | None = None
    offsets: bool = False


@dataclass(frozen=True, slots=True)
class Page:
    """A page of a scan session. `next_offset` is where the scan goes on after it, `cut_id` what opening it pinned.

    Its rows are one or more batches as they lay in storage: to join them would be to copy them.
    `inner_ends` is where the scan goes on after each batch but the last.
    """

    scanner_id: str | None
    log_offset: int
    batches: tuple[pa.RecordBatch, ...]
    has_more: bool
    next_offset: int
    resume_token: bytes
    cut_id: str | None = None
    inner_ends: tuple[int, ...] = ()
    schema_id: int | None = None
    """Of a first page the table's schema, where it is not the one that the caller knows."""

    @property
    def batch(self) -> pa.RecordBatch:
        """Return the rows as one batch."""
        return self.batches[0] if len(self.batches) == 1 else pa.concat_batches(self.batches)

    @property
    def rows(self) -> int:
        """Return the number of rows."""
        return sum(batch.num_rows for batch in self.batches)

    @property
    def bytes(self) -> int:
        """Return the size of the rows in Arrow's memory."""
        return sum(batch.nbytes for batch in self.batches)


@dataclass(frozen=True, slots=True)
class ScannerInfo(HtmlFields):
    """An open scan session, as `list_scanners` shows it."""

    scanner_id: str
    bucket: TableBucket
    log_offset: int
    principal: str
    opened_ms: int
    idle_ms: int
    pages: int
    rows: int
    bytes: int


@dataclass(frozen=True, slots=True)
class RowPass:
    """Go over the rows of several buckets, from the positions given: (where to go on, the snapshot), half-open.

    `cut_id` or `lease_id` names what keeps the snapshots readable. To count rows, `columns`, `order`, `limit` and
    `offsets` say nothing; for the first `limit` rows `order` names the columns that they are ordered by, and
    `descending` says of each whether it descends.
    """

    table_id: int
    schema_id: int
    positions: Mapping[TableBucket, tuple[int, int | None]]
    filter: bytes | None = None
    cut_id: str | None = None
    lease_id: str | None = None
    columns: tuple[str, ...] | None = None
    order: tuple[str, ...] = ()
    descending: tuple[bool, ...] = ()
    limit: int = 0
    offsets: bool = False


@dataclass(frozen=True, slots=True)
class RowCount:
    """How many rows there are before the positions that are `left`."""

    rows: int
    left: Mapping[TableBucket, tuple[int, int | None]]


@dataclass(frozen=True, slots=True)
class FirstRows:
    """The first rows, in order, of those before the positions that are `left`.

    Behind the columns that were asked for come those that they are ordered by.
    """

    batch: pa.RecordBatch
    left: Mapping[TableBucket, tuple[int, int | None]]


@dataclass(frozen=True, slots=True)
class PullChanges:
    """Ask for changes of several buckets, from the positions given, waiting up to `wait_ms` for the first.

    `positions` maps each bucket to (start, end or None), half-open. `reader_id` names the pin that
    protects the positions for one TTL, and with `births` also what partitions from that id on have, should
    they be dropped before the reader hears of them; under `lease_id` the lease protects the positions.

    With `filter`, a serialised `Filter`, an update that leaves it is a delete, one that enters it an insert, and what
    is outside of it before and after is passed over: then a page without rows says how far nothing was found.
    """

    table_id: int
    schema_id: int
    positions: Mapping[TableBucket, tuple[int, int | None]]
    columns: tuple[str, ...] | None = None
    images: Images = Images.FULL
    max_bytes: int = 4 << 20
    wait_ms: int = 0
    reader_id: str | None = None
    lease_id: str | None = None
    births: int | None = None
    filter: bytes | None = None


@dataclass(frozen=True, slots=True)
class ChangePage:
    """Changes [start, next_offset) of one bucket; `end` is the bucket's end when it was read."""

    bucket: TableBucket
    batch: pa.RecordBatch
    start: int
    next_offset: int
    end: int


@dataclass(frozen=True, slots=True)
class LookupCall:
    """Look up rows by full key (`keys` has the key columns) or by the first key columns (`prefix`).

    With `offsets` each row has the column `_offset`, the offset at which it began, null where there is none. With
    `as_of` the rows are those of that cut, which `cut_id` pins; a bucket that it does not name was not there.
    """

    table_id: int
    schema_id: int
    keys: pa.RecordBatch
    columns: tuple[str, ...] | None = None
    offsets: bool = False
    as_of: Mapping[TableBucket, int] | None = None
    cut_id: str | None = None


@dataclass(frozen=True, slots=True)
class LookupResult:
    """Rows found, and the cut that they reflect; the table's schema, where it is not the one that the caller knows."""

    batch: pa.RecordBatch
    offsets: Mapping[TableBucket, int]
    schema_id: int | None = None


@dataclass(frozen=True, slots=True)
class BucketStats(HtmlFields):
    """The state of one bucket."""

    bucket: TableBucket
    base: int
    visible: int
    rows: int
    live_rows: int
    bytes: int
    files: int
    tail_rows: int
    checkpoint: int
    pins: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class TableStats(HtmlFields):
    """The state of a table: totals, each bucket, and what background work did."""

    rows: int
    live_rows: int
    bytes: int
    buckets: Sequence[BucketStats]
    background: Mapping[str, Any] = field(default_factory=dict)
