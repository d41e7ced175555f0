"""Batch reads: Spark sees what the client sees, at one cut for each execution."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as sf

import penstock
import penstock.spark as pks

Load = Callable[..., DataFrame]


def by_id(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: (row["id"], row.get("day", "")))


def rows_of(frame: DataFrame) -> list[dict[str, Any]]:
    return by_id([row.asDict(recursive=True) for row in frame.collect()])


def rows_in(table: penstock.Table, **scan: Any) -> list[dict[str, Any]]:
    return by_id(table.scan(**scan).to_arrow().to_pylist())


def by_format(spark: SparkSession, url: str, table: str, **options: Any) -> DataFrame:
    return spark.read.format("penstock").options(url=url, table=table, **options).load()


@pytest.fixture(params=[pks.read, by_format], ids=["read", "format"])
def load(request: pytest.FixtureRequest) -> Load:
    """Return a way to load a table: Spark runs the two by different plans."""
    found: Load = request.param
    return found


def test_table_reads_as_the_client_reads_it(spark: SparkSession, url: str, orders: penstock.Table, load: Load) -> None:
    frame = load(spark, url, orders.path)

    assert rows_of(frame) == rows_in(orders)
    assert frame.schema.simpleString() == "struct<id:bigint,city:string,amount:double>"
    assert not frame.schema["id"].nullable


def test_format_is_found_without_registering_and_takes_options_in_any_case(
    new_session: SparkSession, url: str, orders: penstock.Table
) -> None:
    frame = new_session.read.format("penstock").options(URL=url, Table=orders.path, FILTER="id < 10").load()

    assert rows_of(frame) == rows_in(orders, filter="id < 10")


def test_path_that_is_loaded_is_the_table(spark: SparkSession, url: str, orders: penstock.Table) -> None:
    reader = spark.read.format("penstock").options(url=url, filter="id < 10")

    assert rows_of(reader.load(orders.path)) == rows_in(orders, filter="id < 10")
    with pytest.raises(PySparkException, match="two tables are named"):
        reader.option("table", orders.path).load("/data/orders")


def test_columns_filter_and_schema_choose_what_travels(spark: SparkSession, url: str, orders: penstock.Table) -> None:
    chosen = pks.read(spark, url, orders.path, columns=["amount", "id"], filter="city = 'c3' AND amount > 100")
    given = spark.read.format("penstock").schema("city STRING, id BIGINT").options(url=url, table=orders.path).load()

    assert chosen.columns == ["amount", "id"]
    assert rows_of(chosen) == rows_in(orders, columns=["amount", "id"], filter="city = 'c3' AND amount > 100")
    assert rows_of(given) == rows_in(orders, columns=["city", "id"])
    assert given.where("id = 7").count() == 1
    assert given.count() == 990, "a filter of one query does not stay for the next"


def test_large_buckets_are_read_by_several_tasks(
    spark: SparkSession, url: str, orders: penstock.Table, load: Load
) -> None:
    frame = load(spark, url, orders.path, split_rows=100)

    parts = frame.select("id", sf.spark_partition_id().alias("part"))

    assert parts.select("part").distinct().count() > 4
    assert rows_of(frame) == rows_in(orders)


def test_join_does_not_take_a_table_for_small(
    spark: SparkSession, url: str, orders: penstock.Table, load: Load, capsys: pytest.CaptureFixture[str]
) -> None:
    frame = load(spark, url, orders.path)

    frame.join(frame.withColumnRenamed("city", "c"), "id").explain()

    plan = capsys.readouterr().out
    assert "SortMergeJoin" in plan, "it may have grown since, and is not sent whole to every executor"


def test_plan_names_the_table(
    spark: SparkSession, url: str, orders: penstock.Table, capsys: pytest.CaptureFixture[str]
) -> None:
    pks.read(spark, url, orders.path).explain()

    assert f"penstock {orders.path}" in capsys.readouterr().out


def test_as_of_reads_the_past_again_and_again(spark: SparkSession, url: str, orders: penstock.Table) -> None:
    cut, then = orders.cut(), rows_in(orders)
    text = pks.cut(url, orders.path)
    orders.upsert([{"id": number, "city": "later", "amount": 0.0} for number in range(500, 1500)])

    assert rows_of(pks.read(spark, url, orders.path, as_of=text)) == then
    assert rows_of(pks.read(spark, url, orders.path, as_of=cut)) == then
    assert rows_of(pks.read(spark, url, orders.path)) == rows_in(orders) != then


def test_a_cut_reads_as_the_client_reads_it_while_writers_run(
    spark: SparkSession, url: str, connection: penstock.Connection, path: str
) -> None:
    table = connection.create_table(
        path, "id BIGINT, day STRING, v BIGINT, PRIMARY KEY (id, day)", buckets=2, partitioned_by=["day"]
    )
    for day in ("mon", "tue"):
        table.create_partition({"day": day})
    stop = threading.Event()
    cuts, seen = [], []

    def write(day: str) -> None:
        turn = 0
        while not stop.is_set():
            table.upsert([{"id": number, "day": day, "v": turn} for number in range(500)])
            table.delete([{"id": number, "day": day} for number in range(turn % 5, 500, 5)])
            turn += 1

    writers = [threading.Thread(target=write, args=(day,)) for day in ("mon", "tue")]
    for writer in writers:
        writer.start()
    try:
        for _ in range(3):
            cuts.append(table.cut())
            seen.append(rows_of(pks.read(spark, url, path, as_of=cuts[-1], filter="v >= 0", split_rows=100)))
    finally:
        stop.set()
        for writer in writers:
            writer.join()

    assert seen == [rows_in(table, as_of=cut) for cut in cuts]
    assert seen[0] != seen[2]


def test_each_execution_of_a_view_reads_the_present_and_one_cut(
    spark: SparkSession, url: str, orders: penstock.Table
) -> None:
    spark.sql(f"CREATE OR REPLACE TEMP VIEW orders USING penstock OPTIONS (url '{url}', table '{orders.path}')")
    before = spark.sql("SELECT count(*) AS n FROM orders").first()
    stop = threading.Event()

    def write() -> None:
        number = 10_000
        while not stop.is_set():
            orders.upsert([{"id": number + i, "city": "w", "amount": 1.0} for i in range(100)])
            number += 100

    writer = threading.Thread(target=write)
    writer.start()
    try:
        joined = spark.sql("SELECT count(*) AS n, count(b.id) AS m FROM orders a FULL JOIN orders b ON a.id = b.id")
        counts = [joined.first() for _ in range(2)]
        other = pks.read(spark, url, orders.path).select("id")
        apart = spark.table("orders").select("id").exceptAll(other).count()
        alike = other.join(other.withColumnRenamed("id", "b"), sf.col("id") == sf.col("b"), "full")
        alone = alike.where("id IS NULL OR b IS NULL").count()
    finally:
        stop.set()
        writer.join()
    orders.upsert([{"id": 9_999, "city": "last", "amount": 1.0}])
    after = spark.sql("SELECT count(*) AS n FROM orders").first()

    assert before == Row(n=990)
    assert all(count is not None and count["n"] == count["m"] and count["n"] % 100 == 90 for count in counts)
    assert apart == 0, "two relations of one query are read at one cut"
    assert alone == 0, "both sides of a self-join are read at one cut"
    assert after is not None
    assert after["n"] == orders.stats().live_rows


def test_cached_plan_and_rdd_keep_the_rows_they_read(
    spark: SparkSession, url: str, orders: penstock.Table, load: Load
) -> None:
    cached = load(spark, url, orders.path).cache()
    numbers = load(spark, url, orders.path).rdd.map(lambda row: row["id"])
    first, first_numbers = cached.count(), numbers.count()
    orders.upsert([{"id": 5000, "city": "x", "amount": 1.0}])

    assert (cached.count(), numbers.count()) == (first, first_numbers) == (990, 990)
    cached.unpersist()


def test_partition_added_after_load_is_read(
    spark: SparkSession, url: str, connection: penstock.Connection, path: str, load: Load
) -> None:
    table = connection.create_table(
        path, "id BIGINT, day STRING, PRIMARY KEY (id, day)", buckets=2, partitioned_by=["day"]
    )
    table.upsert([{"id": number, "day": "mon"} for number in range(20)])
    frame = load(spark, url, path)
    assert rows_of(frame) == rows_in(table)

    table.upsert([{"id": number, "day": "tue"} for number in range(20, 50)])
    with_tuesday = rows_of(frame)
    table.drop_partition({"day": "mon"})

    assert [row["id"] for row in with_tuesday] == list(range(50))
    assert rows_of(frame) == rows_in(table)


@pytest.fixture
def clicks(connection: penstock.Connection, orders: penstock.Table) -> penstock.Table:
    """Return a log of clicks on two orders."""
    table = connection.create_table(f"{orders.path}_clicks", "order_id BIGINT", buckets=2)
    table.append({"order_id": [1, 2]})
    return table


def test_static_side_of_a_stream_is_read_anew_in_each_micro_batch(
    spark: SparkSession, url: str, *, orders: penstock.Table, clicks: penstock.Table, tmp_path: Path, load: Load
) -> None:
    seen: list[tuple[int, str]] = []
    static = load(spark, url, orders.path).withColumnRenamed("id", "order_id")
    joined = pks.read_stream(spark, url, clicks.path, starting="earliest").join(static, "order_id")

    def run() -> None:
        query = (
            joined.writeStream.foreachBatch(lambda frame, _: seen.extend((r.order_id, r.city) for r in frame.collect()))
            .option("checkpointLocation", str(tmp_path))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(120)

    run()
    orders.upsert([{"id": 1, "city": "renamed", "amount": 1.0}])
    clicks.append({"order_id": [1]})
    run()

    assert sorted(seen) == [(1, "c1"), (1, "renamed"), (2, "c2")]


def test_changes_between_two_cuts_are_those_that_lead_from_one_to_the_other(
    spark: SparkSession, url: str, orders: penstock.Table
) -> None:
    start = pks.cut(url, orders.path)
    orders.upsert([{"id": number, "city": "new", "amount": 1.0} for number in range(990, 1010)])
    orders.delete([{"id": 1}])
    end = pks.cut(url, orders.path)
    orders.upsert([{"id": 3, "city": "too late", "amount": 1.0}])

    full = pks.changes(spark, url, orders.path, start=start, end=end)
    after = pks.changes(spark, url, orders.path, start=start, end=end, images="after", columns=["id"])

    assert {row["_change_type"]: row["count"] for row in full.groupBy("_change_type").count().collect()} == {
        "+I": 10,
        "-U": 10,
        "+U": 10,
        "-D": 1,
    }
    assert after.columns == ["id", "_change_type", "_offset", "_timestamp", "_bucket"]
    assert after.count() == 21
    assert pks.changes(spark, url, orders.path).where("id = 3").count() == 3


def test_newest_snapshot_is_read_through_the_server_and_from_its_files(spark: SparkSession, tmp_path: Path) -> None:
    with penstock.serve(tmp_path / "data") as server, penstock.connect(server.url) as connection:
        table = connection.create_table("t", "id BIGINT, v STRING, PRIMARY KEY (id)", buckets=2)
        table.upsert([{"id": number, "v": str(number)} for number in range(100)])
        table.create_snapshot()
        then = rows_in(table)
        table.upsert([{"id": number, "v": "later"} for number in range(50, 150)])

        served = pks.read(spark, server.url, table.path, source="snapshot", filter="id >= 10")
        stored = pks.read(spark, server.url, table.path, source="snapshot", storage=str(tmp_path / "data"))

        assert rows_of(served) == then[10:]
        assert rows_of(stored) == then


def test_views_of_a_database_answer_sql(spark: SparkSession, url: str, connection: penstock.Connection) -> None:
    connection.create_database("mart", if_not_exists=True)
    connection.create_table("mart.a", "id BIGINT, PRIMARY KEY (id)").upsert({"id": [1, 2, 3]})
    connection.create_table("mart.b-2", "id BIGINT, PRIMARY KEY (id)").upsert({"id": [2, 3, 4]})

    names = pks.views(spark, url, "mart")

    assert names == ["a", "b-2"]
    assert spark.sql("SELECT count(*) AS n FROM a JOIN `b-2` USING (id)").first() == Row(n=2)
    spark.sql("INSERT INTO a SELECT id FROM `b-2`")
    assert spark.sql("SELECT count(*) AS n FROM a").first() == Row(n=4)


def test_wrong_requests_say_what_is_wrong(spark: SparkSession, url: str, orders: penstock.Table) -> None:
    source = spark.read.format("penstock")

    with pytest.raises(PySparkException, match="no such option"):
        source.options(url=url, table=orders.path, colums="id").load()
    with pytest.raises(PySparkException, match="no such table"):
        spark.read.format("penstock").options(url=url, table="shop.nothing").load()
    with pytest.raises(PySparkException, match="name the table"):
        spark.read.format("penstock").options(url=url).load()
    with pytest.raises(PySparkException, match="another type"):
        spark.read.format("penstock").schema("id STRING").options(url=url, table=orders.path).load().count()


def test_tasks_load_neither_rocksdb_nor_a_server(spark: SparkSession, url: str, orders: penstock.Table) -> None:
    def loaded(batches: Any) -> Any:
        import sys

        import pyarrow as pa

        count = sum(batch.num_rows for batch in batches)
        names = [name for name in ("rocksdict", "penstock.server", "penstock.engine.engine") if name in sys.modules]
        yield pa.RecordBatch.from_pydict({"rows": [count], "loaded": [",".join(names)]})

    found = pks.read(spark, url, orders.path).mapInArrow(loaded, "rows long, loaded string").collect()

    assert sum(row["rows"] for row in found) == 990
    assert {row["loaded"] for row in found} == {""}
