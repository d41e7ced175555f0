"""What a job says that cannot go on, or not yet: our own line first, at the first try."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

import penstock
import penstock.spark as pks
from penstock.errors import SchemaMismatchError

REFUSAL = "penstock.errors.SchemaMismatchError: the column is declared not null"
COLUMNS = "id bigint, v int"


@pytest.fixture
def required(connection: penstock.Connection, path: str) -> penstock.Table:
    """Return a table with a column that is never null."""
    return connection.create_table(path, "id BIGINT, v INT NOT NULL, PRIMARY KEY (id)")


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """Return a directory with a file of rows, one of which has no value in a column."""
    directory = tmp_path / "files"
    directory.mkdir()
    rows = pa.table({"id": pa.array(range(50), pa.int64()), "v": pa.array([*range(49), None], pa.int32())})
    pq.write_table(rows, directory / "rows.parquet")
    return directory


class Tries:
    """Counts the tries of tasks that a DataFrame passes through."""

    def __init__(self, home: Path) -> None:
        self._home = home
        home.mkdir()

    def counted(self, df: DataFrame) -> DataFrame:
        home = str(self._home)

        def note(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            (Path(home) / uuid.uuid4().hex).touch()
            yield from batches

        return df.coalesce(1).mapInArrow(note, COLUMNS)

    @property
    def count(self) -> int:
        return len(list(self._home.iterdir()))


@pytest.fixture
def tries(tmp_path: Path) -> Tries:
    return Tries(tmp_path / "tries")


def _plain(df: DataFrame, url: str, path: str) -> None:
    df.write.format("penstock").mode("append").options(url=url, table=path).save()


@pytest.mark.parametrize(("write", "kind"), [(pks.write, SchemaMismatchError), (_plain, PySparkException)])
def test_a_bad_row_fails_a_batch_at_the_first_try(  # noqa: PLR0917 - fixtures
    spark: SparkSession,
    connection: penstock.Connection,
    url: str,
    required: penstock.Table,
    files: Path,
    tries: Tries,
    write: Callable[[DataFrame, str, str], None],
    kind: type[Exception],
) -> None:
    with pytest.raises(kind, match="the column is declared not null"):
        write(tries.counted(spark.read.parquet(str(files))), url, required.path)

    assert tries.count == 1
    assert required.scan().to_arrow().num_rows == 0
    assert not [owner for owner in connection.list_owners() if owner.table == required.path]


@pytest.mark.parametrize("visibility", ["immediate", "commit"])
def test_a_bad_row_ends_a_query_at_the_first_try_with_our_line_in_front(  # noqa: PLR0917 - fixtures
    spark: SparkSession, url: str, required: penstock.Table, files: Path, tries: Tries, tmp_path: Path, visibility: str
) -> None:
    stream = tries.counted(spark.readStream.schema(COLUMNS).parquet(str(files)))
    checkpoint = str(tmp_path / "checkpoint")
    query = pks.write_stream(stream, url, required.path, checkpoint=checkpoint, visibility=visibility)

    with pytest.raises(StreamingQueryException) as raised:
        query.processAllAvailable()

    assert str(raised.value).startswith(REFUSAL)
    assert str(query.exception()).startswith(REFUSAL)
    assert tries.count == 1
    assert required.scan().to_arrow().num_rows == 0


def test_a_query_that_waits_for_columns_says_for_whom(
    spark: SparkSession, connection: penstock.Connection, url: str, path: str, tmp_path: Path
) -> None:
    sums = connection.create_table(path, "id BIGINT, v BIGINT SUM, PRIMARY KEY (id)")
    source = connection.create_table(f"{path}_source", "id BIGINT, v BIGINT, PRIMARY KEY (id)")
    source.upsert([{"id": 1, "v": 1}])
    stream = pks.read_stream(spark, url, f"{path}_source", images="after").select("id", "v")
    first = pks.write_stream(stream, url, path, checkpoint=str(tmp_path / "first"), query_name="first")
    try:
        first.processAllAvailable()
        second = pks.write_stream(stream, url, path, checkpoint=str(tmp_path / "second"), query_name="second")
        while pks.progress(second) is None:
            second.awaitTermination(1)
        waits, status = pks.progress(second), second.status
    finally:
        first.stop()
    second.processAllAvailable()
    second.stop()

    assert waits is not None
    assert waits.waiting is not None
    assert f"holder={first.id}" in waits.waiting
    assert "held_by=first at " in waits.waiting
    assert "waiting until another owner lets go" in status["message"]
    done = pks.progress(second)
    assert done is not None
    assert done.waiting is None
    assert sums.get(id=1) == {"id": 1, "v": 2}
