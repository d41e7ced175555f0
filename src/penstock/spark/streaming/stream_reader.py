"""Streaming reads: the rows at a cut, then every change after exactly that cut.

Every answer to Spark is a pure function of the offsets it hands in and of what the server has: the
process that gives them may be replaced at any moment. A bucket goes to one task of a micro-batch, so
changes of a key stay in order.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from penstock.client.pages.change_pull import constant
from penstock.errors import InvalidError, PenstockError
from penstock.model.place.bucket import TableBucket
from penstock.model.place.change import OFFSET, ChangeType
from penstock.model.place.system_columns import BUCKET, CHANGE_TYPE, PARTITION, TIMESTAMP, system_columns
from penstock.spark.reading.batch_reader import scan_range
from penstock.spark.reading.change_reader import images_of, read_changes
from penstock.spark.reading.read_request import ReadRequest
from penstock.spark.session.links import link_for
from penstock.spark.session.options import Options
from penstock.spark.session.spark_types import cast_batch
from penstock.spark.streaming.stream_limit import StreamLimit
from penstock.spark.streaming.stream_offset import Phase, StreamOffset
from penstock.spark.streaming.stream_plan import StreamPlan

_log = logging.getLogger("penstock.spark")


class StreamSplit(InputPartition):
    """One task's part of a micro-batch: rows at X of the offsets [start, end), or without X the changes."""

    def __init__(self, bucket: TableBucket, start: int, end: int, x: int | None = None, cut_us: int = 0) -> None:
        super().__init__((bucket, start, end, x, cut_us))
        self.bucket, self.start, self.end, self.x, self.cut_us = bucket, start, end, x, cut_us


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Answers Spark's questions on the driver, reads in tasks. Pickled in between."""

    def __init__(self, options: Options, schema: StructType) -> None:
        self._request = ReadRequest.of(options, link_for(options), schema)
        if self._request.info.keyed and CHANGE_TYPE not in schema.names:
            raise InvalidError(
                "a stream of a keyed table has changes of all kinds: set option source=log and keep _change_type,"
                " or use pks.read_stream",
                table=options.table,
            )
        self._images = images_of(options)
        self._limit = StreamLimit(options)
        self._fails_on_loss = options.flag("fail_on_data_loss")
        self._target: Mapping[TableBucket, int] | None = None
        self._made_plan: StreamPlan | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Return the offset of a stream that has read nothing."""
        return StreamOffset(Phase.INITIAL, {}).to_json(self._database, self._request.info)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """Return the limit that the user set."""
        return self._limit.for_spark()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Read nothing that comes from now on."""
        self._target = self._plan.ends()

    def reportLatestOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Return the end of every bucket, by which Spark shows how far the query is behind."""
        return StreamOffset(Phase.LOG, self._plan.ends()).to_json(self._database, self._request.info)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Return where the next micro-batch ends: the start itself if there is nothing to read."""
        stands = self._parse(start)
        rows = self._limit.rows(limit, link_for(self._request.options), self._request.info.table_id)
        reached = self._plan.reach(stands, rows, self._target)
        return start if reached is stands else reached.to_json(self._database, self._request.info)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Return a task for each bucket that has something between two offsets."""
        first, last = self._parse(start), self._parse(end)
        began = last.began or {} if first.phase is Phase.INITIAL else first.next
        splits = []
        for bucket, at in last.next.items():
            # One that was born, or born again, since is read from its first change on.
            begin = max(began.get(bucket, 0), bucket.first_offset(at))
            if begin < at:
                x = last.cut[bucket] if last.cut is not None else None
                splits.append(StreamSplit(bucket, begin, at, x, last.cut_us))
        return list(splits)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one task."""
        assert isinstance(partition, StreamSplit), "a micro-batch is of these splits"
        link, request, bucket = link_for(self._request.options), self._request, partition.bucket
        if partition.x is not None:
            for batch in scan_range(link, request, bucket, x=partition.x, start=partition.start, end=partition.end):
                yield cast_batch(_as_inserts(batch, partition), request.target)
            return
        start = partition.start
        if not self._fails_on_loss:
            state = link.retry.run(lambda: link.node.changes.log_state(request.info.table_id))
            base = state.base(bucket, start)
            if base is None:
                _log.warning("the partition was dropped, and what was unread with it bucket=%s", bucket)
                return
            start = max(start, base)
        yield from read_changes(link, request, bucket, start=start, end=partition.end, images=self._images)

    def commit(self, end: dict[str, Any]) -> None:
        """Let go of what was read."""
        self._plan.let_go(self._parse(end))

    def stop(self) -> None:
        """Let go of everything: the query has ended."""
        if self._made_plan is not None:
            self._made_plan.close()

    def __getstate__(self) -> dict[str, Any]:
        # A plan holds a connection, which stays in its process.
        return self.__dict__ | {"_made_plan": None}

    @property
    def _database(self) -> str:
        database = self._request.options.database
        assert database is not None, "a request is made for a database"
        return database

    @property
    def _plan(self) -> StreamPlan:
        if self._made_plan is None:
            self._made_plan = StreamPlan(self._request, fails_on_loss=self._fails_on_loss)
        return self._made_plan

    def _parse(self, offset: Mapping[str, Any]) -> StreamOffset:
        return StreamOffset.from_json(offset, link_for(self._request.options), self._request.info)


class RefusedStream(DataSourceStreamReader):
    """A stream that cannot be: says why when it is asked. Of an error before that Spark shows one of its own."""

    def __init__(self, error: PenstockError) -> None:
        self._error = error

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Say why there is none."""
        raise self._error

    def latestOffset(self, *_: object) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Say why there is none."""
        raise self._error

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Say why there is nothing to read."""
        raise self._error


def _as_inserts(batch: pa.RecordBatch, split: StreamSplit) -> pa.RecordBatch:
    """Return rows of a snapshot as changes: each an insert at the cut."""
    made = {
        CHANGE_TYPE: ChangeType.INSERT.value,
        OFFSET: split.x,
        TIMESTAMP: split.cut_us,
        BUCKET: split.bucket.bucket,
        PARTITION: split.bucket.partition,
    }
    fields = system_columns(partitioned=split.bucket.partition is not None)
    columns = [*batch.columns, *(constant(made[field.name], field, batch.num_rows) for field in fields)]
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema([*batch.schema, *fields]))
