"""JSON lines as columns of a table's types.

A block of lines is parsed in one go; only a block with a bad line is looked at line by line, to name it.
A name that some lines of a block lack is null there.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from decimal import Decimal
from operator import methodcaller
from typing import Any, BinaryIO, Final, cast

import pyarrow as pa
from pyarrow import types as arrow

from penstock.cli.input_block import InputBlock, located
from penstock.cli.text_values import from_json
from penstock.errors import SchemaMismatchError

BLOCK_BYTES: Final = 1 << 20


def read_json_lines(stream: BinaryIO, schema: pa.Schema, file: str) -> Iterator[InputBlock]:
    """Yield the rows of a stream, in blocks.

    Raises:
        SchemaMismatchError: a line is no JSON object, or a value does not fit; names the line.
    """
    # Exact where a column keeps digits; plain floats, which are quicker, elsewhere.
    exact = any(arrow.is_decimal(kind) or arrow.is_nested(kind) for kind in schema.types)
    decoder = json.JSONDecoder(parse_float=Decimal) if exact else json.JSONDecoder()
    first = 1
    for lines in _blocks(stream):
        filled = [(number, text) for number, line in enumerate(lines, first) if (text := line.strip())]
        first += len(lines)
        if filled:
            numbers = [number for number, _ in filled]
            rows = _parse(decoder, [text for _, text in filled], numbers, file)
            yield InputBlock(_columns(rows, schema, file, numbers), len(rows), file, "line", numbers)


def _blocks(stream: BinaryIO) -> Iterator[list[bytes]]:
    """Yield lines as they are there: whoever pipes a few does not wait for a block to fill."""
    rest = b""
    while chunk := cast(io.BufferedReader, stream).read1(BLOCK_BYTES):
        head, newline, rest = (rest + chunk).rpartition(b"\n")
        if newline:
            yield head.split(b"\n")
    if rest:
        yield [rest]


def _parse(decoder: json.JSONDecoder, lines: list[bytes], numbers: list[int], file: str) -> list[dict[str, Any]]:
    try:
        rows = decoder.decode("[" + b",".join(lines).decode() + "]")
    except ValueError:
        rows = []
    # A line may hold half a row, or two, and still join to valid JSON.
    if len(rows) == len(lines) and all(type(row) is dict for row in rows):
        return rows  # type: ignore[no-any-return]
    return [_parse_line(decoder, line, number, file) for line, number in zip(lines, numbers, strict=True)]


def _parse_line(decoder: json.JSONDecoder, line: bytes, number: int, file: str) -> dict[str, Any]:
    try:
        row = decoder.decode(line.decode())
    except ValueError as error:
        raise SchemaMismatchError("the line is no json", file=file, line=number, reason=str(error)) from error
    if not isinstance(row, dict):
        raise SchemaMismatchError("the line is no json object", file=file, line=number)
    return row


def _columns(rows: list[dict[str, Any]], schema: pa.Schema, file: str, numbers: list[int]) -> dict[str, Any]:
    names = dict.fromkeys(rows[0]) | dict.fromkeys(set().union(*rows))
    columns: dict[str, Any] = {}
    for name in names:
        values = list(map(methodcaller("get", name), rows))
        index = schema.get_field_index(name)
        try:
            columns[name] = values if index < 0 else from_json(values, schema.field(index))
        except SchemaMismatchError as error:
            raise located(error, file, "line", numbers) from error
    return columns
