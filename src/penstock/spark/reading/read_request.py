"""What a read asks for, checked against the table once, on the driver; tasks get it ready-made."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.types import StructType

from penstock.client.link.link import Link
from penstock.client.pages.change_pull import change_schema
from penstock.client.scan.request import ScanSource, compile_filter, project
from penstock.errors import InvalidError
from penstock.model.place.system_columns import RESERVED_NAMES
from penstock.model.table.table import TableInfo
from penstock.spark.session.options import Options
from penstock.spark.session.spark_types import arrow_schema, check_fits


@dataclass(frozen=True)
class ReadRequest:
    """A table's columns as one query reads them. Picklable.

    `columns` are the table's own; `target` is the schema of the batches that Spark gets, which may also
    have the columns that a change adds.
    """

    options: Options
    info: TableInfo
    source: ScanSource
    columns: tuple[str, ...]
    filter: bytes | None
    target: pa.Schema

    @classmethod
    def of(cls, options: Options, link: Link, schema: StructType) -> ReadRequest:
        """Return the request for these columns of the table as it is now.

        Raises:
            TableNotFoundError: there is no such table.
            SchemaMismatchError: the columns are not the table's.
            InvalidError: an option is not understood.
        """
        info = link.retry.run(lambda: link.node.catalog.table(options.table))
        source = source_of(options)
        check_fits(schema, offered(info, source, None))
        own = tuple(name for name in schema.names if name not in RESERVED_NAMES)
        # A scan reads at least one column; the first key column is never large.
        columns = own or (info.primary_key or tuple(info.schema.names))[:1]
        return cls(
            options.pinned(link.database),
            info,
            source,
            columns,
            compile_filter(options.get("filter"), info.schema),
            arrow_schema(schema),
        )


def source_of(options: Options) -> ScanSource:
    """Return where the rows come from.

    Raises:
        InvalidError: the option names no source, or one that is not read at a cut while as_of names one.
    """
    source = ScanSource(options.choice("source", list(ScanSource)))
    if source is not ScanSource.LIVE_KV and options.is_set("as_of"):
        raise InvalidError("only live rows are read as_of a cut; leave as_of or source out", source=source.value)
    return source


def offered(info: TableInfo, source: ScanSource, columns: tuple[str, ...] | None) -> pa.Schema:
    """Return the columns that a read may give: the table's, of its log with what a change adds.

    Raises:
        InvalidError: a column is unknown.
    """
    if source is ScanSource.LOG:
        own = columns and tuple(name for name in columns if name not in RESERVED_NAMES)
        return change_schema(info, project(own, info.schema))
    chosen = project(columns, info.schema)
    full = info.schema.arrow_schema
    return full if chosen is None else pa.schema([full.field(name) for name in chosen])
