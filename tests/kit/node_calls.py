"""Calls of a node made of plain rows: what the client makes of what users give it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from penstock.model.node.calls import LookupCall, OpenScan, Operation, WriteCall
from penstock.model.node.node import Node
from penstock.model.place.bucket import TableBucket
from penstock.model.table.spec import make_spec
from penstock.model.table.table import TableInfo

Rows = Sequence[Mapping[str, Any]]
KEYED = "id BIGINT, note STRING, PRIMARY KEY (id)"


def make_table(node: Node, ddl: str = KEYED, path: str = "shop.orders", **options: Any) -> TableInfo:
    """Create a table of the database `shop`."""
    return node.catalog.create_table(path, make_spec(ddl, **options))


def bucket(info: TableInfo, number: int = 0, partition: str | None = None) -> TableBucket:
    """Return the name of a bucket."""
    return TableBucket(info.path, partition, number)


def batch_of(info: TableInfo, rows: Rows, names: Sequence[str] | None = None) -> pa.RecordBatch:
    """Return rows as a batch with the table's types."""
    names = info.schema.names if names is None else names
    schema = pa.schema([info.schema.arrow_schema.field(name) for name in names])
    return pa.RecordBatch.from_pylist([dict(row) for row in rows], schema=schema)


def write_call(info: TableInfo, rows: Rows, operation: Operation | None = None, **facts: Any) -> WriteCall:
    """Return the call that writes rows: an upsert of a keyed table, an append to a log table, unless told otherwise."""
    kind = operation or (Operation.UPSERT if info.keyed else Operation.APPEND)
    names = info.primary_key if kind is Operation.DELETE else None
    return WriteCall(info.table_id, info.schema_id, kind, batch_of(info, rows, names), **facts)


def orders(*ids: int, note: str = "a") -> list[dict[str, Any]]:
    """Return rows of the usual table."""
    return [{"id": number, "note": note} for number in ids]


def lookup_call(info: TableInfo, keys: Rows, columns: tuple[str, ...] | None = None) -> LookupCall:
    """Return the call that looks keys up."""
    return LookupCall(info.table_id, info.schema_id, batch_of(info, keys, list(keys[0])), columns)


def scan_rows(node: Node, call: OpenScan) -> list[dict[str, Any]]:
    """Return all rows of a scan session, page by page."""
    page = node.scan.open(call)
    rows = page.batch.to_pylist()
    number = 0
    while page.has_more:
        number += 1
        assert page.scanner_id is not None
        page = node.scan.next_page(page.scanner_id, number)
        rows += page.batch.to_pylist()
    return rows


def rows_of(node: Node, info: TableInfo) -> list[dict[str, Any]]:
    """Return the live rows of a table, sorted by what they say."""
    rows: list[dict[str, Any]] = []
    for name in node.catalog.buckets(info.table_id):
        rows += scan_rows(node, OpenScan(info.table_id, info.schema_id, name))
    return sorted(rows, key=repr)


def as_writer(call: WriteCall, writer_id: bytes, sequence: int) -> WriteCall:
    """Return the call under the identity of a writer."""
    return replace(call, writer_id=writer_id, sequence=sequence)
