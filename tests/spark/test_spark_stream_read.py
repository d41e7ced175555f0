"""Streaming reads: the rows at a cut, then every change after it; no gap and no duplicate."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import penstock
import penstock.spark as pks
from penstock.testing.server import ServerProcess


class Sink:
    """Keeps what each micro-batch brought: a batch that is run again replaces what it brought before."""

    def __init__(self) -> None:
        self.batches: dict[int, list[dict[str, Any]]] = {}

    def __call__(self, frame: DataFrame, batch: int) -> None:
        self.batches[batch] = [row.asDict(recursive=True) for row in frame.collect()]

    @property
    def rows(self) -> list[dict[str, Any]]:
        return [row for batch in sorted(self.batches) for row in self.batches[batch]]

    def sizes(self) -> list[int]:
        return [len(rows) for _, rows in sorted(self.batches.items()) if rows]

    def folded(self) -> list[dict[str, Any]]:
        """Return the rows that the changes leave, checking that each change fits what was there."""
        live: dict[int, dict[str, Any]] = {}
        for row in self.rows:
            own = {name: value for name, value in row.items() if not name.startswith("_")}
            if row["_change_type"] == "+I":
                assert own["id"] not in live
                live[own["id"]] = own
            elif row["_change_type"] == "+U":
                assert own["id"] in live
                live[own["id"]] = own
            else:
                assert live[own["id"]] == own
                if row["_change_type"] == "-D":
                    del live[own["id"]]
        return [live[key] for key in sorted(live)]


def by_id(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: row["id"])


def rows_in(table: penstock.Table) -> list[dict[str, Any]]:
    return by_id(table.scan().to_arrow().to_pylist())


def run_available(frame: DataFrame, sink: Callable[[DataFrame, int], None], checkpoint: Path) -> StreamingQuery:
    query = (
        frame.writeStream.foreachBatch(sink)
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(120)
    return query


def more(table: penstock.Table, start: int, end: int) -> None:
    table.upsert([{"id": number, "city": "new", "amount": 1.0} for number in range(start, end)])


def test_snapshot_then_log_folds_to_the_table_over_failures_restarts_and_limits(
    spark: SparkSession, url: str, orders: penstock.Table, tmp_path: Path
) -> None:
    frame = pks.read_stream(spark, url, orders.path, max_rows_per_trigger=600)
    seen: list[list[dict[str, Any]]] = []

    def fails(batch: DataFrame, number: int) -> None:
        seen.append(by_id([row.asDict() for row in batch.collect()]))
        raise RuntimeError(f"batch {number} is lost")

    for _ in range(2):
        with pytest.raises(StreamingQueryException, match="is lost"):
            run_available(frame, fails, tmp_path)
        more(orders, 0, 1200)
        orders.delete([{"id": number} for number in range(10, 20)])
    sink = Sink()
    run_available(frame, sink, tmp_path)

    assert seen[0] == seen[1] == by_id(sink.batches[0])
    assert sink.sizes()[:2] == [600, 390]
    assert sink.folded() == rows_in(orders)
    assert {row["_change_type"] for row in sink.rows} == {"+I", "-U", "+U", "-D"}


def test_available_now_reads_nothing_that_came_after_its_start(
    spark: SparkSession, url: str, orders: penstock.Table, tmp_path: Path
) -> None:
    sink = Sink()
    before = rows_in(orders)
    frame = pks.read_stream(spark, url, orders.path, max_rows_per_trigger=600)

    def write_meanwhile(batch: DataFrame, number: int) -> None:
        sink(batch, number)
        more(orders, 5000 + 10 * number, 5010 + 10 * number)

    run_available(frame, write_meanwhile, tmp_path)
    first = sink.folded()
    run_available(frame, sink, tmp_path)

    assert first == before
    assert sink.folded() == rows_in(orders)


@pytest.fixture
def days(connection: penstock.Connection, path: str) -> penstock.Table:
    """Return a table with a partition for each day, of which there is one."""
    table = connection.create_table(
        path, "id BIGINT, day STRING, PRIMARY KEY (id, day)", buckets=2, partitioned_by=["day"]
    )
    table.upsert([{"id": number, "day": "mon"} for number in range(20)])
    return table


def test_new_partitions_are_followed_and_dropped_ones_left(
    spark: SparkSession, url: str, days: penstock.Table, tmp_path: Path
) -> None:
    sink = Sink()
    frame = pks.read_stream(spark, url, days.path)

    run_available(frame, sink, tmp_path)
    days.upsert([{"id": number, "day": "tue"} for number in range(20, 50)])
    run_available(frame, sink, tmp_path)
    days.drop_partition({"day": "mon"})
    days.upsert([{"id": number, "day": "wed"} for number in range(50, 60)])
    run_available(frame, sink, tmp_path)

    assert sorted(row["id"] for row in sink.rows) == list(range(60))
    assert {row["_partition"] for row in sink.rows} == {f"day={day}" for day in ("mon", "tue", "wed")}


def test_partition_that_is_dropped_and_created_again_is_read_whole(
    spark: SparkSession, url: str, days: penstock.Table, tmp_path: Path
) -> None:
    sink = Sink()
    frame = pks.read_stream(spark, url, days.path)

    run_available(frame, sink, tmp_path)
    days.drop_partition({"day": "mon"})
    days.upsert([{"id": number, "day": "mon"} for number in range(100, 150)])
    run_available(frame, sink, tmp_path)
    days.upsert([{"id": number, "day": "mon"} for number in range(150, 160)])
    run_available(frame, sink, tmp_path)

    assert sorted(row["id"] for row in sink.rows) == [*range(20), *range(100, 160)]


def test_lost_changes_end_the_query_unless_it_may_go_on(
    spark: SparkSession, url: str, connection: penstock.Connection, path: str, tmp_path: Path
) -> None:
    table = connection.create_table(path, "id BIGINT")
    table.append({"id": list(range(10))})
    sink = Sink()
    strict = pks.read_stream(spark, url, path)
    lax = pks.read_stream(spark, url, path, fail_on_data_loss=False)

    run_available(strict, sink, tmp_path)
    table.append({"id": list(range(10, 20))})
    table.truncate()
    table.append({"id": list(range(20, 30))})
    with pytest.raises(StreamingQueryException, match="failOnDataLoss"):
        run_available(strict, sink, tmp_path)
    run_available(lax, sink, tmp_path)

    assert [row["id"] for row in sink.rows] == [*range(10), *range(20, 30)]


def test_offsets_are_readable_and_progress_shows_how_far_behind(
    spark: SparkSession, url: str, orders: penstock.Table, tmp_path: Path
) -> None:
    frame = pks.read_stream(spark, url, orders.path)

    query = run_available(frame, Sink(), tmp_path)
    stored = json.loads((tmp_path / "offsets" / "0").read_text().splitlines()[-1])

    assert stored["table_id"] == orders.info.table_id
    assert stored["phase"] == "snapshot"
    assert stored["cut"] == {str(bucket.bucket): x for bucket, x in orders.cut().items()}
    shown = pks.progress(query)
    assert shown is not None
    assert shown.rows_behind == dict.fromkeys(orders.cut(), 0)


def test_query_survives_a_server_that_is_killed_and_comes_back(spark: SparkSession, tmp_path: Path) -> None:
    sink = Sink()
    with ServerProcess(tmp_path / "data") as process, penstock.connect(process.url) as connection:
        table = connection.create_table("t", "id BIGINT, PRIMARY KEY (id)", buckets=2)
        table.upsert({"id": list(range(100))})
        frame = pks.read_stream(spark, process.url, table.path)
        query = (
            frame.writeStream.foreachBatch(sink)
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(processingTime="100 milliseconds")
            .start()
        )
        try:
            query.processAllAvailable()
            process.kill()
            process.start()
            table.upsert({"id": list(range(100, 200))})
            query.processAllAvailable()
        finally:
            query.stop()

    assert [row["id"] for row in sink.folded()] == list(range(200))
