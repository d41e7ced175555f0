"""Batch reads: a task for each split, all tasks of an execution at one cut."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from penstock.client.cut.cut_pin import CutPin
from penstock.client.link.link import Link
from penstock.client.pages.bucket_scan import BucketScan
from penstock.client.pages.page_ahead import PageAhead
from penstock.client.scan.log_scan import LogScan
from penstock.client.scan.request import ScanRequest, ScanSource
from penstock.errors import OffsetOutOfRangeError
from penstock.model.node.calls import OpenScan
from penstock.model.place.bucket import TableBucket
from penstock.spark.reading.read_cut import as_of_offsets, check_there, execution_cut
from penstock.spark.reading.read_request import ReadRequest
from penstock.spark.reading.splits import LaterSplit, Split, later_splits, plan_splits
from penstock.spark.session.links import link_for, planning_link
from penstock.spark.session.spark_types import cast_batch


class BatchReader(DataSourceReader):
    """Plans on the driver, reads in tasks. Pickled in between."""

    def __init__(self, request: ReadRequest) -> None:
        self._request = request
        self._plan_id = uuid.uuid4().hex

    def partitions(self) -> list[InputPartition]:
        """Share the table out among tasks."""
        request = self._request
        link = planning_link(request.options)
        split_rows = request.options.count("split_rows")
        assert split_rows is not None, "it has a default"
        if request.options.is_set("as_of"):
            check_there(link, request.info, as_of_offsets(link, request.info, request.options.get("as_of") or ""))
        stats = link.retry.run(lambda: link.node.tables.stats(request.info.table_id))
        splits = plan_splits(stats.buckets, split_rows, keyed=request.info.keyed)
        if request.info.partitioned:
            known = {bucket.bucket.partition or "" for bucket in stats.buckets}
            splits += later_splits(request.info.buckets, known)
        return splits

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one split."""
        assert isinstance(partition, Split | LaterSplit), "a plan is of this module's splits"
        request = self._request
        link = link_for(request.options)
        cut = self._cut(link)
        for bucket in partition.buckets(cut):
            end = cut[bucket] if partition.end is None else min(partition.end, cut[bucket])
            if partition.start < end:
                for batch in scan_range(link, request, bucket, x=cut[bucket], start=partition.start, end=end):
                    yield cast_batch(batch, request.target)

    def _cut(self, link: Link) -> Mapping[TableBucket, int]:
        as_of = self._request.options.get("as_of")
        if as_of is not None:
            return as_of_offsets(link, self._request.info, as_of)
        return execution_cut(link, self._request.info, self._plan_id)


def scan_range(
    link: Link, request: ReadRequest, bucket: TableBucket, *, x: int, start: int, end: int
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a bucket that are visible at X, of the offsets [start, end); of a log table its changes.

    Raises:
        OffsetOutOfRangeError: X can no longer be read.
        PartitionNotFoundError: the partition was dropped.
    """
    info = request.info
    if not info.keyed:
        yield from _log_rows(link, request, bucket, x=x, start=start, end=end)
        return
    call = OpenScan(
        table_id=info.table_id,
        schema_id=info.schema_id,
        bucket=bucket,
        columns=request.columns,
        filter=request.filter,
        as_of=x,
        start=start,
        end=end,
    )
    pin = CutPin.take(link, info.table_id, as_of={bucket: x}, buckets=(bucket,))
    pages = PageAhead(BucketScan(link, call, pin).pages(), name=f"penstock-read-{info.path}")
    try:
        for portions in pages:
            for batch, _ in portions:
                if batch.num_rows:
                    yield batch
    finally:
        pages.close()
        pin.release()


def _log_rows(
    link: Link, request: ReadRequest, bucket: TableBucket, *, x: int, start: int, end: int
) -> Iterator[pa.RecordBatch]:
    info = request.info
    base = link.retry.run(lambda: link.node.changes.log_state(info.table_id)).first_kept(bucket, x)
    if x < base:
        raise OffsetOutOfRangeError(
            "the cut is below the base: what it shows is no longer kept", bucket=bucket, offset=x, base=base
        )
    first = max(start, base)
    if first >= end:
        return
    scan = ScanRequest(ScanSource.LOG, columns=request.columns, filter=request.filter)
    pages = PageAhead(
        LogScan(link, info, scan, bucket, start=first, end=end).pages(), name=f"penstock-read-{info.path}"
    )
    try:
        for portions in pages:
            for batch, _ in portions:
                if batch.num_rows:
                    yield batch
    finally:
        pages.close()
