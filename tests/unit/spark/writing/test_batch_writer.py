"""Batch writers asked as Spark asks them, without Spark: planned, pickled to tasks, committed or aborted."""

from __future__ import annotations

import pickle

import pyarrow as pa
import pytest

import penstock
from penstock.errors import UnsupportedError
from penstock.spark.session.options import Options
from penstock.spark.session.spark_types import spark_schema
from penstock.spark.writing.batch_writer import BatchWriter

SCHEMA = pa.schema([("id", pa.int64()), ("city", pa.string())])


def writer_of(url: str, table: str, *, overwrite: bool) -> BatchWriter:
    return BatchWriter(Options({"url": url, "table": table}), spark_schema(SCHEMA), overwrite)


def rows(city: str, *ids: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"id": list(ids), "city": [city] * len(ids)}, schema=SCHEMA)


def cities(table: penstock.Table) -> dict[int, str]:
    return {row["id"]: row["city"] for row in table.scan().to_arrow().to_pylist()}


def test_overwrite_takes_the_place_of_all_rows_at_its_commit(url: str, connection: penstock.Connection) -> None:
    table = connection.create_table("replaced", "id BIGINT, city STRING, PRIMARY KEY (id)", buckets=2)
    table.upsert(rows("old", 1, 2, 3))
    writer = writer_of(url, "replaced", overwrite=True)
    task = pickle.loads(pickle.dumps(writer))

    messages = [task.write(iter([rows("new", 3, 4)])), task.write(iter([rows("new", 5)]))]
    table.upsert(rows("other", 2, 4, 9))
    before = cities(table)
    pickle.loads(pickle.dumps(writer)).commit(messages)

    assert before == {1: "old", 2: "other", 3: "old", 4: "other", 9: "other"}
    assert cities(table) == {3: "new", 4: "new", 5: "new"}
    assert connection.list_owners() == []


def test_overwrite_that_is_aborted_changes_nothing(url: str, connection: penstock.Connection) -> None:
    table = connection.create_table("kept", "id BIGINT, city STRING, PRIMARY KEY (id)", buckets=2)
    table.upsert(rows("old", 1, 2))
    writer = writer_of(url, "kept", overwrite=True)

    writer.abort([writer.write(iter([rows("new", 2, 3)])), None])

    assert cities(table) == {1: "old", 2: "old"}
    assert connection.list_owners() == []


def test_append_leaves_what_others_wrote(url: str, connection: penstock.Connection) -> None:
    table = connection.create_table("both", "id BIGINT, city STRING, PRIMARY KEY (id)", buckets=2)
    writer = writer_of(url, "both", overwrite=False)
    message = writer.write(iter([rows("new", 2, 3)]))
    table.upsert(rows("other", 1, 2))

    writer.commit([message])

    assert cities(table) == {1: "other", 2: "new", 3: "new"}


def test_a_table_that_deletes_nothing_is_not_overwritten(url: str, connection: penstock.Connection) -> None:
    connection.create_table("log", SCHEMA)
    connection.create_table(
        "firm", "id BIGINT, city STRING, PRIMARY KEY (id)", properties={"delete.behavior": "disable"}
    )

    for name, message in (("log", "rows of a log table stay"), ("firm", r"delete\.behavior=allow")):
        with pytest.raises(UnsupportedError, match=message):
            writer_of(url, name, overwrite=True)
