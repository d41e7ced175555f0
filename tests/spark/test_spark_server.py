"""Batch jobs through a restart of their server, and jobs of every kind against one that asks who they are."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import penstock
import penstock.spark as pks
from penstock.errors import PenstockError
from penstock.testing.server import ServerProcess, server

TOKEN = "a token of a test"
ROWS = 40_000


def halted(df: DataFrame, home: Path) -> DataFrame:
    """Return the rows, of which one task stops half-way until somebody lets it go on."""
    waits, goes_on = str(home / "waits"), str(home / "goes-on")

    def halt(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number, batch in enumerate(batches):
            yield batch
            if number == 0 and not Path(waits).exists():
                Path(waits).touch()
                while not Path(goes_on).exists():
                    threading.Event().wait(0.02)

    return df.mapInArrow(halt, df.schema)


def restarted_within(process: ServerProcess, home: Path, job: Callable[[], object]) -> None:
    """Run a job of rows that halt, and restart the server while they do."""

    def restart() -> None:
        while not (home / "waits").exists():
            ended.wait(0.02)
        process.restart()
        (home / "goes-on").touch()

    ended = threading.Event()
    killer = threading.Thread(target=restart, daemon=True)
    killer.start()
    job()
    killer.join(60)
    assert (home / "goes-on").exists(), "the server was restarted while the job ran"


@pytest.mark.usefixtures("by_tasks")
@pytest.mark.parametrize("way", ["function", "format"])
def test_a_batch_is_written_and_read_once_through_a_restart_of_the_server(
    spark: SparkSession, tmp_path: Path, way: str
) -> None:
    homes = [tmp_path / name for name in ("write", "read")]
    for home in homes:
        home.mkdir()
    rows = spark.range(ROWS, numPartitions=2).selectExpr("id % 100 AS id", "1L AS n")
    with ServerProcess(tmp_path / "data") as process:
        with penstock.connect(process.url) as connection:
            connection.create_database("shop")
            connection.create_table("shop.sums", "id BIGINT, n BIGINT SUM, PRIMARY KEY (id)", buckets=2)
        source = halted(rows, homes[0])
        if way == "function":
            restarted_within(process, homes[0], lambda: pks.write(source, process.url, "shop.sums"))
        else:
            writer = source.write.format("penstock").options(url=process.url, table="shop.sums").mode("append")
            restarted_within(process, homes[0], writer.save)
        seen: list[tuple[int, int]] = []
        read = halted(pks.read(spark, process.url, "shop.sums"), homes[1])
        restarted_within(process, homes[1], lambda: seen.extend(map(tuple, read.collect())))

        with penstock.connect(process.url) as connection:
            owners = connection.list_owners()

    assert sorted(seen) == [(key, ROWS // 100) for key in range(100)]
    assert owners == []


def test_a_token_goes_with_every_read_and_write(spark: SparkSession, tmp_path: Path) -> None:
    names = tmp_path / "tokens"
    names.write_text(f"etl:{hashlib.sha256(TOKEN.encode()).hexdigest()}\n")
    with server(tmp_path / "data", token_file=names) as running, penstock.connect(running.url, token=TOKEN) as conn:
        url, rows = running.url, spark.range(10).selectExpr("id", "id AS v")
        pks.create_table(rows, url, "shop.a", primary_key="id", buckets=2, token=TOKEN)
        pks.create_table(rows, url, "shop.b", primary_key="id", buckets=2, token=TOKEN)
        start = conn.table("shop.a").cut()

        pks.write(rows, url, "shop.a", token=TOKEN, order_by="v")
        rows.write.format("penstock").options(url=url, table="shop.a", token=TOKEN).mode("append").save()
        stream = pks.read_stream(spark, url, "shop.a", starting=start, token=TOKEN, retain="1h")
        pks.write_stream(
            stream,
            url,
            "shop.b",
            operation="apply",
            checkpoint=str(tmp_path / "checkpoint"),
            trigger={"availableNow": True},
            token=TOKEN,
        ).awaitTermination()

        copied = pks.lookup_join(rows.select("id"), url, "shop.b", how="inner", token=TOKEN)
        assert sorted(map(tuple, copied.collect())) == sorted(map(tuple, rows.collect()))
        assert pks.changes(spark, url, "shop.a", start=start, token=TOKEN).where("_change_type = '+I'").count() == 10
        assert pks.views(spark, url, "shop", token=TOKEN) == ["a", "b"]
        plan = pks.read(spark, url, "shop.a", token=TOKEN)._jdf.queryExecution().toString()
        assert TOKEN not in plan
        kept = [file.read_bytes() for file in (tmp_path / "checkpoint").rglob("*") if file.is_file()]
        assert kept
        assert not [text for text in kept if TOKEN.encode() in text]
        for wrong in (None, "another"):
            with pytest.raises(PenstockError, match="token"):
                pks.read(spark, url, "shop.a", token=wrong)
            with pytest.raises(PenstockError, match="token"):
                pks.write(rows, url, "shop.a", token=wrong)
