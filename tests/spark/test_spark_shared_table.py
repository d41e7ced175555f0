"""Several jobs fill one wide table: each its own columns, whatever is added to the table and taken back meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.streaming.query import StreamingQuery

import penstock
import penstock.spark as pks

WIDE = "city STRING, revenue BIGINT SUM, orders BIGINT COUNT, visits BIGINT SUM, PRIMARY KEY (city)"

Start = Callable[..., StreamingQuery]


@pytest.fixture
def start(url: str, path: str, tmp_path: Path) -> Start:
    """Return a function that starts a job of the table, and goes on with it when it is called again."""

    def start(name: str, df: DataFrame, **options: Any) -> StreamingQuery:
        now = {"trigger": {"availableNow": True}} | options
        return pks.write_stream(df, url, path, checkpoint=str(tmp_path / name), query_name=f"{path}-{name}", **now)

    return start


def rows_in(table: penstock.Table) -> dict[str, tuple[Any, ...]]:
    rows = table.scan().to_arrow().to_pylist()
    return {row.pop("city"): tuple(row.values()) for row in rows}


@pytest.mark.parametrize("visibility", ["immediate", "commit"])
def test_two_jobs_take_changes_back_from_one_wide_table_side_by_side(  # noqa: PLR0917 - fixtures
    spark: SparkSession, connection: penstock.Connection, url: str, path: str, start: Start, visibility: str
) -> None:
    wide = connection.create_table(path, WIDE, buckets=2)
    bought = connection.create_table(f"{path}_bought", "id BIGINT, city STRING, amount BIGINT, PRIMARY KEY (id)")
    seen = connection.create_table(f"{path}_seen", "id BIGINT, city STRING, visits BIGINT, PRIMARY KEY (id)")
    bought.upsert([{"id": n, "city": f"c{n % 3}", "amount": n} for n in range(30)])
    seen.upsert([{"id": n, "city": f"c{n % 3}", "visits": 1} for n in range(30)])

    def run() -> None:
        orders = pks.read_stream(spark, url, f"{path}_bought")
        orders = orders.select(
            "city", sf.col("amount").alias("revenue"), sf.col("id").alias("orders"), "_change_type", "_offset"
        )
        visits = pks.read_stream(spark, url, f"{path}_seen").withColumn("revenue", sf.lit(1_000_000).cast("bigint"))
        jobs = [
            start("orders", orders, operation="apply", visibility=visibility),
            start("visits", visits.drop("id"), operation="apply", columns=["visits"], visibility=visibility),
        ]
        for job in jobs:
            job.awaitTermination()

    run()
    bought.upsert([{"id": n, "city": "moved", "amount": n * 10} for n in range(0, 30, 2)])
    seen.upsert([{"id": n, "city": "moved", "visits": 5} for n in range(0, 30, 3)])
    bought.delete([{"id": n} for n in range(5)])
    seen.delete([{"id": n} for n in range(7)])
    run()

    expected: dict[str, list[int]] = {city: [0, 0, 0] for city in ("c0", "c1", "c2", "moved")}
    for row in bought.scan().to_arrow().to_pylist():
        expected[row["city"]][0] += row["amount"]
        expected[row["city"]][1] += 1
    for row in seen.scan().to_arrow().to_pylist():
        expected[row["city"]][2] += row["visits"]
    assert rows_in(wide) == {city: tuple(values) for city, values in expected.items()}


def test_changes_of_some_columns_are_applied_by_batches_of_both_kinds(
    spark: SparkSession, connection: penstock.Connection, url: str, path: str
) -> None:
    wide = connection.create_table(path, WIDE)
    rows = [("a", 5, 1, "+I", 0), ("a", 7, 1, "+I", 1), ("a", 5, 1, "-D", 2), ("b", 1, 1, "+I", 3)]
    df = spark.createDataFrame(rows, "city string, revenue bigint, visits bigint, _change_type string, _offset bigint")

    pks.write(df, url, path, operation="apply", columns=["revenue"])
    plain = df.drop("_offset").write.format("penstock").mode("append")
    plain.options(url=url, table=path, operation="apply", columns="visits").save()

    assert rows_in(wide) == {"a": (7, None, 1), "b": (1, None, 1)}


def test_jobs_of_a_table_go_on_after_a_column_was_added(
    spark: SparkSession, connection: penstock.Connection, url: str, path: str, start: Start
) -> None:
    connection.create_table(path, "city STRING, revenue BIGINT SUM, visits BIGINT SUM, PRIMARY KEY (city)", buckets=2)
    source = connection.create_table(f"{path}_source", "id BIGINT, city STRING, v BIGINT, PRIMARY KEY (id)")
    source.upsert([{"id": 1, "city": "a", "v": 1}])

    def run() -> None:
        stream = pks.read_stream(spark, url, f"{path}_source", images="after").select("city", "v")
        both = stream.select("city", sf.col("v").alias("revenue"), sf.col("v").alias("visits"))
        jobs = [start("revenue", both, columns=["revenue"]), start("visits", both, columns=["visits"])]
        for job in jobs:
            job.awaitTermination()

    run()
    grown = connection.table(path).add_column("top", "BIGINT", agg="max")
    source.upsert([{"id": 2, "city": "a", "v": 10}, {"id": 3, "city": "b", "v": 100}])
    run()
    pks.write(spark.createDataFrame([("b", 7)], "city string, top bigint"), url, path)

    assert rows_in(grown) == {"a": (11, 11, None), "b": (100, 100, 7)}


def test_a_job_of_all_columns_leaves_one_that_is_added_to_others_and_starts_again_without_it(
    spark: SparkSession, connection: penstock.Connection, url: str, path: str, start: Start
) -> None:
    connection.create_table(path, "city STRING, revenue BIGINT SUM, PRIMARY KEY (city)")
    source = connection.create_table(f"{path}_source", "id BIGINT, city STRING, revenue BIGINT, PRIMARY KEY (id)")
    source.upsert([{"id": 1, "city": "a", "revenue": 1}])
    stream = pks.read_stream(spark, url, f"{path}_source", images="after").select("city", "revenue")

    query = start("job", stream, trigger=None)
    try:
        query.processAllAvailable()
        grown = connection.table(path).add_column("visits", "BIGINT", agg="sum")
        pks.write(spark.createDataFrame([("a", 5)], "city string, visits bigint"), url, path)
        source.upsert([{"id": 2, "city": "a", "revenue": 10}])
        query.processAllAvailable()
    finally:
        query.stop()
    source.upsert([{"id": 3, "city": "b", "revenue": 100}])
    start("job", stream).awaitTermination()

    assert rows_in(grown) == {"a": (11, 5), "b": (100, None)}


@pytest.mark.parametrize("engine", ["last_row", "first_row", "versioned"])
def test_a_batch_leaves_out_a_column_that_was_added_later(
    spark: SparkSession, connection: penstock.Connection, url: str, path: str, engine: Any
) -> None:
    version = "revenue" if engine == "versioned" else None
    columns = "city STRING, revenue BIGINT, PRIMARY KEY (city)"
    table = connection.create_table(path, columns, merge_engine=engine, version_column=version)
    grown = table.add_column("note", "STRING")
    grown.upsert([{"city": "a", "revenue": 1, "note": "kept"}])
    df = spark.createDataFrame([("a", 2), ("b", 3)], "city string, revenue bigint")

    pks.write(df, url, path)
    df.write.format("penstock").mode("append").options(url=url, table=path).save()

    assert rows_in(grown) == {"a": (1 if engine == "first_row" else 2, "kept"), "b": (3, None)}
