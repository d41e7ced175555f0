"""Spark through PySpark: data sources and pipeline helpers. Client side only: no RocksDB, no server."""
