"""Spark's checkpoints, cuts and plans are taken by the database that they were made for, and by no other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import StructType
from tests.unit.spark.streaming.test_stream_reader import Stream, ids

import penstock
from penstock.errors import ConflictError, InvalidError
from penstock.spark.pipeline.reads import cut
from penstock.spark.sources.source import PenstockDataSource

DDL = "id BIGINT, v STRING, PRIMARY KEY (id)"
V0_1_LOG: dict[str, Any] = {
    **{"version": 1, "table": "default.t", "table_id": 1, "bucket_count": 1},
    **{"phase": "log", "next": {"0": 10}, "began": {"0": 10}},
}
V0_1_SNAPSHOT: dict[str, Any] = {
    **{"version": 1, "table": "default.t", "table_id": 1, "bucket_count": 1},
    **{"phase": "snapshot", "next": {"0": 10}, "cut": {"0": 10}, "cut_us": 5, "lease": "spark-x"},
}


def fill(connection: penstock.Connection, rows: range = range(10)) -> penstock.Table:
    table = connection.create_table("t", DDL, if_not_exists=True)
    table.upsert([{"id": number, "v": "a"} for number in rows])
    return table


def port_of(server: Any) -> int:
    return int(server.url.rpartition(":")[2])


@pytest.mark.parametrize("stored", [V0_1_LOG, V0_1_SNAPSHOT], ids=["log", "snapshot"])
def test_checkpoint_of_version_0_1_goes_on(tmp_path: Path, stored: dict[str, Any]) -> None:
    with penstock.serve(tmp_path / "data") as server, penstock.connect(server.url) as connection:
        fill(connection)
        fill(connection, range(100, 105))
        stream = Stream(server.url)
        stream.stands = stored

        assert ids(stream.run()) == list(range(100, 105))
        assert stream.stands["database"] == connection.table("t").cut().database


def test_checkpoint_cut_and_plan_of_another_database_are_refused_at_the_same_address(tmp_path: Path) -> None:
    with penstock.serve(tmp_path / "one") as server:
        with penstock.connect(server.url) as connection:
            fill(connection)
            text = cut(server.url, "t")
            assert text == connection.table("t").cut().to_json()
        stream = Stream(server.url)
        stream.run()
        source = PenstockDataSource({"url": server.url, "table": "t", "retryTimeout": "1s"})
        schema = source.schema()
        assert isinstance(schema, StructType)
        reader = source.reader(schema)
        splits = reader.partitions()
        port = port_of(server)
    with penstock.serve(tmp_path / "two", port=port) as server:
        with penstock.connect(server.url) as connection:
            fill(connection, range(500, 520))

        with pytest.raises(ConflictError, match="the server at this address serves another database now"):
            list(reader.read(splits[0]))
        with pytest.raises(ConflictError, match="the server at this address serves another database now"):
            stream.step()
        again = Stream(server.url)
        with pytest.raises(InvalidError, match="the checkpoint cannot be used here: it is of another database"):
            again.reader.latestOffset(stream.stands, ReadAllAvailable())
        for options in ({"asOf": text}, {"source": "log", "end": text}):
            asked = PenstockDataSource({"url": server.url, "table": "t", **options})
            with pytest.raises(InvalidError, match="the position cannot be used here: it is of another database"):
                asked.reader(schema if "asOf" in options else asked.schema()).partitions()
        assert ids(again.run()) == list(range(500, 520))


def test_restored_database_goes_on_with_a_checkpoint_that_is_not_beyond_the_backup(tmp_path: Path) -> None:
    with penstock.serve(tmp_path / "origin") as server:
        with penstock.connect(server.url) as connection:
            fill(connection)
        stream = Stream(server.url)
        stream.run()
        at_backup = stream.stands
    with penstock.connect(tmp_path / "origin") as connection:
        connection.backup(tmp_path / "backup")
    with penstock.serve(tmp_path / "origin") as server:
        with penstock.connect(server.url) as connection:
            fill(connection, range(100, 105))
        stream = Stream(server.url)
        stream.stands = at_backup
        assert ids(stream.run()) == list(range(100, 105))
        beyond = stream.stands
    penstock.restore(tmp_path / "backup", tmp_path / "copy")

    with penstock.serve(tmp_path / "copy") as server:
        with penstock.connect(server.url) as connection:
            fill(connection, range(200, 203))
        stream = Stream(server.url)
        with pytest.raises(InvalidError, match="restored from a backup that does not have those changes"):
            stream.reader.latestOffset(beyond, ReadAllAvailable())
        stream.stands = at_backup
        assert ids(stream.run()) == [200, 201, 202]
