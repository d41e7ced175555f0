"""Spark through PySpark: data sources and pipeline helpers. Client side only: no RocksDB, no server.

    import penstock.spark as pks

    orders = pks.read(spark, "penstock://127.0.0.1:9123", "shop.orders", filter="amount > 10")

Everything below is loaded when it is first used. Imports the client, and the reader of stored snapshots in tablet; no
other room imports PySpark.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from penstock.runtime.packages import install_command

if TYPE_CHECKING:
    from penstock.spark.pipeline.folding import pre_aggregate
    from penstock.spark.pipeline.lookups import lookup_join
    from penstock.spark.pipeline.reads import changes, cut, read, read_stream
    from penstock.spark.pipeline.sinks import sink, write_stream
    from penstock.spark.pipeline.table_creation import create_table
    from penstock.spark.pipeline.temp_views import views
    from penstock.spark.pipeline.writes import write
    from penstock.spark.sources.registration import register
    from penstock.spark.writing.bucket_shuffle import to_buckets
    from penstock.spark.writing.query_progress import progress

PYSPARK_OLDEST = (4, 2)
"""The first with batches of Arrow in the data sources that are written in Python, both ways."""

_HOMES = {
    "changes": "pipeline.reads",
    "create_table": "pipeline.table_creation",
    "cut": "pipeline.reads",
    "lookup_join": "pipeline.lookups",
    "pre_aggregate": "pipeline.folding",
    "progress": "writing.query_progress",
    "read": "pipeline.reads",
    "read_stream": "pipeline.reads",
    "register": "sources.registration",
    "sink": "pipeline.sinks",
    "to_buckets": "writing.bucket_shuffle",
    "views": "pipeline.temp_views",
    "write": "pipeline.writes",
    "write_stream": "pipeline.sinks",
}

__all__ = [
    "changes",
    "create_table",
    "cut",
    "lookup_join",
    "pre_aggregate",
    "progress",
    "read",
    "read_stream",
    "register",
    "sink",
    "to_buckets",
    "views",
    "write",
    "write_stream",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'penstock.spark' has no attribute {name!r}")
    try:
        _refuse_old(importlib.import_module("pyspark").__version__)
        home = importlib.import_module(f"penstock.spark.{_HOMES[name]}")
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("pyspark", "pandas"):
            raise
        raise ModuleNotFoundError(f"this needs PySpark; {install_command('spark')}", name=error.name) from error
    value = getattr(home, name)
    globals()[name] = value
    return value


def _refuse_old(version: str) -> None:
    """Name a PySpark that is too old as such: its imports would fail by names that say nothing."""
    major, minor = (int(part) for part in version.split(".")[:2])
    if (major, minor) < PYSPARK_OLDEST:
        needed = ".".join(map(str, PYSPARK_OLDEST))
        raise ImportError(
            f"this needs PySpark {needed} or later; {install_command('spark')} needed={needed} found={version}"
        )


def __dir__() -> list[str]:
    return sorted(__all__)
