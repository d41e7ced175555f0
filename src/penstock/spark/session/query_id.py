"""Which streaming query a micro-batch belongs to, and which micro-batch it is, by the checkpoint itself."""

from __future__ import annotations

import json
from typing import Any

from pyarrow import fs
from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession

from penstock.errors import InvalidError, UnsupportedError

QUERY_ID = "sql.streaming.queryId"
BATCH_ID = "streaming.sql.batchId"
EXECUTION = "spark.sql.execution.root.id"


def query_id(df: DataFrame, checkpoint: str | None) -> str:
    """Return the id of the query whose micro-batch this is.

    Raises:
        InvalidError: it cannot be known; the message says what to pass.
    """
    context = local_context(df.sparkSession)
    found = None if context is None else context.getLocalProperty(QUERY_ID)
    if found:
        return str(found)
    if checkpoint is None:
        raise InvalidError("the query is known by its checkpoint here; pass checkpoint= to pks.sink as well")
    # Through Spark, which reaches whatever storage the checkpoint is on.
    text = "".join(row.value for row in df.sparkSession.read.text(f"{checkpoint.rstrip('/')}/metadata").collect())
    return _id_in(text, checkpoint)


def micro_batch_run(df: DataFrame) -> str | None:
    """Return what names this one run of a micro-batch, also against its repetition; None if nothing does."""
    context = local_context(df.sparkSession)
    if context is None:
        # Through Connect every run of a query has a process of its own, which sees each micro-batch once.
        return "process"
    found: str | None = context.getLocalProperty(EXECUTION)
    return found


def local_context(spark: SparkSession) -> SparkContext | None:
    """Return the Spark context of this very process; None where Spark is reached through Connect."""
    found: SparkContext | None = getattr(spark, "sparkContext", None)
    return found


def query_of(checkpoint: str) -> tuple[str, int]:
    """Return the id of the checkpoint's query, and its latest micro-batch: the one that is planned or runs.

    Raises:
        UnsupportedError: the checkpoint cannot be read from Python.
    """
    try:
        storage, path = _storage(checkpoint)
        with storage.open_input_stream(f"{path}/metadata") as stream:
            text = stream.read().decode()
        names = [info.base_name for info in storage.get_file_info(fs.FileSelector(f"{path}/offsets"))]
    except OSError as error:
        raise UnsupportedError(
            "the checkpoint cannot be read from here; use pks.write_stream, which asks Spark", checkpoint=checkpoint
        ) from error
    batches = [int(name) for name in names if name.isdecimal()]
    if not batches:
        raise UnsupportedError("the checkpoint names no micro-batch; use pks.write_stream", checkpoint=checkpoint)
    return _id_in(text, checkpoint), max(batches)


def _storage(checkpoint: str) -> tuple[Any, str]:
    if "://" in checkpoint:
        storage, path = fs.FileSystem.from_uri(checkpoint)
        return storage, path.rstrip("/")
    return fs.LocalFileSystem(), checkpoint.removeprefix("file:").rstrip("/")


def _id_in(text: str, checkpoint: str) -> str:
    try:
        found = json.loads(text)["id"]
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidError("the checkpoint's metadata names no query", checkpoint=checkpoint) from error
    return str(found)
