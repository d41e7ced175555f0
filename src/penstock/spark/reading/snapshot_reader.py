"""Batch reads of the newest snapshots, under a lease: through the server, or straight from its files.

The lease is taken when the read is planned, renewed by every task, and left to expire: no process of
ours lives as long as the DataFrame.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from penstock.client.cut.cut_pin import LeasePin
from penstock.client.link.link import Link
from penstock.client.pages.bucket_scan import BucketScan
from penstock.client.pages.page_ahead import PageAhead
from penstock.errors import LeaseNotFoundError, SnapshotNotFoundError
from penstock.model.node.calls import OpenScan
from penstock.model.node.lease import AcquireLease, Snapshot
from penstock.spark.reading.read_request import ReadRequest
from penstock.spark.session.links import link_for, planning_link
from penstock.spark.session.spark_types import cast_batch

LEASE_MS: Final = 3_600_000


class SnapshotSplit(InputPartition):
    """One task's part: the snapshot of one bucket, and the lease that holds it."""

    def __init__(self, snapshot: Snapshot, lease_id: str) -> None:
        super().__init__((snapshot, lease_id))
        self.snapshot = snapshot
        self.lease_id = lease_id


class SnapshotReader(DataSourceReader):
    """Plans on the driver, reads in tasks. Pickled in between."""

    def __init__(self, request: ReadRequest) -> None:
        self._request = request

    def partitions(self) -> list[InputPartition]:
        """Lease the newest snapshot of every bucket; return a task for each.

        Raises:
            SnapshotNotFoundError: a bucket has none that can be read.
            UnsupportedError: a log table has no snapshots.
        """
        link = planning_link(self._request.options)
        call = AcquireLease(f"spark-{uuid.uuid4().hex}", LEASE_MS, latest=(self._request.info.table_id,))
        lease = link.retry.run(lambda: link.node.leases.acquire(call))
        for bucket, reason in lease.unavailable.items():
            raise SnapshotNotFoundError("a bucket has no snapshot to read", bucket=bucket, reason=reason)
        return [SnapshotSplit(snapshot, lease.lease_id) for snapshot in lease.snapshots.values()]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one snapshot.

        Raises:
            LeaseNotFoundError: the plan was not used for an hour.
        """
        assert isinstance(partition, SnapshotSplit), "a plan is of these splits"
        request = self._request
        link = link_for(request.options)
        try:
            link.retry.run(lambda: link.node.leases.renew(partition.lease_id, LEASE_MS))
        except LeaseNotFoundError as error:
            raise LeaseNotFoundError(
                "the read was planned more than an hour ago, and its lease has expired; load the table again",
                table=request.info.path,
            ) from error
        storage = request.options.get("storage")
        batches = (
            _from_server(link, request, partition) if storage is None else _from_files(request, partition, storage)
        )
        for batch in batches:
            if batch.num_rows:
                yield cast_batch(batch, request.target)


def _from_server(link: Link, request: ReadRequest, split: SnapshotSplit) -> Iterator[pa.RecordBatch]:
    info, snapshot = request.info, split.snapshot
    call = OpenScan(
        table_id=info.table_id,
        schema_id=info.schema_id,
        bucket=snapshot.bucket,
        columns=request.columns,
        filter=request.filter,
        as_of=snapshot.offset,
        lease_id=split.lease_id,
    )
    pin = LeasePin(link, info.table_id, split.lease_id, {snapshot.bucket: snapshot.offset})
    scan = BucketScan(link, call, pin)
    pages = PageAhead(scan.pages(), name=f"penstock-read-{info.path}")
    try:
        for portions in pages:
            for batch, _ in portions:
                yield batch
    finally:
        pages.close()


def _from_files(request: ReadRequest, split: SnapshotSplit, storage: str) -> Iterator[pa.RecordBatch]:
    # Here, not above: only a task that reads files needs what reads them.
    from penstock.tablet.snapshots.stored_snapshot import StoredSnapshot  # noqa: PLC0415

    with StoredSnapshot(storage, split.snapshot.path) as stored:
        yield from stored.read(request.columns, request.filter, request.info.schema)
