"""Batch reads of the log: the changes from one cut to another, a task for each bucket."""

from __future__ import annotations

import uuid
from collections.abc import Generator, Iterator, Mapping
from datetime import UTC, datetime

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from penstock.client.changes.range import (
    EARLIEST,
    LATEST,
    StartLike,
    named_offsets,
    require_whole_partitions,
    resolve_starts,
)
from penstock.client.link.link import Link
from penstock.client.pages.change_pull import ChangePull
from penstock.client.pages.page_ahead import PageAhead
from penstock.errors import InternalError, InvalidError
from penstock.model.node.calls import Images, Offsets
from penstock.model.node.log_state import LogState, dropped_unread
from penstock.model.place.bucket import TableBucket
from penstock.spark.reading.read_cut import as_of_offsets, execution_cut
from penstock.spark.reading.read_request import ReadRequest
from penstock.spark.reading.splits import LaterSplit, Split, later_splits
from penstock.spark.session.links import link_for, planning_link
from penstock.spark.session.options import Options
from penstock.spark.session.spark_types import cast_batch


class ChangeReader(DataSourceReader):
    """Plans on the driver, reads in tasks. Pickled in between."""

    def __init__(self, request: ReadRequest) -> None:
        self._request = request
        self._plan_id = uuid.uuid4().hex
        self._images = images_of(request.options)
        self._start = parse_start(request.options.get("start") or "")

    def partitions(self) -> list[InputPartition]:
        """Return a split for each bucket; changes of one bucket stay in order."""
        request = self._request
        link = planning_link(request.options)
        buckets = link.retry.run(lambda: link.node.catalog.buckets(request.info.table_id))
        if request.options.is_set("end"):
            require_whole_partitions(as_of_offsets(link, request.info, request.options.get("end") or ""), buckets)
        splits: list[InputPartition] = [Split(bucket) for bucket in buckets]
        if request.info.partitioned:
            splits += later_splits(request.info.buckets, {bucket.partition or "" for bucket in buckets})
        return splits

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the changes of one split."""
        assert isinstance(partition, Split | LaterSplit), "a plan is of these splits"
        request, end = self._request, self._request.options.get("end")
        link = link_for(request.options)
        ends = (
            execution_cut(link, request.info, self._plan_id) if end is None else as_of_offsets(link, request.info, end)
        )
        named = named_offsets(link, request.info, self._start)
        # What was read up to the end already need not be there any more.
        mine = {b: ends[b] for b in partition.buckets(ends) if named.get(b, b.first_offset(ends[b])) < ends[b]}
        state = readable_at(link.retry.run(lambda: link.node.changes.log_state(request.info.table_id)), mine)
        for bucket, start in resolve_starts(link, request.info, self._start, state, only=mine).items():
            yield from read_changes(link, request, bucket, start=start, end=ends[bucket], images=self._images)


def readable_at(state: LogState, cut: Mapping[TableBucket, int]) -> LogState:
    """Return the logs of a cut's buckets, also of those dropped since that can still be read.

    Raises:
        PartitionNotFoundError: one went with its partition.
    """
    bases = {bucket: state.base(bucket, x) for bucket, x in cut.items()}
    for bucket, base in bases.items():
        if base is None and cut[bucket] > bucket.first_offset(cut[bucket]):
            raise dropped_unread(bucket, bucket.first_offset(cut[bucket]), state.gone_with(bucket, cut[bucket]))
    there = {bucket: Offsets(base, cut[bucket]) for bucket, base in bases.items() if base is not None}
    firsts = {(bucket.partition, bucket.first_offset(x)) for bucket, x in cut.items()}
    gone = tuple(partition for partition in state.gone if (partition.name, partition.first_offset) not in firsts)
    return LogState(there, state.births, gone)


def read_changes(
    link: Link, request: ReadRequest, bucket: TableBucket, *, start: int, end: int, images: Images
) -> Iterator[pa.RecordBatch]:
    """Yield the changes [start, end) of a bucket that pass the filter, as Spark wants them.

    Raises:
        OffsetOutOfRangeError: they are no longer kept, or not yet written.
        PartitionNotFoundError: the partition was dropped.
    """
    if start >= end:
        return
    pages = PageAhead(
        _pages(link, request, bucket, start=start, end=end, images=images), name=f"penstock-read-{request.info.path}"
    )
    try:
        for batch in pages:
            if batch.num_rows:
                yield cast_batch(batch, request.target)
    finally:
        pages.close()


def images_of(options: Options) -> Images:
    """Return which rows of a change are wanted.

    Raises:
        InvalidError: the option names none.
    """
    return Images(options.choice("images", list(Images)))


def parse_start(text: str) -> StartLike:
    """Return where changes begin: earliest, latest, a cut's JSON, or a timestamp, which without a zone is UTC.

    Raises:
        InvalidError: the text is none of these.
    """
    word = text.strip()
    if word.lower() in (EARLIEST.value, LATEST.value):
        return EARLIEST if word.lower() == EARLIEST.value else LATEST
    if word.startswith("{"):
        return word
    try:
        moment = datetime.fromisoformat(word)
    except ValueError as error:
        raise InvalidError(
            "a start is earliest, latest, the JSON of pks.cut, or a timestamp such as 2026-01-31T12:00:00Z", start=text
        ) from error
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def _pages(
    link: Link, request: ReadRequest, bucket: TableBucket, *, start: int, end: int, images: Images
) -> Generator[pa.RecordBatch, None, None]:
    wanted = {bucket: (start, end)}
    pull = ChangePull(link, request.info, wanted, columns=tuple(request.columns), filter=request.filter, images=images)
    try:
        while pull.unfinished:
            pages = pull.pull(wait_ms=0)
            if not pages:
                raise InternalError("the node gave no changes below the end that it named", bucket=bucket)
            for page in pages:
                pull.move(page)
                yield pull.shown(page)
    finally:
        pull.release()
