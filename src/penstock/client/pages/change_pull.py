"""Pulling changes of several buckets: where each stands, and how their pages look to users."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Final, TypeVar

import pyarrow as pa

from penstock.client.link.link import Link
from penstock.client.link.retry import worth_retrying
from penstock.errors import PenstockError
from penstock.model.node.calls import ChangePage, Images, PullChanges
from penstock.model.place.bucket import TableBucket
from penstock.model.place.system_columns import BUCKET, PARTITION, system_columns
from penstock.model.table.table import TableInfo

T = TypeVar("T")

PAGE_BYTES: Final = 4 << 20


def change_schema(info: TableInfo, columns: Iterable[str] | None) -> pa.Schema:
    """Return the schema of a table's changes: its columns, then what a change adds.

    Every column may be null: a delete may carry its key alone.
    """
    names = info.schema.names if columns is None else columns
    fields = [info.schema.arrow_schema.field(name) for name in names]
    values = [field if field.name in info.primary_key else field.with_nullable(True) for field in fields]
    return pa.schema([*values, *system_columns(partitioned=info.partitioned)])


def constant(value: object, field: pa.Field, rows: int) -> pa.Array:
    """Return a column that holds one value in every row."""
    return pa.repeat(pa.scalar(value, field.type), rows)


class ChangePull:
    """Reads changes of buckets from their positions up to their ends (None: no end). Not thread-safe."""

    def __init__(
        self,
        link: Link,
        info: TableInfo,
        positions: Mapping[TableBucket, tuple[int, int | None]],
        *,
        columns: tuple[str, ...] | None = None,
        filter: bytes | None = None,
        images: Images = Images.FULL,
        lease_id: str | None = None,
    ) -> None:
        self._link = link
        self._info = info
        self._columns = columns
        self._filter = filter
        self._images = images
        self._lease_id = lease_id
        self._positions = dict(positions)
        self._held = False
        self._retry = link.retry
        self._stopped = threading.Event()
        self.births: int | None = None
        """The id from which on partitions are awaited; None: none is."""
        # Names the pin that protects the positions; one for each reader.
        self._reader_id = uuid.uuid4().hex
        self.schema = change_schema(info, columns)

    @property
    def positions(self) -> Mapping[TableBucket, tuple[int, int | None]]:
        """Return next offset and end of each bucket."""
        return self._positions

    @property
    def unfinished(self) -> dict[TableBucket, tuple[int, int | None]]:
        """Return the positions of buckets that have not reached their end."""
        return {bucket: (start, end) for bucket, (start, end) in self._positions.items() if end is None or start < end}

    def stand(self, positions: Mapping[TableBucket, int], births: int | None) -> None:
        """Protect these positions from now on, and what partitions from an id on have; reads nothing.

        Raises:
            PenstockError: as `hold` has it.
        """
        self._positions = {bucket: (at, None) for bucket, at in positions.items()}
        self.births = births
        self.hold()

    def begun(self, stopped: threading.Event, *, hurried: bool = False) -> None:
        """Note that reading has begun: from now on the node is waited for as long as readers do, until `stopped`.

        Who is `hurried` waits as long as for any other call.
        """
        self._retry = (self._link.retry if hurried else self._link.reading_retry).until(stopped)
        self._stopped = stopped

    def ask(self, call: Callable[[], T]) -> T:
        """Return what `call` returns, which is tried again for as long as this reader waits.

        Raises:
            PenstockError: the last error, once that is not worth retrying.
        """
        return self._retry.run(call, when=lambda error: worth_retrying(error) and not self._stopped.is_set())

    def add(self, bucket: TableBucket, start: int, end: int | None) -> None:
        """Read one more bucket."""
        assert bucket not in self._positions, "a bucket is read once"
        self._positions[bucket] = (start, end)

    def remove(self, bucket: TableBucket) -> None:
        """Read a bucket no more."""
        del self._positions[bucket]

    def move(self, page: ChangePage) -> None:
        """Stand after a page, which the caller has now received."""
        self._positions[page.bucket] = (page.next_offset, self._positions[page.bucket][1])

    def pull(self, wait_ms: int, changes: int | None = None) -> list[ChangePage]:
        """Return pages of the buckets that have changes, waiting for the first; none if the wait ran out.

        Positions stay: `move` each page once it was handed on. A bucket gives at most so many `changes`.

        Raises:
            OffsetOutOfRangeError: changes from a position on are no longer kept.
            PenstockError: as the node answered, once that is not worth retrying.
        """
        positions = self.unfinished
        if changes is not None:
            most = {bucket: start + changes for bucket, (start, _) in positions.items()}
            positions = {b: (at, most[b] if end is None else min(end, most[b])) for b, (at, end) in positions.items()}
        return self._pull(positions, wait_ms)

    def hold(self, *, patiently: bool = True) -> None:
        """Protect the positions for another while, without reading; not `patiently`: in one attempt.

        Raises:
            PartitionNotFoundError: one went with its partition meanwhile.
            PenstockError: as `pull` has it.
        """
        still = {bucket: (start, start) for bucket, (start, _) in self.unfinished.items()}
        if patiently:
            self._pull(still, 0)
        else:
            self._held = True
            self._link.node.changes.pull(self._call(still, 0))

    def release(self) -> None:
        """Protect nothing any more; idempotent."""
        if self._link.closed or not self._held:
            return
        self._held = False
        try:
            self._link.node.changes.pull(replace(self._call({}, 0), births=None))
        except PenstockError:
            # What cannot be released now expires by itself.
            return

    def shown(self, page: ChangePage) -> pa.RecordBatch:
        """Return the rows of a page as users see them."""
        rows = page.batch.num_rows
        made = {BUCKET: page.bucket.bucket, PARTITION: page.bucket.partition}
        present = set(page.batch.schema.names)
        arrays = [
            page.batch.column(field.name) if field.name in present else constant(made[field.name], field, rows)
            for field in self.schema
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _pull(self, positions: Mapping[TableBucket, tuple[int, int | None]], wait_ms: int) -> list[ChangePage]:
        if not positions and self.births is None:
            return []
        call = self._call(positions, wait_ms)
        try:
            return self.ask(lambda: self._link.node.changes.pull(call))
        finally:
            # Also if another thread released meanwhile: the node may have pinned again since.
            self._held = True

    def _call(self, positions: Mapping[TableBucket, tuple[int, int | None]], wait_ms: int) -> PullChanges:
        return PullChanges(
            table_id=self._info.table_id,
            schema_id=self._info.schema_id,
            positions=positions,
            columns=self._columns,
            filter=self._filter,
            images=self._images,
            max_bytes=PAGE_BYTES,
            wait_ms=wait_ms,
            reader_id=self._reader_id,
            lease_id=self._lease_id,
            births=self.births,
        )
