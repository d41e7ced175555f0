"""Batch readers, asked as Spark asks them: splits cover a table once, at one cut."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import IntegerType, StringType, StructField, StructType

import penstock
from penstock.errors import InvalidError, OffsetOutOfRangeError, PartitionNotFoundError, SchemaMismatchError
from penstock.spark.pipeline.reads import cut
from penstock.spark.sources.source import PenstockDataSource
from penstock.testing.server import ServerProcess

DDL = "id BIGINT, v STRING, PRIMARY KEY (id)"


def reader_of(url: str, schema: StructType | None = None, **options: object) -> DataSourceReader:
    source = PenstockDataSource({"url": url, "table": "default.t"} | {k: str(v) for k, v in options.items()})
    found = source.schema() if schema is None else schema
    # Spark pickles a reader before it is asked to plan.
    made: DataSourceReader = pickle.loads(pickle.dumps(source.reader(found)))
    return made


def rows_of(reader: DataSourceReader) -> list[dict[str, Any]]:
    return [row for split in reader.partitions() for row in read(reader, split)]


def read(reader: DataSourceReader, split: InputPartition) -> list[dict[str, Any]]:
    return [row for batch in reader.read(split) for row in pa.Table.from_batches([batch]).to_pylist()]


def test_ranges_of_large_buckets_cover_every_row_once(url: str, connection: penstock.Connection) -> None:
    table = connection.create_table("t", DDL, buckets=3)
    table.upsert([{"id": number, "v": "a"} for number in range(1000)])
    table.upsert([{"id": number, "v": "b"} for number in range(0, 1000, 3)])
    reader = reader_of(url, split_rows=50)

    splits = reader.partitions()

    assert len(splits) >= 20
    expected = sorted(table.scan().to_arrow().to_pylist(), key=lambda row: row["id"])
    assert sorted(rows_of(reader), key=lambda row: row["id"]) == expected


@pytest.mark.parametrize("key", ["", ", PRIMARY KEY (id, day)"], ids=["log", "keyed"])
def test_ranges_are_of_one_size_also_where_offsets_begin_high(
    url: str, connection: penstock.Connection, key: str
) -> None:
    table = connection.create_table("t", f"id BIGINT, day STRING{key}", partitioned_by=["day"])
    put = table.upsert if key else table.append
    rows = [{"id": number, "day": "mon"} for number in range(1000)]
    put(rows)
    reader = reader_of(url, split_rows=100)
    plan = reader.partitions()
    table.drop_partition({"day": "mon"})
    put(rows)

    sizes = [len(read(reader_of(url, split_rows=100), split)) for split in reader_of(url, split_rows=100).partitions()]

    assert sizes == [100] * 10 + [0]
    # The plan that was made before reads what is there now, if not in ranges of one size.
    assert sorted(row["id"] for split in plan for row in read(reader, split)) == list(range(1000))


def test_ranges_of_a_log_begin_at_its_base(url: str, connection: penstock.Connection) -> None:
    table = connection.create_table("t", "id BIGINT")
    table.append({"id": list(range(5000))})
    table.truncate()
    table.append({"id": list(range(1000))})
    reader = reader_of(url, split_rows=100)

    assert [len(read(reader, split)) for split in reader.partitions()] == [100] * 10


@pytest.mark.parametrize("key", ["", ", PRIMARY KEY (id, day)"], ids=["log", "keyed"])
def test_cut_of_a_partition_that_was_dropped_is_refused(url: str, connection: penstock.Connection, key: str) -> None:
    table = connection.create_table("t", f"id BIGINT, day STRING{key}", partitioned_by=["day"])
    put = table.upsert if key else table.append
    put([{"id": number, "day": "mon"} for number in range(5)])
    reader = reader_of(url, as_of=cut(url, "default.t"))
    plan = reader.partitions()
    assert len([row for split in plan for row in read(reader, split)]) == 5
    table.drop_partition({"day": "mon"})

    with pytest.raises(PartitionNotFoundError):
        read(reader, plan[0])
    put([{"id": number, "day": "mon"} for number in range(50)])
    with pytest.raises((OffsetOutOfRangeError, PartitionNotFoundError)):
        read(reader, plan[0])


def test_tasks_of_one_plan_read_one_cut_through_a_restart_of_the_server(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data") as process, penstock.connect(process.url) as connection:
        table = connection.create_table("t", DDL, buckets=4)
        table.upsert([{"id": number, "v": "a"} for number in range(100)])
        reader = reader_of(process.url)
        first, *rest = reader.partitions()

        rows = read(reader, first)
        process.restart()
        table.upsert([{"id": number, "v": "b"} for number in range(200)])
        rows += [row for split in rest for row in read(reader, split)]

        assert sorted(row["id"] for row in rows) == list(range(100))
        assert {row["v"] for row in rows} == {"a"}


def test_log_table_reads_all_that_is_kept(url: str, connection: penstock.Connection) -> None:
    table = connection.create_table("t", "id BIGINT, v STRING", buckets=2)
    table.append([{"id": number, "v": "a"} for number in range(100)])
    table.truncate()
    table.append([{"id": number, "v": "b"} for number in range(100, 150)])

    assert sorted(row["id"] for row in rows_of(reader_of(url, columns="id", filter="id < 140"))) == list(
        range(100, 140)
    )


def test_changes_go_from_a_cut_to_a_cut(url: str, connection: penstock.Connection) -> None:
    table = connection.create_table("t", DDL, buckets=2)
    table.upsert([{"id": number, "v": "a"} for number in range(10)])
    start = cut(url, "default.t")
    table.upsert([{"id": number, "v": "b"} for number in range(5, 15)])
    end = cut(url, "default.t")
    table.delete([{"id": 0}])

    full = rows_of(reader_of(url, source="log", start=start, end=end))
    after = rows_of(reader_of(url, source="log", images="after"))

    assert sorted(row["_change_type"] for row in full) == ["+I"] * 5 + ["+U"] * 5 + ["-U"] * 5
    assert sorted(row["_change_type"] for row in after) == ["+I"] * 15 + ["+U"] * 5 + ["-D"]


def test_cut_that_is_no_longer_kept_says_so(url: str, connection: penstock.Connection) -> None:
    table = connection.create_table("t", "id BIGINT")
    table.append({"id": [1, 2, 3]})
    start = cut(url, "default.t")
    table.append({"id": [4]})
    table.truncate()
    table.append({"id": [5]})

    with pytest.raises(OffsetOutOfRangeError, match="no longer kept"):
        rows_of(reader_of(url, source="log", start=start))


@pytest.mark.parametrize(
    "field",
    [StructField("nothing", StringType()), StructField("id", IntegerType()), StructField("v", StringType(), False)],
    ids=["unknown column", "other type", "may be null"],
)
def test_schemas_that_the_table_cannot_meet_are_refused(
    url: str, connection: penstock.Connection, field: StructField
) -> None:
    connection.create_table("t", DDL)

    with pytest.raises(SchemaMismatchError):
        reader_of(url, StructType([field]))


def test_cut_of_another_table_is_refused_when_the_read_is_planned(url: str, connection: penstock.Connection) -> None:
    connection.create_table("t", DDL)
    connection.create_table("u", DDL)

    with pytest.raises(InvalidError, match="another table"):
        reader_of(url, as_of=cut(url, "default.u")).partitions()
