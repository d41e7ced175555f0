"""Streaming storage with real-time primary-key tables, for Python and Spark.

    import penstock

    with penstock.connect("./data") as conn:
        orders = conn.create_table("orders", "id BIGINT, amount DOUBLE, PRIMARY KEY (id)")
        orders.upsert([{"id": 1, "amount": 9.5}])
        print(orders.scan().to_arrow())

Everything below is loaded when it is first used: importing the package costs nothing, and neither
RocksDB nor a server is loaded before a directory is opened or a server started.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock import errors
    from penstock.client.changes.range import EARLIEST, LATEST
    from penstock.client.changes.stream import ChangeStream
    from penstock.client.connection import Connection, connect
    from penstock.client.cut.cut import Cut
    from penstock.client.hold.owner import Owner
    from penstock.client.leases.lease import Lease
    from penstock.client.link.progress import Progress
    from penstock.client.pages.page_scanner import PageScanner
    from penstock.client.scan.builder import ScanBuilder
    from penstock.client.scan.request import ScanSource
    from penstock.client.scan.scan import Scan
    from penstock.client.table import Table
    from penstock.client.write.writer import Writer
    from penstock.engine.backup.restore import restore
    from penstock.errors import PenstockError
    from penstock.model.filter.filter import col
    from penstock.model.node.backup import BackupResult, RestoreResult
    from penstock.model.node.calls import Offsets, WriteResult
    from penstock.model.node.lease import Snapshot
    from penstock.model.node.owner import OwnerInfo, UndoResult
    from penstock.model.place.bucket import TableBucket
    from penstock.model.schema.aggregate import AggFunction
    from penstock.model.schema.schema import Schema
    from penstock.model.table.merge_engine import MergeEngine
    from penstock.model.table.table import TableInfo
    from penstock.server.serve import serve

_HOMES = {
    "AggFunction": "penstock.model.schema.aggregate",
    "BackupResult": "penstock.model.node.backup",
    "ChangeStream": "penstock.client.changes.stream",
    "Connection": "penstock.client.connection",
    "Cut": "penstock.client.cut.cut",
    "EARLIEST": "penstock.client.changes.range",
    "LATEST": "penstock.client.changes.range",
    "Lease": "penstock.client.leases.lease",
    "MergeEngine": "penstock.model.table.merge_engine",
    "Offsets": "penstock.model.node.calls",
    "Owner": "penstock.client.hold.owner",
    "OwnerInfo": "penstock.model.node.owner",
    "PageScanner": "penstock.client.pages.page_scanner",
    "PenstockError": "penstock.errors",
    "Progress": "penstock.client.link.progress",
    "RestoreResult": "penstock.model.node.backup",
    "Scan": "penstock.client.scan.scan",
    "ScanBuilder": "penstock.client.scan.builder",
    "ScanSource": "penstock.client.scan.request",
    "Schema": "penstock.model.schema.schema",
    "Snapshot": "penstock.model.node.lease",
    "Table": "penstock.client.table",
    "TableBucket": "penstock.model.place.bucket",
    "TableInfo": "penstock.model.table.table",
    "UndoResult": "penstock.model.node.owner",
    "WriteResult": "penstock.model.node.calls",
    "Writer": "penstock.client.write.writer",
    "col": "penstock.model.filter.filter",
    "connect": "penstock.client.connection",
    "restore": "penstock.engine.backup.restore",
    "serve": "penstock.server.serve",
}
_ROOMS = ("errors", "testing")

__all__ = [
    "EARLIEST",
    "LATEST",
    "AggFunction",
    "BackupResult",
    "ChangeStream",
    "Connection",
    "Cut",
    "Lease",
    "MergeEngine",
    "Offsets",
    "Owner",
    "OwnerInfo",
    "PageScanner",
    "PenstockError",
    "Progress",
    "RestoreResult",
    "Scan",
    "ScanBuilder",
    "ScanSource",
    "Schema",
    "Snapshot",
    "Table",
    "TableBucket",
    "TableInfo",
    "UndoResult",
    "WriteResult",
    "Writer",
    "col",
    "connect",
    "errors",
    "restore",
    "serve",
]


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return importlib.import_module(f"penstock.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'penstock' has no attribute {name!r}")
    # Here, not above: to import the package costs nothing.
    from penstock.runtime.packages import needs_engine  # noqa: PLC0415

    with needs_engine(f"penstock.{name}"):
        value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
