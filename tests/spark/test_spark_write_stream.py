"""Streaming writes: every micro-batch once, whatever was started again, reset, shared or refused."""

from __future__ import annotations

import contextlib
import logging
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.streaming.query import StreamingQuery
from tests.kit.waiting import wait_until

import penstock
import penstock.spark as pks
from penstock.errors import FencedError, PenstockError, SchemaMismatchError
from penstock.model.node.owner import OwnerInfo
from penstock.spark.session.links import link_for
from penstock.spark.session.spark_types import spark_schema
from penstock.spark.writing import job_epoch
from penstock.spark.writing.task_writer import TaskWriter
from penstock.spark.writing.write_options import write_options
from penstock.spark.writing.write_plan import WritePlan, plan_write
from penstock.testing.server import ServerProcess

SUMS = "k BIGINT, total BIGINT SUM, n BIGINT COUNT, PRIMARY KEY (k)"
FILES = 4
ROWS = 500


def add_file(directory: Path, number: int) -> None:
    seq = list(range(number * ROWS, (number + 1) * ROWS))
    table = pa.table({"k": [s % 20 for s in seq], "total": seq, "n": [1] * ROWS})
    pq.write_table(table, directory / f"part-{number:04}.parquet")


def expected(files: int = FILES) -> dict[int, tuple[int, int]]:
    rows = range(files * ROWS)
    return {k: (sum(s for s in rows if s % 20 == k), sum(1 for s in rows if s % 20 == k)) for k in range(20)}


def sums_in(table: penstock.Table) -> dict[int, tuple[int, int]]:
    return {row["k"]: (row["total"], row["n"]) for row in table.scan().to_arrow().to_pylist()}


@dataclass
class Job:
    """A stream that reads one file in each micro-batch, and the table that it writes."""

    spark: SparkSession
    connection: penstock.Connection
    url: str
    path: str
    files: Path
    home: Path

    @property
    def checkpoint(self) -> Path:
        return self.home / "checkpoint"

    def stream(self) -> DataFrame:
        reader = self.spark.readStream.schema("k bigint, total bigint, n bigint").option("maxFilesPerTrigger", 1)
        return reader.parquet(str(self.files))

    def start(self, df: DataFrame | None = None, checkpoint: Path | None = None, **options: Any) -> StreamingQuery:
        return pks.write_stream(
            self.stream() if df is None else df,
            self.url,
            self.path,
            checkpoint=str(checkpoint or self.checkpoint),
            trigger={"availableNow": True},
            **options,
        )

    def run(self, df: DataFrame | None = None, checkpoint: Path | None = None, **options: Any) -> None:
        self.start(df, checkpoint, **options).awaitTermination()

    def forget_last_commit(self) -> None:
        """Leave the checkpoint as a driver does that is killed after our commit and before Spark's own."""
        newest = max(int(entry.name) for entry in (self.checkpoint / "commits").iterdir() if entry.name.isdecimal())
        for name in (str(newest), f".{newest}.crc"):
            (self.checkpoint / "commits" / name).unlink(missing_ok=True)

    def owner(self) -> OwnerInfo:
        (found,) = [owner for owner in self.connection.list_owners() if owner.table == self.path]
        return found


@pytest.fixture
def job(spark: SparkSession, connection: penstock.Connection, url: str, path: str, tmp_path: Path) -> Job:
    """Return a stream of four files."""
    files = tmp_path / "files"
    files.mkdir()
    for number in range(FILES):
        add_file(files, number)
    return Job(spark, connection, url, path, files, tmp_path)


@pytest.mark.parametrize("visibility", ["immediate", "commit"])
def test_every_micro_batch_counts_once_also_when_it_runs_again(job: Job, visibility: str) -> None:
    table = job.connection.create_table(job.path, SUMS, buckets=3)
    job.run(visibility=visibility)
    first = sums_in(table)

    job.forget_last_commit()
    add_file(job.files, FILES)
    job.run(visibility=visibility)

    assert first == expected()
    assert sums_in(table) == expected(FILES + 1)
    owner = job.owner()
    assert (owner.committed_epoch, owner.open_epoch, owner.rows_pending) == (FILES, None, 0)


def test_the_owner_is_the_query_and_is_released_when_it_ends(job: Job) -> None:
    job.connection.create_table(job.path, SUMS, buckets=2)

    query = job.start()
    query.awaitTermination()

    owner = job.owner()
    assert (owner.owner, owner.incarnation) == (query.id, query.id)
    wait_until(lambda: not job.owner().held)


def test_a_plain_write_stream_is_exactly_once_into_a_log_table(job: Job) -> None:
    table = job.connection.create_table(
        job.path, pa.schema([("k", pa.int64()), ("total", pa.int64()), ("n", pa.int64())])
    )
    pks.register(job.spark)

    def start() -> None:
        writer = job.stream().writeStream.format("penstock").options(url=job.url, table=job.path)
        writer.option("checkpointLocation", str(job.checkpoint)).trigger(availableNow=True).start().awaitTermination()

    start()
    job.forget_last_commit()
    start()

    assert sorted(table.scan().to_arrow()["total"].to_pylist()) == list(range(FILES * ROWS))
    assert job.owner().committed_epoch == FILES - 1


def test_a_failed_micro_batch_is_taken_back_before_the_query_ends(job: Job) -> None:
    table = job.connection.create_table(job.path, SUMS, buckets=2)
    poison = sf.when(sf.col("total") == 2 * ROWS - 1, sf.raise_error(sf.lit("poisoned"))).otherwise(sf.col("n"))

    with pytest.raises(PySparkException, match="poisoned"):
        job.run(job.stream().withColumn("n", poison.cast("bigint")))

    assert sums_in(table) == expected(1)
    assert job.owner().rows_pending == 0


def test_tasks_that_die_half_way_leave_exact_sums(job: Job) -> None:
    table = job.connection.create_table(job.path, SUMS, buckets=2)
    marks = job.home / "marks"
    marks.mkdir()

    def die_once(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import os

        for batch in batches:
            yield batch.slice(0, batch.num_rows // 2)
            mark = marks / str(batch.column("total")[0].as_py())
            if not mark.exists():
                mark.touch()
                os._exit(1)
            yield batch.slice(batch.num_rows // 2)

    data = job.stream().mapInArrow(die_once, "k bigint, total bigint, n bigint")
    job.run(data)

    assert len(list(marks.iterdir())) >= FILES
    assert sums_in(table) == expected()


@pytest.mark.parametrize("way", ["offsets and commits", "an older copy"])
def test_a_reset_checkpoint_is_refused_and_nothing_doubles(job: Job, way: str) -> None:
    table = job.connection.create_table(job.path, SUMS, buckets=2)
    job.run()
    for log in ("offsets", "commits"):
        for entry in (job.checkpoint / log).iterdir():
            if way == "offsets and commits" or entry.name not in {"0", ".0.crc"}:
                entry.unlink()
    if way == "offsets and commits":
        shutil.rmtree(job.checkpoint / "sources")

    with pytest.raises(PySparkException, match="checkpoint reset"):
        job.run()

    assert sums_in(table) == expected()


def test_a_fresh_checkpoint_under_the_same_owner_is_refused_until_the_owner_is_dropped(job: Job) -> None:
    table = job.connection.create_table(job.path, SUMS, buckets=2)
    job.run(checkpoint=job.home / "one", owner="nightly")

    with pytest.raises(PySparkException, match="another incarnation"):
        job.run(checkpoint=job.home / "two", owner="nightly")
    unchanged = sums_in(table)
    job.connection.drop_owner("nightly", job.path)
    job.run(checkpoint=job.home / "three", owner="nightly")

    assert unchanged == expected()
    assert sums_in(table) == {k: (2 * total, 2 * n) for k, (total, n) in expected().items()}


def test_of_two_queries_with_one_owner_name_one_writes_and_the_other_is_refused(job: Job) -> None:
    table = job.connection.create_table(job.path, SUMS, buckets=2)
    queries = [job.start(checkpoint=job.home / name, owner="nightly") for name in ("one", "two")]

    for query in queries:
        with contextlib.suppress(PySparkException):
            query.awaitTermination()

    (refused,) = [str(error) for query in queries if (error := query.exception()) is not None]
    assert "another incarnation" in refused
    assert sums_in(table) == expected()
    assert (job.owner().committed_epoch, job.owner().rows_pending) == (FILES - 1, 0)


def test_a_table_created_anew_under_a_checkpoint_is_noticed(job: Job) -> None:
    job.connection.create_table(job.path, SUMS, buckets=2)
    job.run()
    job.connection.drop_table(job.path)
    table = job.connection.create_table(job.path, SUMS, buckets=2)
    add_file(job.files, FILES)

    with pytest.raises(PySparkException, match="created anew"):
        job.run()

    assert sums_in(table) == {}


def test_a_table_that_was_restored_from_before_some_micro_batches_is_noticed(job: Job) -> None:
    table = job.connection.create_table(job.path, SUMS, buckets=2)
    job.run()
    query = job.owner().owner
    job.connection.drop_owner(query, job.path)
    with table.acquire_owner(query, incarnation=query) as older:
        older.begin(FILES - 2)
        older.commit(FILES - 2)
    add_file(job.files, FILES)

    with pytest.raises(PySparkException, match=f"restored from before them.* batch={FILES} committed={FILES - 2}"):
        job.run()

    assert sums_in(table) == expected()


def test_a_stateful_query_goes_on_after_a_crash_behind_our_commit(job: Job) -> None:
    table = job.connection.create_table(job.path, "k BIGINT, total BIGINT, n BIGINT, PRIMARY KEY (k)", buckets=2)

    def totals() -> DataFrame:
        return job.stream().groupBy("k").agg(sf.sum("total").alias("total"), sf.count("*").alias("n"))

    job.run(totals(), output_mode="update")
    job.forget_last_commit()
    add_file(job.files, FILES)
    job.run(totals(), output_mode="update")

    assert sums_in(table) == expected(FILES + 1)


def test_a_column_added_while_the_query_runs_is_left_alone(job: Job) -> None:
    columns = "k BIGINT, total BIGINT, n BIGINT, PRIMARY KEY (k)"
    table = job.connection.create_table(job.path, columns, buckets=2)
    query = pks.write_stream(job.stream(), job.url, job.path, checkpoint=str(job.checkpoint), order_by="total")
    try:
        query.processAllAvailable()
        grown = table.add_column("note", "string")
        grown.upsert({"k": [3, 99], "note": ["kept", "alone"]}, columns=["note"])
        add_file(job.files, FILES)
        query.processAllAvailable()
    finally:
        query.stop()

    rows = {row["k"]: row for row in grown.scan().to_arrow().to_pylist()}
    newest = (FILES + 1) * ROWS - 20
    assert {k: row["total"] for k, row in rows.items() if k < 20} == {k: newest + k for k in range(20)}
    assert {k: row["note"] for k, row in rows.items() if row["note"]} == {3: "kept", 99: "alone"}


def test_a_stream_adds_the_columns_that_the_table_lacks_if_it_may(job: Job) -> None:
    table = job.connection.create_table(job.path, "k BIGINT, total BIGINT, n BIGINT, PRIMARY KEY (k)", buckets=2)
    wider = job.stream().withColumn("note", sf.lit("new"))

    with pytest.raises(SchemaMismatchError, match="mergeSchema=true"):
        job.run(wider, order_by="total")
    job.run(wider, order_by="total", merge_schema=True)

    grown = job.connection.table(job.path).scan().to_arrow()
    assert grown.num_rows == 20
    assert set(grown["note"].to_pylist()) == {"new"}
    assert "note" not in table.schema.names


def test_a_sink_writes_what_spark_folded_of_each_micro_batch(job: Job) -> None:
    table = job.connection.create_table(job.path, SUMS, buckets=2)
    sink = pks.sink(job.url, job.path, agg_mode="merge_state")

    def fold_and_write(df: DataFrame, batch_id: int) -> None:
        sink(pks.pre_aggregate(df, job.url, job.path), batch_id)

    writer = job.stream().writeStream.foreachBatch(fold_and_write).trigger(availableNow=True)
    writer.option("checkpointLocation", str(job.checkpoint)).start().awaitTermination()

    assert sums_in(table) == expected()
    sink.release()


@pytest.mark.parametrize("sinks", [1, 2])
def test_other_rows_of_a_micro_batch_that_is_written_are_refused_and_its_repetition_is_not(
    job: Job, sinks: int
) -> None:
    table = job.connection.create_table(job.path, SUMS, buckets=2)
    made = [pks.sink(job.url, job.path) for _ in range(sinks)]
    calls: list[DataFrame | None] = []

    def write(df: DataFrame, batch_id: int, *, parts: int) -> None:
        for part in range(parts):
            calls.append(df)
            made[part % sinks](df.where(f"k % {parts} = {part}"), batch_id)

    def start(parts: int) -> StreamingQuery:
        writer = job.stream().writeStream.foreachBatch(lambda df, batch_id: write(df, batch_id, parts=parts))
        return writer.trigger(availableNow=True).option("checkpointLocation", str(job.checkpoint)).start()

    start(1).awaitTermination()
    assert sums_in(table) == expected()
    job.forget_last_commit()
    start(1).awaitTermination()
    assert len(calls) == FILES + 1
    assert sums_in(table) == expected()
    add_file(job.files, FILES)
    with pytest.raises(PySparkException, match=r"InvalidError: a micro-batch is written into a table once.*owner="):
        start(2).awaitTermination()


def test_a_column_that_comes_with_a_later_micro_batch_is_not_left_out_in_silence(job: Job) -> None:
    job.connection.create_table(job.path, SUMS, buckets=2)
    sink = pks.sink(job.url, job.path)

    def write(df: DataFrame, batch_id: int) -> None:
        sink(df.drop("n") if batch_id == 0 else df, batch_id)

    writer = job.stream().writeStream.foreachBatch(write).trigger(availableNow=True)
    query = writer.option("checkpointLocation", str(job.checkpoint)).start()

    with pytest.raises(PySparkException, match=r"the columns of its first micro-batch.* columns=\['n'\]"):
        query.awaitTermination()
    assert job.owner().committed_epoch == 0
    sink.release()


def test_two_sinks_with_owners_of_their_own_share_a_micro_batch(job: Job) -> None:
    table = job.connection.create_table(job.path, "k BIGINT, total BIGINT, n BIGINT, PRIMARY KEY (k)", buckets=2)
    sinks = [pks.sink(job.url, job.path, owner=f"part-{part}") for part in range(2)]

    def write(df: DataFrame, batch_id: int) -> None:
        for part, sink in enumerate(sinks):
            sink(df.where(f"k % 2 = {part}"), batch_id)

    writer = job.stream().writeStream.foreachBatch(write).trigger(availableNow=True)
    writer.option("checkpointLocation", str(job.checkpoint)).start().awaitTermination()

    assert sorted(sums_in(table)) == list(range(20))


def test_two_queries_fill_different_columns_of_one_row(job: Job) -> None:
    table = job.connection.create_table(job.path, SUMS, buckets=2)
    queries = [job.start(checkpoint=job.home / column, columns=[column]) for column in ("total", "n")]
    for query in queries:
        query.awaitTermination()

    assert sums_in(table) == expected()


def test_a_lock_is_waited_for_with_a_message(job: Job, caplog: pytest.LogCaptureFixture) -> None:
    table = job.connection.create_table(job.path, SUMS, buckets=2)
    plan = plan_of(job.url, job.path)
    link = link_for(plan.options)
    job_epoch.acquire(link, plan, "crashed", "crashed", ttl_ms=1_500)

    with caplog.at_level(logging.WARNING, "penstock.spark"):
        job.run()

    assert "waiting until another owner lets go" in caplog.text
    assert "holder=crashed" in caplog.text
    assert sums_in(table) == expected()


def plan_of(url: str, path: str, **options: Any) -> WritePlan:
    given = {"operation": None, "columns": None, "agg_mode": None, "order_by": None, "others": {}} | options
    checked = write_options(url, path, **given)
    link = link_for(checked)
    return plan_write(checked, link, spark_schema(link.node.catalog.table(path).schema.arrow_schema))


def batch(start: int, rows: int = 100) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(
        {"k": [1] * rows, "total": list(range(start, start + rows)), "n": [1] * rows},
        schema=pa.schema([("k", pa.int64()), ("total", pa.int64()), ("n", pa.int64())]),
    )


def test_rows_that_a_dead_driver_left_are_counted_when_they_are_taken_back(job: Job) -> None:
    table = job.connection.create_table(job.path, SUMS, buckets=2)
    job.run()
    plan, name = plan_of(job.url, job.path), job.owner().owner
    link = link_for(plan.options)
    left = job_epoch.begin(link, job_epoch.acquire(link, plan, name, name), FILES)
    TaskWriter(plan, left, staged=False).write([batch(0)])
    add_file(job.files, FILES)

    query = job.start()
    query.awaitTermination()

    shown = pks.progress(query)
    assert shown is not None
    assert (shown.epoch, shown.rows_undone) == (FILES, 1), "a hundred rows of one key"
    assert sums_in(table) == expected(FILES + 1)


def wait_until_expired(connection: penstock.Connection, path: str) -> None:
    wait_until(lambda: not any(owner.held for owner in connection.list_owners() if owner.table == path))


def test_time_that_runs_out_within_a_micro_batch_changes_nothing_while_nobody_takes_the_columns(
    connection: penstock.Connection, url: str, path: str
) -> None:
    table = connection.create_table(path, SUMS, buckets=2)
    plan = plan_of(url, path)
    link = link_for(plan.options)
    epoch = job_epoch.begin(link, job_epoch.acquire(link, plan, "job", "job", ttl_ms=100), 0)

    def paused() -> Iterator[pa.RecordBatch]:
        yield from (batch(0), batch(100))
        wait_until_expired(connection, path)
        yield batch(200)

    # A process that stands still renews nothing: as if its next renewal were a day away.
    written = TaskWriter(plan, replace(epoch, ttl_ms=86_400_000), staged=False, call_rows=100).write(paused())
    wait_until_expired(connection, path)
    job_epoch.commit(link, plan, epoch, [written])

    assert sums_in(table) == {1: (sum(range(300)), 300)}


def test_who_takes_the_columns_after_the_time_ran_out_finds_nothing_and_the_job_writes_again(
    connection: penstock.Connection, url: str, path: str
) -> None:
    table = connection.create_table(path, SUMS, buckets=2)
    plan = plan_of(url, path)
    link = link_for(plan.options)
    epoch = job_epoch.begin(link, job_epoch.acquire(link, plan, "job", "job", ttl_ms=100), 0)
    found: list[object] = []

    def paused() -> Iterator[pa.RecordBatch]:
        yield from (batch(0), batch(100))
        wait_until_expired(connection, path)
        with table.acquire_owner("taker", columns=["total", "n"]) as taker:
            found.append(sums_in(table))
            taker.begin(0)
            table.upsert(batch(1000), owner=taker.token(0))
            taker.commit(0)
        yield batch(200)

    with pytest.raises(FencedError):
        TaskWriter(plan, replace(epoch, ttl_ms=86_400_000), staged=False, call_rows=100).write(paused())
    with pytest.raises(FencedError):
        job_epoch.commit(link, plan, epoch, [])
    again = job_epoch.begin(link, job_epoch.acquire(link, plan, "job", "job"), 0)
    job_epoch.commit(link, plan, again, [TaskWriter(plan, again, staged=False).write([batch(0), batch(100)])])

    assert found == [{}]
    assert sums_in(table) == {1: (sum(range(200)) + sum(range(1000, 1100)), 300)}


def test_the_first_attempt_to_end_wins_and_a_late_twin_says_so(
    connection: penstock.Connection, url: str, path: str
) -> None:
    table = connection.create_table(path, SUMS, buckets=2)
    plan = plan_of(url, path)
    link = link_for(plan.options)
    epoch = job_epoch.begin(link, job_epoch.acquire(link, plan, "job", "job"), 0)
    task = TaskWriter(plan, epoch, staged=False)
    twin: list[Any] = []

    def overtaken() -> Iterator[pa.RecordBatch]:
        yield batch(0)
        # The twin starts and ends while this attempt is half-way.
        twin.append(task.write([batch(0), batch(100)]))
        yield batch(100)

    late = task.write([batch(0), batch(100)])
    twin.append(task.write(overtaken()))
    job_epoch.commit(link, plan, epoch, [late])

    assert {written.attempt for written in [late, *twin]} == {late.attempt}
    assert sums_in(table) == {1: (sum(range(200)), 200)}


def test_a_token_is_worth_nothing_after_the_commit(connection: penstock.Connection, url: str, path: str) -> None:
    table = connection.create_table(path, SUMS, buckets=2)
    plan = plan_of(url, path)
    link = link_for(plan.options)
    epoch = job_epoch.begin(link, job_epoch.acquire(link, plan, "job", "job"), 0)
    for staged in (False, True):
        zombie = TaskWriter(plan, epoch, staged=staged)
        if not staged:
            job_epoch.commit(link, plan, epoch, [zombie.write([batch(0)])])

        with pytest.raises(FencedError):
            zombie.write([batch(100)])

    assert sums_in(table) == {1: (sum(range(100)), 100)}


def test_a_new_driver_fences_the_tasks_of_the_old_one(connection: penstock.Connection, url: str, path: str) -> None:
    table = connection.create_table(path, SUMS, buckets=2)
    plan = plan_of(url, path)
    link = link_for(plan.options)
    old = job_epoch.begin(link, job_epoch.acquire(link, plan, "job", "job"), 0)
    TaskWriter(plan, old, staged=False).write([batch(0)])
    new = job_epoch.begin(link, job_epoch.acquire(link, plan, "job", "job"), 0)

    with pytest.raises(FencedError):
        TaskWriter(plan, old, staged=False).write([batch(100)])
    with pytest.raises(PenstockError):
        job_epoch.commit(link, plan, old, [])
    written = TaskWriter(plan, new, staged=False).write([batch(0)])
    job_epoch.commit(link, plan, new, [written])

    assert sums_in(table) == {1: (sum(range(100)), 100)}


def test_a_server_that_is_killed_and_comes_back_is_waited_for(job: Job) -> None:
    with ServerProcess(job.home / "data") as server:
        with penstock.connect(server.url) as connection:
            connection.create_database("shop")
            connection.create_table(job.path, SUMS, buckets=2)
        query = replace(job, url=server.url).start()
        wait_until(lambda: query.recentProgress or not query.isActive)
        server.restart()
        query.awaitTermination()

        with penstock.connect(server.url) as connection:
            assert sums_in(connection.table(job.path)) == expected()
            assert [owner.rows_pending for owner in connection.list_owners()] == [0]
