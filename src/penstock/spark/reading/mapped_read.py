"""A batch read as Spark maps batches: the number of a split in, the rows of that split out.

What a data source in Python yields, Spark takes row by row through its reader of partitions and that one's
metrics, which costs more than the rows themselves; what is mapped goes straight on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import cast

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType


def read_mapped(spark: SparkSession, source: DataSource, *, name: str) -> DataFrame:
    """Return what the source reads, planned here and now; the session is one of this very process.

    The name is what Spark's plans call it.

    Raises:
        PenstockError: as the source's schema, reader and plan do.
    """
    schema = cast("StructType", source.schema())
    reader = source.reader(schema)
    splits = reader.partitions()
    return _numbers(spark, len(splits)).mapInArrow(_Mapped(name, reader, splits), schema)


def _numbers(spark: SparkSession, count: int) -> DataFrame:
    """Return the numbers up to `count`, each in a partition of its own, as rows that Spark does not know the size of.

    Of a range it does, and what is mapped from a few numbers would pass for as small: a join would send the
    whole table to every executor.
    """
    context = spark.sparkContext
    assert context._jvm is not None, "a session of this process has its JVM"
    encoder = context._jvm.org.apache.spark.sql.Encoders.LONG()
    numbers = context._jsc.sc().range(0, count, 1, count)
    return DataFrame(spark._jsparkSession.createDataset(numbers, encoder).toDF(), spark)


@dataclass(frozen=True)
class _Mapped:
    """The read of a task. Picklable."""

    name: str
    reader: DataSourceReader
    splits: Sequence[InputPartition]

    @property
    def __name__(self) -> str:
        return self.name

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from self.reader.read(self.splits[number])
