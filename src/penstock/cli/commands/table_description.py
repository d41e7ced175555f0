"""Everything about a table, as a row and as a page."""

from __future__ import annotations

import sys
from typing import Any, Final

import pyarrow as pa

from penstock.cli.terminal.options import OutputFormat
from penstock.cli.terminal.output import write_records
from penstock.client.table import Table
from penstock.model.place.bucket import bucket_key
from penstock.model.schema.type_words import format_type

COLUMNS: Final = pa.schema(
    [("name", pa.string()), ("type", pa.string()), ("nullable", pa.bool_()), ("key", pa.bool_()), ("agg", pa.string())]
)
BUCKETS: Final = pa.schema(
    [
        ("bucket", pa.string()),
        ("base", pa.int64()),
        ("visible", pa.int64()),
        ("rows", pa.int64()),
        ("live_rows", pa.int64()),
        ("bytes", pa.int64()),
        ("files", pa.int64()),
        ("pins", pa.int64()),
    ]
)
DESCRIPTION: Final = pa.schema(
    [
        ("table", pa.string()),
        ("table_id", pa.int64()),
        ("primary_key", pa.list_(pa.string())),
        ("merge_engine", pa.string()),
        ("version_column", pa.string()),
        ("bucket_key", pa.list_(pa.string())),
        ("partitioned_by", pa.list_(pa.string())),
        ("properties", pa.map_(pa.string(), pa.string())),
        ("created", pa.timestamp("ms", "UTC")),
        ("rows", pa.int64()),
        ("live_rows", pa.int64()),
        ("bytes", pa.int64()),
        ("columns", pa.list_(pa.struct(list(COLUMNS)))),
        ("buckets", pa.list_(pa.struct(list(BUCKETS)))),
    ]
)
_LISTS: Final = ("columns", "buckets")


def describe_table(table: Table) -> pa.Table:
    """Return a table of one row that says everything about a table."""
    info, stats = table.info, table.stats()
    columns = [
        {
            "name": column.name,
            "type": format_type(column.type),
            "nullable": column.nullable,
            "key": column.name in info.primary_key,
            "agg": None if column.agg is None else column.agg.value,
        }
        for column in info.schema.columns
    ]
    buckets = [
        {
            "bucket": bucket_key(found.bucket),
            "base": found.base,
            "visible": found.visible,
            "rows": found.rows,
            "live_rows": found.live_rows,
            "bytes": found.bytes,
            "files": found.files,
            "pins": len(found.pins),
        }
        for found in stats.buckets
    ]
    facts = {
        "table": info.path,
        "table_id": info.table_id,
        "primary_key": list(info.primary_key),
        "merge_engine": None if info.merge_engine is None else info.merge_engine.value,
        "version_column": info.version_column,
        "bucket_key": list(info.bucket_key),
        "partitioned_by": list(info.partitioned_by),
        "properties": list(info.properties.items()),
        "created": info.created_ms,
        "rows": stats.rows,
        "live_rows": stats.live_rows,
        "bytes": stats.bytes,
        "columns": columns,
        "buckets": buckets,
    }
    return pa.Table.from_pylist([facts], schema=DESCRIPTION)


def write_description(described: pa.Table) -> None:
    """Write the page: a line for each fact, then the columns, then the buckets."""
    row: dict[str, Any] = described.to_pylist(maps_as_pydicts="strict")[0]
    facts = {name: _shown(value) for name, value in row.items() if name not in _LISTS and value not in (None, [], {})}
    for name, text in facts.items():
        sys.stdout.write(f"{name:<15} {text}\n")
    for schema, name in ((COLUMNS, "columns"), (BUCKETS, "buckets")):
        sys.stdout.write("\n")
        write_records(OutputFormat.TABLE, schema, row[name])


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(value)
    if isinstance(value, dict):
        return ", ".join(f"{name}={text}" for name, text in value.items())
    return f"{value:,}" if isinstance(value, int) else str(value)
