"""What people get wrong: the message names it and says what to do, also at the end of a trace of Spark's."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import penstock
import penstock.spark as pks
from penstock.errors import (
    InvalidError,
    LockedError,
    PenstockError,
    SchemaMismatchError,
    TableNotFoundError,
    UnavailableError,
)

NOWHERE = "penstock://127.0.0.1:1"


class Desk:
    """Somebody's session: a server, a table of orders, and a DataFrame of them."""

    def __init__(self, spark: SparkSession, url: str, path: str, home: Path) -> None:
        self.spark = spark
        self.url = url
        self.path = path
        self.checkpoint = str(home / "checkpoint")
        self.rows = spark.range(5).selectExpr("id", "'x' AS city", "1.5D AS amount")

    def text_ids(self, df: DataFrame) -> DataFrame:
        return df.selectExpr("CAST(id AS STRING) AS id", "city", "amount")

    def stream(self) -> DataFrame:
        source = self.spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 5).load()
        return source.selectExpr("value AS id", "'x' AS city", "1.5D AS amount")

    def read(self, **options: Any) -> DataFrame:
        return pks.read(self.spark, options.pop("url", self.url), options.pop("table", self.path), **options)

    def changes(self, **options: Any) -> DataFrame:
        return pks.changes(self.spark, self.url, self.path, **options)

    def read_stream(self, **options: Any) -> DataFrame:
        return pks.read_stream(self.spark, self.url, self.path, **options)

    def write(self, df: DataFrame | None = None, **options: Any) -> None:
        chosen = self.rows if df is None else df
        pks.write(chosen, options.pop("url", self.url), options.pop("table", self.path), **options)

    def write_stream(self, df: DataFrame | None = None, **options: Any) -> None:
        chosen, table = self.stream() if df is None else df, options.pop("table", self.path)
        pks.write_stream(chosen, self.url, table, checkpoint=self.checkpoint, **options)

    def load(self, **options: Any) -> DataFrame:
        return self.spark.read.format("penstock").options(**{"url": self.url, "table": self.path, **options}).load()

    def saved_as_table(self) -> DataFrame:
        name = self.path.replace(".", "_")
        self.rows.write.format("penstock").options(url=self.url, table=self.path).mode("append").saveAsTable(name)
        return self.spark.table(name)

    def drained(self, df: DataFrame) -> None:
        df.writeStream.format("noop").option("checkpointLocation", self.checkpoint).start().awaitTermination(60)

    def save(self, df: DataFrame | None = None, mode: str = "append", **options: Any) -> None:
        chosen = self.rows if df is None else df
        asked = {"url": self.url, "table": self.path, **options}
        chosen.write.format("penstock").options(**asked).mode(mode).save()


@pytest.fixture
def desk(spark: SparkSession, url: str, orders: penstock.Table, tmp_path: Path) -> Desk:
    """Return a session with a table of orders."""
    pks.register(spark)
    return Desk(spark, url, orders.path, tmp_path)


Mistake = Callable[[Desk], object]
MISTAKES: dict[str, tuple[Mistake, type[PenstockError], str]] = {
    "read an unknown option": (lambda d: d.read(colums=["id"]), InvalidError, "did you mean columns"),
    "read a missing table": (lambda d: d.read(table=d.path + "s"), TableNotFoundError, r"mean shop\.t_.*create it"),
    "read an unknown column": (lambda d: d.read(columns=["town"]), InvalidError, "there are id, city, amount"),
    "read by a filter that ends": (lambda d: d.read(filter="amount >"), InvalidError, "expected a column or a literal"),
    "read by an unknown column": (lambda d: d.read(filter="amuont > 1"), InvalidError, "did you mean amount"),
    "read at a time": (lambda d: d.read(as_of=dt.datetime.now(dt.UTC)), InvalidError, r"what pks\.cut or cut\(\)"),
    "read what is for writes": (lambda d: d.read(operation="delete"), InvalidError, "it is for: write"),
    "stream at a cut": (lambda d: d.read_stream(as_of=pks.cut(d.url, d.path)), InvalidError, "it is for: read"),
    "write by a filter": (lambda d: d.write(filter="id > 1"), InvalidError, "it is for: read, stream; leave it out"),
    "join by a filter": (
        lambda d: pks.lookup_join(d.rows.select("id"), d.url, d.path, filter="id > 1"),
        InvalidError,
        "it is for: read, stream; leave it out option=filter",
    ),
    "stream without its checkpoint": (
        lambda d: pks.write_stream(d.stream(), d.url, d.path, checkpoint=""),
        InvalidError,
        "pass checkpoint=",
    ),
    "read a snapshot at a cut": (
        lambda d: d.read(source="snapshot", as_of=pks.cut(d.url, d.path)),
        InvalidError,
        "only live rows are read as_of a cut",
    ),
    "read at no cut": (lambda d: d.read(as_of="yesterday"), InvalidError, r"pks\.cut"),
    "read where no server is": (lambda d: d.read(url=NOWHERE, retry_timeout="1s"), UnavailableError, "that it runs"),
    "read the changes of no kind": (lambda d: d.changes(images="before"), InvalidError, "images is one of full, after"),
    "read changes from nowhere": (lambda d: d.changes(start="yesterday"), InvalidError, "a start is earliest, latest"),
    "stream from nowhere": (lambda d: d.read_stream(starting="yesterday"), InvalidError, "a start is earliest, latest"),
    "stream from no cut": (lambda d: d.read_stream(starting='{"a": 1}'), InvalidError, "unchanged"),
    "stream nothing at a time": (lambda d: d.read_stream(max_rows_per_trigger=0), InvalidError, "at least 1 found=0"),
    "stream by a size that is none": (lambda d: d.read_stream(max_bytes_per_trigger="much"), InvalidError, "much"),
    "keep the log for no time": (lambda d: d.read_stream(retain="long"), InvalidError, "long"),
    "write where no server is": (lambda d: d.write(url=NOWHERE, retry_timeout="1s"), UnavailableError, "that it runs"),
    "write a missing table": (lambda d: d.write(table=d.path + "s"), TableNotFoundError, r"mean shop\.t_.*create it"),
    "write another type": (lambda d: d.write(d.text_ids(d.rows)), SchemaMismatchError, "cast it first column=id"),
    "write without the key": (lambda d: d.write(d.rows.drop("id")), SchemaMismatchError, "add it column=id"),
    "write a null key": (
        lambda d: d.write(d.rows.selectExpr("IF(id = 3, NULL, id) AS id", "city", "amount")),
        SchemaMismatchError,
        "never null; fill it or leave the row out column=id",
    ),
    "write in an unknown order": (lambda d: d.write(order_by="att"), InvalidError, "order_by names columns"),
    "stream into a missing table": (
        lambda d: d.write_stream(table=d.path + "s"),
        TableNotFoundError,
        r"did you mean shop\.t_",
    ),
    "stream another type": (lambda d: d.write_stream(d.text_ids(d.stream())), SchemaMismatchError, "cast it first"),
    "stream with another visibility": (lambda d: d.write_stream(visibility="now"), InvalidError, "immediate, commit"),
    "stream in an unknown order": (lambda d: d.write_stream(order_by="att"), InvalidError, "order_by names columns"),
}
IN_A_TRACE: dict[str, tuple[Mistake, str]] = {
    "load an unknown option": (lambda d: d.load(colums="id"), "InvalidError: no such option; did you mean columns"),
    "load a missing table": (
        lambda d: d.load(table=d.path + "s"),
        "TableNotFoundError: no such table; did you mean",
    ),
    "load from no url": (
        lambda d: d.load(url="http://127.0.0.1:1"),
        "InvalidError: not a server's url; it is penst",
    ),
    "load where no server is": (
        lambda d: d.load(url=NOWHERE, retryTimeout="1s"),
        "UnavailableError: no server answe",
    ),
    "save another type": (lambda d: d.save(d.text_ids(d.rows)), "SchemaMismatchError: .*; cast it first column=id"),
    "save without the key": (
        lambda d: d.save(d.rows.drop("id")),
        "SchemaMismatchError: .* missing .*add it column=id",
    ),
    "save a stream's order": (lambda d: d.save(orderBy="id"), r"InvalidError: .*use pks\.write"),
    "save without a mode": (lambda d: d.save(mode="error"), 'use either the "Append" or "Overwrite" mode'),
    "load without options": (lambda d: d.spark.read.format("penstock").load(), "InvalidError: name the server and the"),
    "read what was saved as a table": (lambda d: d.saved_as_table().count(), "InvalidError: .*use CREATE TEMP VIEW"),
    "create a table by SQL": (
        lambda d: d.spark.sql(f"CREATE TABLE t USING penstock OPTIONS (url '{d.url}', table '{d.path}')"),
        r"InvalidError: .*create tables by pks\.create_table",
    ),
    "load a stream of nothing at a time": (
        lambda d: (
            d.spark.readStream.format("penstock")
            .options(url=d.url, table=d.path, source="log", maxRowsPerTrigger=0)
            .load()
        ),
        "InvalidError: max_rows_per_trigger is a number, at least 1",
    ),
    "stream rows without what happens to them": (
        lambda d: d.drained(d.spark.readStream.format("penstock").options(url=d.url, table=d.path).load()),
        r"InvalidError: a stream of a keyed table has changes of all kinds: set option source=log(?s:(?!Unbound).)*$",
    ),
    "stream without a checkpoint": (
        lambda d: d.stream().writeStream.format("penstock").options(url=d.url, table=d.path).start(),
        "checkpointLocation must be specified",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_function_raises_our_own_error_before_a_row_moves(
    desk: Desk, orders: penstock.Table, connection: penstock.Connection, name: str
) -> None:
    mistake, kind, message = MISTAKES[name]
    before = orders.cut()

    with pytest.raises(kind, match=message):
        mistake(desk)

    assert orders.cut() == before
    assert not [owner for owner in connection.list_owners() if owner.table == orders.path]


@pytest.mark.parametrize("name", IN_A_TRACE)
def test_a_plain_format_says_it_in_one_line_of_the_trace(desk: Desk, name: str) -> None:
    mistake, message = IN_A_TRACE[name]

    with pytest.raises(PySparkException, match=message):
        mistake(desk)


def test_columns_that_somebody_holds_are_named_with_their_holder(
    desk: Desk, connection: penstock.Connection, url: str, path: str
) -> None:
    sums = connection.create_table(f"{path}_sums", "id BIGINT, n BIGINT SUM, PRIMARY KEY (id)")

    with (
        sums.acquire_owner("nightly", ttl="1s"),
        pytest.raises(LockedError, match=r"wait until it lets go holder=nightly columns=\['n'\]"),
    ):
        pks.write(desk.rows.selectExpr("id", "1L AS n"), url, sums.path)


def test_a_stream_is_started_also_while_its_server_is_away_and_says_so_when_it_gives_up(desk: Desk) -> None:
    query = pks.write_stream(desk.stream(), NOWHERE, desk.path, checkpoint=desk.checkpoint, retry_timeout="1s")

    with pytest.raises(PySparkException, match="UnavailableError: no server answers; check that it runs"):
        query.awaitTermination(60)
