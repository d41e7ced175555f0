"""Rows on stdout, in any format, as they come: no format holds a whole table."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import Any, BinaryIO, Final, Protocol, cast

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
from pyarrow import types as arrow

from penstock.cli.terminal.arrow_text import json_rows, plain_text, text_bytes
from penstock.cli.terminal.controls import ControlsShown
from penstock.cli.terminal.options import OutputFormat
from penstock.cli.terminal.text_table import TextTable
from penstock.errors import InvalidError

ROW_GROUP_ROWS: Final = 128 * 1024
_BINARY: Final = (OutputFormat.ARROW, OutputFormat.PARQUET)


class RowSink(Protocol):
    """Takes batches of rows; writes them somewhere."""

    def write(self, batch: pa.RecordBatch) -> None:
        """Write a batch."""

    def close(self) -> None:
        """Write what ends the format."""


class JsonLines:
    """One JSON object on each line."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def write(self, batch: pa.RecordBatch) -> None:
        """Write a line for each row."""
        self._stream.write(text_bytes(json_rows(batch, "\n")))

    def close(self) -> None:
        """Write nothing: lines need no end."""


class JsonArray:
    """One JSON array of objects."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._stream.write(b"[")
        self._begun = False

    def write(self, batch: pa.RecordBatch) -> None:
        """Write an element for each row."""
        if batch.num_rows:
            self._stream.write(b",\n" if self._begun else b"\n")
            self._begun = True
            # Every row ends with what stands between two of them; the last one's is left out.
            self._stream.write(text_bytes(json_rows(batch, ",\n"))[:-2])

    def close(self) -> None:
        """Close the array."""
        self._stream.write(b"\n]\n" if self._begun else b"]\n")


class Csv:
    """CSV with a heading; an empty string stands in quotes, a null is nothing at all."""

    def __init__(self, stream: BinaryIO, schema: pa.Schema) -> None:
        self._schema = pa.schema([(field.name, _csv_type(field.type)) for field in schema])
        self._writer = pyarrow.csv.CSVWriter(stream, self._schema)

    def write(self, batch: pa.RecordBatch) -> None:
        """Write a line for each row."""
        arrays = [
            column if column.type.equals(kept) else plain_text(column)
            for column, kept in zip(batch.columns, self._schema.types, strict=True)
        ]
        self._writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=self._schema))

    def close(self) -> None:
        """Write what is left."""
        self._writer.close()


class ArrowStream:
    """An Arrow IPC stream."""

    def __init__(self, stream: BinaryIO, schema: pa.Schema) -> None:
        self._writer = pa.ipc.new_stream(stream, schema)

    def write(self, batch: pa.RecordBatch) -> None:
        """Write a batch."""
        self._writer.write_batch(batch)

    def close(self) -> None:
        """Write the end of the stream."""
        self._writer.close()


class Parquet:
    """A Parquet file; small batches are gathered into row groups."""

    def __init__(self, stream: BinaryIO, schema: pa.Schema) -> None:
        self._schema = schema
        self._writer = pyarrow.parquet.ParquetWriter(stream, schema)
        self._waiting: list[pa.RecordBatch] = []
        self._rows = 0

    def write(self, batch: pa.RecordBatch) -> None:
        """Write a batch, with those that wait, once they fill a row group."""
        self._waiting.append(batch)
        self._rows += batch.num_rows
        if self._rows >= ROW_GROUP_ROWS:
            self._flush()

    def close(self) -> None:
        """Write the last row group and the footer."""
        if self._rows:
            self._flush()
        self._writer.close()

    def _flush(self) -> None:
        self._writer.write_table(pa.Table.from_batches(self._waiting, self._schema), row_group_size=ROW_GROUP_ROWS)
        self._waiting, self._rows = [], 0


def open_sink(output: OutputFormat | None, schema: pa.Schema) -> RowSink:
    """Return what writes rows of a schema to stdout: a table on a terminal, JSON lines elsewhere, or what was asked.

    Raises:
        InvalidError: the format is binary, and stdout a terminal.
    """
    terminal = sys.stdout.isatty()
    chosen = output or (OutputFormat.TABLE if terminal else OutputFormat.NDJSON)
    if chosen in _BINARY and terminal:
        raise InvalidError(f"{chosen} is no text for a terminal; redirect it to a file")
    stream = cast(BinaryIO, ControlsShown(sys.stdout.buffer)) if terminal else sys.stdout.buffer
    match chosen:
        case OutputFormat.TABLE:
            return TextTable(sys.stdout, schema)
        case OutputFormat.JSON:
            return JsonArray(stream)
        case OutputFormat.NDJSON:
            return JsonLines(stream)
        case OutputFormat.CSV:
            return Csv(stream, schema)
        case OutputFormat.ARROW:
            return ArrowStream(stream, schema)
        case OutputFormat.PARQUET:
            return Parquet(stream, schema)


def write_batches(output: OutputFormat | None, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> int:
    """Write batches to stdout as they come; return how many rows there were."""
    sink = open_sink(output, schema)
    rows = 0
    try:
        for batch in batches:
            sink.write(batch)
            rows += batch.num_rows
            # The reader of a pipe sees rows when they are there, not when a buffer is full.
            sys.stdout.flush()
    except BaseException:
        # Rows that were read are shown; another format stays without its end, so that no one takes it for whole.
        if isinstance(sink, TextTable):
            sink.close()
        raise
    sink.close()
    sys.stdout.flush()
    return rows


def write_records(output: OutputFormat | None, schema: pa.Schema, records: Iterable[Mapping[str, Any]]) -> None:
    """Write a few rows, given as dicts."""
    write_batches(output, schema, [pa.RecordBatch.from_pylist([dict(record) for record in records], schema=schema)])


def write_result(output: OutputFormat | None, *records: Mapping[str, Any]) -> None:
    """Write what a command did, if it was asked to: people read it on stderr."""
    if output is not None:
        done = pa.RecordBatch.from_pylist([dict(record) for record in records])
        write_batches(output, done.schema, [done])


def _csv_type(kind: pa.DataType) -> pa.DataType:
    as_they_are = (arrow.is_boolean, arrow.is_integer, arrow.is_floating, arrow.is_decimal, arrow.is_date)
    return kind if any(fits(kind) for fits in as_they_are) else pa.large_string()
