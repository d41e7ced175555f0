"""Spark through PySpark: data sources and pipeline helpers. Client side only: no RocksDB, no server.

    import penstock.spark as pks

    orders = pks.read(spark, "penstock://127.0.0.1:9123", "shop.orders", filter="amount > 10")

Everything below is loaded when it is first used.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.spark.create_table import create_table
    from penstock.spark.lookup_join import lookup_join
    from penstock.spark.pre_aggregate import pre_aggregate
    from penstock.spark.progress import progress
    from penstock.spark.reading import changes, cut, read, read_stream
    from penstock.spark.register import register
    from penstock.spark.sink import sink, write_stream
    from penstock.spark.to_buckets import to_buckets
    from penstock.spark.views import views
    from penstock.spark.writing import write

PYSPARK_OLDEST = (4, 2)
"""The first with batches of Arrow in the data sources that are written in Python, both ways."""

_HOMES = {
    "changes": "reading",
    "create_table": "create_table",
    "cut": "reading",
    "lookup_join": "lookup_join",
    "pre_aggregate": "pre_aggregate",
    "progress": "progress",
    "read": "reading",
    "read_stream": "reading",
    "register": "register",
    "sink": "sink",
    "to_buckets": "to_buckets",
    "views": "views",
    "write": "writing",
    "write_stream": "sink",
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
        raise ModuleNotFoundError("this needs PySpark; pip install 'penstock[spark]'", name=error.name) from error
    value = getattr(home, name)
    globals()[name] = value
    return value


def _refuse_old(version: str) -> None:
    """Name a PySpark that is too old as such: its imports would fail by names that say nothing."""
    major, minor = (int(part) for part in version.split(".")[:2])
    if (major, minor) < PYSPARK_OLDEST:
        needed = ".".join(map(str, PYSPARK_OLDEST))
        raise ImportError(
            f"this needs PySpark {needed} or later; pip install 'penstock[spark]' needed={needed} found={version}"
        )


def __dir__() -> list[str]:
    return sorted(__all__)


class _Room(ModuleType):
    """This room: some functions are named as their module, which importing it must not put in their place."""

    def __setattr__(self, name: str, value: object) -> None:
        if name not in _HOMES or not isinstance(value, ModuleType):
            super().__setattr__(name, value)

    def __reduce__(self) -> tuple[Callable[[str], ModuleType], tuple[str]]:
        # By its name, as other modules are: functions that Spark sends to its workers may use it.
        return importlib.import_module, (self.__name__,)


sys.modules[__name__].__class__ = _Room
