"""Reading into Spark: a whole table beside Parquet files and Arrow batches of the same rows, warm, and loaded anew."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

import penstock
import penstock.spark as pks
from bench.measurement import Measurement, Timing
from bench.spark_session import in_turn, spark_session, to_nothing
from bench.workload import SCHEMA, Workload
from penstock.spark.session.spark_types import spark_schema
from penstock.testing.server import ServerProcess

BUCKETS = 4
ROWS = 4_000_000
"""At least: Spark needs a while to start a job, and fewer rows would measure that."""

BATCH_ROWS = 65_536
WARM_UPS = 3
REPEATS = 5
PARQUET = "spark.read.parquet"
MAPPED = "mapInArrow, rows in memory"


def run(work: Workload) -> list[Measurement]:
    """Read a table to nothing, in each way and in part, beside the same rows elsewhere; then load it anew each time."""
    work = replace(work, rows=max(ROWS, 4 * work.rows), batch_rows=5 * work.batch_rows)
    with (
        work.directory() as directory,
        ServerProcess(directory / "data") as server,
        spark_session(directory) as spark,
        penstock.connect(server.url) as conn,
    ):
        table = conn.create_table("bench", SCHEMA, primary_key=["id"], buckets=BUCKETS)
        for batch in work.batches():
            table.upsert(batch)
        files = _files(work, directory / "files")
        parquet = spark.read.parquet(str(files / "*.parquet"))
        ours = partial(pks.read, spark, server.url, "bench")
        by_format = spark.read.format("penstock").options(url=server.url, table="bench").load()
        two = ["id", "amount"]
        return [
            _read("all columns", work.rows, ours(), PARQUET, parquet),
            _read("all columns", work.rows, ours(), MAPPED, _mapped(spark, files)),
            _read("all columns, by format", work.rows, by_format, PARQUET, parquet),
            _read("two columns", work.rows, ours(columns=two), PARQUET, parquet.select(*two)),
            _loads(spark, work, server.url, files),
        ]


def _read(name: str, rows: int, ours: DataFrame, beside: str, peer: DataFrame) -> Measurement:
    both = in_turn(partial(to_nothing, ours), partial(to_nothing, peer), warm=WARM_UPS, repeats=REPEATS)
    return _measured(f"spark batch read, {name}", rows, beside, *both)


def _loads(spark: SparkSession, work: Workload, url: str, files: Path) -> Measurement:
    both = in_turn(
        lambda: to_nothing(pks.read(spark, url, "bench")),
        lambda: to_nothing(spark.read.parquet(str(files / "*.parquet"))),
        warm=1,
        repeats=REPEATS,
    )
    return _measured("spark load and batch read, all columns", work.rows, PARQUET, *both)


def _measured(job: str, rows: int, beside: str, ours: Timing, peer: Timing) -> Measurement:
    return Measurement(job, "rows/s", ours.rate(rows), beside, peer.rate(rows), ours.spread)


def _mapped(spark: SparkSession, files: Path) -> DataFrame:
    """Return what no read through Python gets below: batches as Spark wants them, from memory."""
    return spark.range(0, BUCKETS, 1, BUCKETS).mapInArrow(_FromMemory(str(files)), spark_schema(SCHEMA))


@dataclass(frozen=True)
class _FromMemory:
    """Yields the batches of the files of these numbers. Picklable."""

    files: str

    def __call__(self, numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                with pa.memory_map(f"{self.files}/{number}.arrow") as file:
                    reader = pa.ipc.open_file(file)
                    for place in range(reader.num_record_batches):
                        yield reader.get_batch(place)


def _files(work: Workload, files: Path) -> Path:
    """Write the same rows as Parquet and as Arrow, in as many files as the table has buckets."""
    files.mkdir()
    rows = pa.Table.from_batches(work.batches())
    size = -(-work.rows // BUCKETS)
    for number in range(BUCKETS):
        part = rows.slice(number * size, size).combine_chunks()
        pq.write_table(part, files / f"{number}.parquet")
        with pa.ipc.new_file(files / f"{number}.arrow", part.schema) as writer:
            writer.write_table(part, max_chunksize=BATCH_ROWS)
    return files
