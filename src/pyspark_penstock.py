"""Found by PySpark by its name: makes the format `penstock` known without anybody registering it."""

from __future__ import annotations

from penstock.spark.sources.source import PenstockDataSource


class DefaultSource(PenstockDataSource):
    """Tables of a Penstock server."""
