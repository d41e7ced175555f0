"""Batch writes: every operation, all or nothing, and what is refused before a row moves."""

from __future__ import annotations

import datetime
import os
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

import penstock
import penstock.spark as pks
from penstock.errors import InvalidError, SchemaMismatchError, UnsupportedError
from penstock.spark.writing.driver_write import is_few

ORDERS = "id BIGINT, city STRING, amount DOUBLE, PRIMARY KEY (id)"


def rows_of(table: penstock.Table) -> list[dict[str, object]]:
    order = [(name, "ascending") for name in table.info.primary_key or table.schema.names]
    return table.scan().to_arrow().sort_by(order).to_pylist()


def some_orders(spark: SparkSession, rows: int, amount: float = 1.0) -> DataFrame:
    return spark.range(rows, numPartitions=2).select(
        "id", sf.concat(sf.lit("c"), sf.col("id") % 7).alias("city"), sf.lit(amount).alias("amount")
    )


def plain_write(df: DataFrame, url: str, path: str, *, overwrite: bool = False) -> None:
    pks.register(df.sparkSession)
    writer = df.write.format("penstock").option("url", url).option("table", path)
    writer.mode("overwrite" if overwrite else "append").save()


@pytest.fixture(params=["driver", "tasks", "format"])
def write(request: pytest.FixtureRequest) -> Any:
    """Return a way to write: begun and committed by the program, or by processes that Spark starts for it."""
    if request.param == "tasks":
        request.getfixturevalue("by_tasks")
    return plain_write if request.param == "format" else pks.write


def nothing_is_pending(connection: penstock.Connection, path: str) -> bool:
    return not [o for o in connection.list_owners() if o.table == path and (o.open_epoch is not None or o.rows_pending)]


def test_upsert_writes_every_row_once_and_replaces_what_was_there(
    spark: SparkSession, connection: penstock.Connection, url: str, path: str
) -> None:
    table = connection.create_table(path, ORDERS, buckets=3)
    table.upsert([{"id": 5, "city": "old", "amount": None}, {"id": 9999, "city": "kept", "amount": 2.0}])

    pks.write(some_orders(spark, 1000), url, path)

    found = rows_of(table)
    assert len(found) == 1001
    assert found[5] == {"id": 5, "city": "c5", "amount": 1.0}
    assert found[-1]["city"] == "kept"
    assert nothing_is_pending(connection, path)


@pytest.mark.parametrize("few", [True, False])
def test_few_rows_are_written_by_the_driver_and_many_by_tasks(
    spark: SparkSession, connection: penstock.Connection, url: str, path: str, few: bool
) -> None:
    table = connection.create_table(path, ORDERS, buckets=3)
    data = some_orders(spark, 100 if few else 1_000_000).where("id < 100")

    pks.write(data, url, path, order_by="id" if few else None)

    assert [row["id"] for row in rows_of(table)] == list(range(100))
    assert is_few(data) is few
    assert not is_few(spark.range(1 << 62).crossJoin(spark.range(1 << 62).toDF("other")))
    assert not is_few(data.selectExpr("id", "explode(array(1, 2))")), "Spark does not know how many"
    assert not is_few(data.selectExpr("struct(id) AS nested")), "Spark cannot hand it over"


def test_the_plain_format_and_sql_write_the_same(
    spark: SparkSession, connection: penstock.Connection, url: str, path: str
) -> None:
    table = connection.create_table(path, ORDERS, buckets=2)
    pks.register(spark)
    data = some_orders(spark, 10)

    data.write.format("penstock").option("url", url).option("TABLE", path).mode("append").save()
    data.createOrReplaceTempView("more_orders")
    spark.sql(f"CREATE OR REPLACE TEMP VIEW penstock_orders USING penstock OPTIONS (url '{url}', table '{path}')")
    spark.sql("INSERT INTO penstock_orders SELECT id + 10, city, amount FROM more_orders")

    assert [row["id"] for row in rows_of(table)] == list(range(20))


def test_rows_of_one_key_are_written_in_the_order_named(
    spark: SparkSession, connection: penstock.Connection, url: str, path: str
) -> None:
    table = connection.create_table(path, ORDERS, buckets=2)
    versions = spark.range(4000, numPartitions=4).select(
        (sf.col("id") % 20).alias("id"),
        sf.lit("x").alias("city"),
        sf.col("id").cast("double").alias("amount"),
        (-sf.col("id")).alias("ago"),
    )

    pks.write(versions.orderBy(sf.rand(seed=7)), url, path, order_by="ago desc")

    assert [row["amount"] for row in rows_of(table)] == [float(3980 + key) for key in range(20)]


def test_columns_writes_those_alone_and_delete_takes_rows_away(
    spark: SparkSession, connection: penstock.Connection, url: str, path: str
) -> None:
    table = connection.create_table(path, ORDERS, buckets=2)
    table.upsert([{"id": key, "city": "Ulm", "amount": 1.0} for key in range(4)])

    pks.write(spark.range(2).withColumn("amount", sf.lit(7.5)), url, path, columns=["amount"])
    pks.write(spark.range(3, 4), url, path, operation="delete")

    assert rows_of(table) == [
        {"id": 0, "city": "Ulm", "amount": 7.5},
        {"id": 1, "city": "Ulm", "amount": 7.5},
        {"id": 2, "city": "Ulm", "amount": 1.0},
    ]


def test_a_log_table_takes_appends(spark: SparkSession, connection: penstock.Connection, url: str, path: str) -> None:
    table = connection.create_table(path, pa.schema([("id", pa.int64()), ("city", pa.string())]), buckets=2)

    pks.write(some_orders(spark, 500).drop("amount"), url, path)

    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == list(range(500))


def test_changes_of_one_table_are_applied_to_another_in_their_order(
    spark: SparkSession, connection: penstock.Connection, orders: penstock.Table, url: str, path: str
) -> None:
    copy = connection.create_table(f"{path}_copy", ORDERS, buckets=3)

    pks.write(pks.changes(spark, url, path), url, f"{path}_copy", operation="apply")

    assert rows_of(copy) == rows_of(orders)


def test_changes_retract_from_an_aggregate_also_where_the_key_moves(
    spark: SparkSession, connection: penstock.Connection, orders: penstock.Table, url: str, path: str
) -> None:
    by_city = connection.create_table(
        f"{path}_by_city", "city STRING, amount DOUBLE SUM, orders BIGINT COUNT, PRIMARY KEY (city)", buckets=3
    )
    changes = pks.changes(spark, url, path).withColumn("orders", sf.lit(1).cast("bigint")).drop("id")

    pks.write(changes, url, f"{path}_by_city", operation="apply")

    expected = orders.scan().to_arrow().group_by("city").aggregate([("amount", "sum"), ("id", "count")])
    assert {row["city"]: (row["amount"] or 0.0, row["orders"]) for row in rows_of(by_city) if row["orders"]} == {
        row["city"]: (row["amount_sum"] or 0.0, row["id_count"]) for row in expected.to_pylist()
    }


def test_updates_without_images_before_are_refused_by_an_aggregate_and_nothing_is_written(
    spark: SparkSession, connection: penstock.Connection, orders: penstock.Table, url: str, path: str
) -> None:
    target = connection.create_table(f"{path}_sums", "city STRING, amount DOUBLE SUM, PRIMARY KEY (city)", buckets=2)
    changes = pks.changes(spark, url, path, images="after").where("_change_type <> '-D'").drop("id")

    with pytest.raises(UnsupportedError, match="images='full'"):
        pks.write(changes, url, f"{path}_sums", operation="apply")

    assert rows_of(target) == []
    assert nothing_is_pending(connection, f"{path}_sums")


def test_deletes_without_images_before_are_refused_by_an_aggregate_and_nothing_is_written(
    spark: SparkSession, connection: penstock.Connection, orders: penstock.Table, url: str, path: str
) -> None:
    target = connection.create_table(f"{path}_sums", "id BIGINT, amount DOUBLE SUM, PRIMARY KEY (id)", buckets=2)
    changes = pks.changes(spark, url, path, images="after").where("_change_type <> '+U'").drop("city")

    with pytest.raises(UnsupportedError, match="deletes"):
        pks.write(changes, url, f"{path}_sums", operation="apply")

    assert rows_of(target) == []
    assert nothing_is_pending(connection, f"{path}_sums")
    full = pks.changes(spark, url, path).drop("city")
    pks.write(full, url, f"{path}_sums", operation="apply")
    left = {row["id"]: row["amount"] for row in rows_of(target) if row["amount"]}
    assert left == {row["id"]: row["amount"] for row in rows_of(orders) if row["amount"]}


def test_a_job_that_fails_leaves_nothing(
    spark: SparkSession, connection: penstock.Connection, url: str, path: str, write: Any
) -> None:
    table = connection.create_table(path, ORDERS, buckets=2)
    table.upsert([{"id": 1, "city": "kept", "amount": 1.0}])
    poisoned = some_orders(spark, 30_000).withColumn(
        "amount", sf.when(sf.col("id") == 29_999, sf.raise_error(sf.lit("poisoned"))).otherwise(sf.col("amount"))
    )

    with pytest.raises(PySparkException, match="poisoned"):
        write(poisoned, url, path)

    assert rows_of(table) == [{"id": 1, "city": "kept", "amount": 1.0}]
    assert not [owner for owner in connection.list_owners() if owner.table == path]


def test_overwrite_replaces_all_rows_when_it_commits_and_none_when_it_fails(
    spark: SparkSession, connection: penstock.Connection, url: str, path: str, write: Any
) -> None:
    table = connection.create_table(path, ORDERS, buckets=2)
    write(some_orders(spark, 100), url, path)
    before = rows_of(table)

    with pytest.raises(PySparkException, match="poisoned"):
        write(
            some_orders(spark, 10).withColumn("amount", sf.raise_error(sf.lit("poisoned")).cast("double")),
            url,
            path,
            overwrite=True,
        )
    after_failure = rows_of(table)
    write(some_orders(spark, 10, amount=3.0), url, path, overwrite=True)

    assert after_failure == before
    assert [(row["id"], row["amount"]) for row in rows_of(table)] == [(key, 3.0) for key in range(10)]


@pytest.mark.parametrize("dies", [False, True], ids=["raises", "exits"])
def test_a_failing_task_is_retried_and_its_rows_count_once(  # noqa: PLR0917 - fixtures
    spark: SparkSession, connection: penstock.Connection, url: str, path: str, write: Any, tmp_path: Path, dies: bool
) -> None:
    table = connection.create_table(path, "id BIGINT, n BIGINT SUM, PRIMARY KEY (id)", buckets=2)
    flag = str(tmp_path / "failed")

    def fail_once(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number, batch in enumerate(batches):
            yield batch
            if number == 1 and not Path(flag).exists():
                Path(flag).touch()
                if dies:
                    os._exit(1)
                raise RuntimeError("half-way")

    data = spark.range(60_000, numPartitions=2).select((sf.col("id") % 100).alias("id"), sf.lit(1).alias("n"))

    write(data.mapInArrow(fail_once, "id bigint, n int"), url, path)

    assert Path(flag).exists()
    assert {row["n"] for row in rows_of(table)} == {600}


def test_replace_sets_the_columns_of_an_aggregate_that_are_named(
    spark: SparkSession, connection: penstock.Connection, url: str, path: str
) -> None:
    table = connection.create_table(path, "id BIGINT, n BIGINT SUM, high BIGINT MAX, PRIMARY KEY (id)", buckets=2)
    data = spark.range(2).selectExpr("id", "5L AS n", "id AS high")
    pks.write(data, url, path)
    pks.write(data, url, path)

    pks.write(data.where("id = 1").selectExpr("id", "3L AS n"), url, path, columns=["n"], agg_mode="replace")

    assert rows_of(table) == [{"id": 0, "n": 10, "high": 0}, {"id": 1, "n": 3, "high": 1}]


def test_rows_folded_by_spark_give_what_the_table_would_have_folded(
    spark: SparkSession, connection: penstock.Connection, url: str, path: str
) -> None:
    ddl = (
        "k INT, total DECIMAL(18,2) SUM, n BIGINT COUNT, low DATE MIN, high STRING MAX, every BOOLEAN BOOL_AND, "
        "some BOOLEAN BOOL_OR, small INT SUM, PRIMARY KEY (k)"
    )
    plain, folded = connection.create_table(path, ddl, buckets=2), connection.create_table(f"{path}_f", ddl, buckets=2)
    data = spark.range(5000).select(
        (sf.col("id") % 11).cast("int").alias("k"),
        (sf.col("id") / 100).cast("decimal(18,2)").alias("total"),
        sf.when(sf.col("id") % 3 == 0, sf.col("id")).alias("n"),
        sf.date_add(sf.lit(datetime.date(2026, 1, 1)), (sf.col("id") % 300).cast("int")).alias("low"),
        sf.col("id").cast("string").alias("high"),
        (sf.col("id") % 5 > 0).alias("every"),
        (sf.col("id") == 17).alias("some"),
        (sf.col("id") % 100).cast("int").alias("small"),
    )

    for _ in range(2):
        pks.write(data, url, path)
        pks.write(pks.pre_aggregate(data, url, f"{path}_f"), url, f"{path}_f", agg_mode="merge_state")

    assert rows_of(folded) == rows_of(plain)
    assert isinstance(rows_of(plain)[0]["total"], Decimal)


def test_a_fold_that_needs_an_order_is_refused(
    spark: SparkSession, connection: penstock.Connection, url: str, path: str
) -> None:
    connection.create_table(path, "k BIGINT, s STRING LISTAGG, PRIMARY KEY (k)")

    with pytest.raises(UnsupportedError, match="without an order"):
        pks.pre_aggregate(spark.createDataFrame([(1, "a")], "k bigint, s string"), url, path)


def test_a_fold_that_does_not_fit_its_column_fails(
    spark: SparkSession, connection: penstock.Connection, url: str, path: str
) -> None:
    connection.create_table(path, "k BIGINT, n INT SUM, PRIMARY KEY (k)")
    data = spark.createDataFrame([(1, 2**31 - 1), (1, 1)], "k bigint, n int")

    with pytest.raises(PySparkException, match="does not fit its column"):
        pks.pre_aggregate(data, url, path).collect()


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("BIGINT SUM", "1.5D"),
        ("BIGINT SUM", "1e30D"),
        ("DECIMAL(10,2) SUM", "CAST(1.005 AS DECIMAL(10,3))"),
        ("FLOAT SUM", "0.1D"),
        ("INT MIN", "1.5D"),
        ("INT MAX", "3000000000L"),
        ("DECIMAL(10,2) MAX", "CAST(1.005 AS DECIMAL(10,3))"),
        ("DATE MIN", "TIMESTAMP_NTZ'2026-01-01 12:00:00'"),
    ],
)
def test_a_fold_refuses_the_values_that_the_table_would_refuse(  # noqa: PLR0917 - fixtures
    spark: SparkSession, connection: penstock.Connection, url: str, path: str, column: str, value: str
) -> None:
    connection.create_table(path, f"k INT, v {column}, PRIMARY KEY (k)")
    data = spark.range(2).selectExpr("1 AS k", f"{value} AS v")

    with pytest.raises(SchemaMismatchError, match="a value does not fit its column"):
        pks.write(data, url, path)
    with pytest.raises(PySparkException, match="a value does not fit its column column=v"):
        pks.pre_aggregate(data, url, path).collect()


def test_a_fold_takes_other_types_whose_values_fit(
    spark: SparkSession, connection: penstock.Connection, url: str, path: str
) -> None:
    table = connection.create_table(
        path, "k INT, whole BIGINT SUM, money DECIMAL(10,2) SUM, low INT MIN, day DATE MAX, PRIMARY KEY (k)"
    )
    data = spark.range(4).selectExpr(
        "1L AS K",
        "IF(id = 0, NULL, id / 1D) AS whole",
        "CAST(id AS DECIMAL(20, 4)) AS money",
        "id - 2 AS low",
        "IF(id = 0, NULL, TIMESTAMP_NTZ'2026-01-01 00:00:00') AS day",
    )

    pks.write(pks.pre_aggregate(data, url, path), url, path, agg_mode="merge_state")

    assert rows_of(table) == [
        {"k": 1, "whole": 6, "money": Decimal("6.00"), "low": -2, "day": datetime.date(2026, 1, 1)}
    ]


def test_a_column_that_the_table_lacks_is_refused_or_added(
    spark: SparkSession, connection: penstock.Connection, url: str, path: str
) -> None:
    connection.create_table(path, ORDERS)
    wider = some_orders(spark, 3).withColumn("note", sf.lit("new"))

    with pytest.raises(SchemaMismatchError, match="mergeSchema=true"):
        pks.write(wider, url, path)
    with pytest.raises(PySparkException, match="mergeSchema=true"):
        plain_write(wider, url, path)
    pks.write(wider, url, path, merge_schema=True)

    assert connection.table(path).scan().to_arrow()["note"].to_pylist() == ["new"] * 3


def test_names_are_matched_in_any_case_and_types_are_cast_where_nothing_is_lost(
    spark: SparkSession, connection: penstock.Connection, url: str, path: str
) -> None:
    table = connection.create_table(path, ORDERS, buckets=4)

    data = spark.createDataFrame([(number, "x", 1.5) for number in range(100)], "ID int, City string, AMOUNT float")
    pks.write(data, url, path, order_by="amount")

    assert [row["id"] for row in rows_of(table)] == list(range(100))


@pytest.mark.parametrize(
    ("schema", "options", "message"),
    [
        ("id string, city string, amount double", {}, "cannot take without loss"),
        ("id bigint, city string", {}, "missing from the data"),
        ("city string, amount double", {}, "missing from the data"),
        ("id bigint, city string, amount double", {"operation": "append"}, "only log tables"),
        ("id bigint, city string, amount double", {"operation": "apply"}, "_change_type|_offset"),
        ("id bigint, city string, amount double", {"agg_mode": "replace"}, "only aggregating tables"),
        ("id bigint, city string, amount double", {"columns": ["nope"]}, "the table lacks"),
        ("id bigint, city string, amount double", {"operation": "merge"}, "operation is one of"),
    ],
)
def test_what_does_not_fit_is_refused_before_a_row_moves(  # noqa: PLR0917 - fixtures
    spark: SparkSession,
    connection: penstock.Connection,
    url: str,
    path: str,
    schema: str,
    options: dict[str, Any],
    message: str,
) -> None:
    connection.create_table(path, ORDERS)

    with pytest.raises((PySparkException, InvalidError), match=message):
        pks.write(spark.createDataFrame([], schema), url, path, **options)


def test_an_unknown_option_and_an_order_without_a_shuffle_are_refused(
    spark: SparkSession, connection: penstock.Connection, url: str, path: str
) -> None:
    connection.create_table(path, ORDERS)
    pks.register(spark)
    plain = some_orders(spark, 1).write.format("penstock").option("url", url).option("table", path).mode("append")

    with pytest.raises(InvalidError, match="no such option"):
        pks.write(some_orders(spark, 1), url, path, colums=["id"])
    with pytest.raises(PySparkException, match=r"pks\.write"):
        plain.option("orderBy", "id").save()


def test_a_table_is_created_from_a_data_frame(spark: SparkSession, url: str, path: str) -> None:
    data = spark.createDataFrame([], "day date, city string, at timestamp, tags array<string>, n bigint")

    info = pks.create_table(data, url, f"new_{path}", primary_key=["day", "city"], buckets=4, bucket_key=["city"])
    sums = pks.create_table(data.select("city", "n"), url, f"new_{path}_n", primary_key="city", agg={"n": "sum"})

    assert (info.primary_key, info.buckets, info.bucket_key) == (("day", "city"), 4, ("city",))
    assert [str(column.type) for column in info.schema.columns[2:4]] == ["timestamp[us, tz=UTC]", "list<item: string>"]
    assert sums.schema.column("n").agg is penstock.AggFunction.SUM


def test_a_type_without_a_place_is_refused_at_create(spark: SparkSession, url: str, path: str) -> None:
    data = spark.sql("SELECT 1.5d AS k, INTERVAL 1 DAY AS gap")

    with pytest.raises(InvalidError, match="bigint"):
        pks.create_table(data, url, path, primary_key=["k"])
    with pytest.raises(InvalidError, match="decimal or bigint"):
        pks.create_table(data.select("k"), url, path, primary_key=["k"])
    for own in ("INTERVAL 1 MONTH", "PARSE_JSON('1')", "ARRAY(PARSE_JSON('1'))"):
        with pytest.raises(InvalidError, match=r"no table can have this type .* column=x"):
            pks.create_table(spark.sql(f"SELECT 1 AS k, {own} AS x"), url, path, primary_key=["k"])


def test_a_column_of_spark_s_own_type_may_stay_behind_but_is_not_added(
    spark: SparkSession, connection: penstock.Connection, url: str, path: str
) -> None:
    table = connection.create_table(path, ORDERS)
    wider = some_orders(spark, 3).withColumn("note", sf.lit("new"))

    for own in ("INTERVAL 1 MONTH", "PARSE_JSON('1')", "NULL"):
        with pytest.raises(InvalidError, match=r"can have this type.* column=x"):
            pks.write(wider.withColumn("x", sf.expr(own)), url, path, merge_schema=True)
    pks.write(some_orders(spark, 3).withColumn("x", sf.expr("INTERVAL 1 MONTH")), url, path, columns=["city"])

    assert connection.table(path).schema.names == table.schema.names
    assert len(rows_of(table)) == 3


def test_to_buckets_puts_each_bucket_into_its_partition(
    spark: SparkSession, connection: penstock.Connection, url: str, path: str
) -> None:
    table = connection.create_table(path, "id BIGINT, PRIMARY KEY (id)", buckets=5)
    numbers = spark.range(200).select(sf.col("id").cast("int").alias("id"))
    table.upsert([{"id": number} for number in range(200)])

    parts = pks.to_buckets(numbers, url, path).withColumn("part", sf.spark_partition_id()).collect()

    expected = {
        bucket: set(table.scan(buckets=[bucket]).to_arrow()["id"].to_pylist()) for bucket in range(table.info.buckets)
    }
    assert {bucket: {row.id for row in parts if row.part == bucket} for bucket in expected} == expected
    with pytest.raises(SchemaMismatchError, match="bucket key"):
        pks.to_buckets(numbers.withColumnRenamed("id", "other"), url, path)


def test_partitioned_tables_are_written_with_new_partitions(
    spark: SparkSession, connection: penstock.Connection, url: str, path: str
) -> None:
    table = connection.create_table(
        path, "day STRING, id BIGINT, PRIMARY KEY (day, id)", buckets=2, bucket_key=["id"], partitioned_by=["day"]
    )
    data = spark.range(100).select(sf.concat(sf.lit("d"), sf.col("id") % 3).alias("day"), "id")

    pks.write(data, url, path, order_by="id")

    assert len(rows_of(table)) == 100
    assert len(table.list_partitions()) == 3


@pytest.mark.parametrize("few", [True, False])
def test_all_types_come_back_as_they_were_in_any_time_zone(spark: SparkSession, url: str, path: str, few: bool) -> None:
    data = spark.sql(
        """
        SELECT id AS k, id % 2 = 0 AS b, CAST(id AS TINYINT) AS i8, CAST(id AS SMALLINT) AS i16, CAST(id AS INT) AS i32,
               CAST(id / 3 AS FLOAT) AS f, id / 7 AS d, CAST(id / 10 AS DECIMAL(20, 4)) AS m,
               CONCAT('s', id) AS s, CAST(CONCAT('b', id) AS BINARY) AS raw,
               DATE_ADD(DATE'2026-01-01', CAST(id AS INT)) AS day,
               TIMESTAMP'2026-03-29 01:59:59.123456' + MAKE_INTERVAL(0, 0, 0, CAST(id AS INT)) AS at,
               TIMESTAMP_NTZ'2026-03-29 02:30:00' AS clock,
               ARRAY(id, NULL, id + 1) AS list, NAMED_STRUCT('x', id, 'y', ARRAY('a', NULL)) AS pair,
               MAP(CONCAT('k', id), id) AS tags, IF(id = 3, NULL, 'there') AS maybe
        FROM RANGE(10)
        """
    )
    data = data.drop("list", "pair", "tags") if few else data
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        pks.create_table(data, url, path, primary_key=["k"], buckets=2)
        pks.write(data, url, path)
        back = pks.read(spark, url, path).orderBy("k").collect()
        given = data.orderBy("k").collect()
    finally:
        spark.conf.set("spark.sql.session.timeZone", str(zone))

    assert back == given
    assert is_few(data) is few


@pytest.mark.usefixtures("by_tasks")
def test_a_task_that_wrote_has_loaded_no_engine(
    spark: SparkSession, connection: penstock.Connection, url: str, path: str
) -> None:
    connection.create_table(path, ORDERS)
    pks.write(some_orders(spark, 10), url, path)

    def loaded(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import sys

        for _ in batches:
            names = [name for name in sys.modules if name.startswith(("penstock", "rocksdict"))]
            yield pa.RecordBatch.from_pydict({"name": names})

    # The Python workers are reused: these are those that wrote.
    names = {row.name for row in spark.range(2, numPartitions=2).mapInArrow(loaded, "name string").collect()}

    assert "penstock.spark.writing.task_writer" in names
    rooms = {".".join(name.split(".")[:2]) for name in names}
    assert rooms.isdisjoint({"rocksdict", "penstock.engine", "penstock.index", "penstock.tablet", "penstock.server"})
