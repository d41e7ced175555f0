"""JSON as columns of a table's types: an object a line, or one array of objects.

A block of lines is parsed in one go; only a block with a bad line is looked at line by line, to name it.
An array is one document: it is read whole before anything of it is written. The rows of a block all have the
same names: a name that a row lacks is absent, not null.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from decimal import Decimal
from itertools import chain
from operator import itemgetter
from typing import Any, BinaryIO, Final, cast

import pyarrow as pa
from pyarrow import types as arrow

from penstock.cli.input.bad_rows import BadRows
from penstock.cli.input.input_block import InputBlock, located
from penstock.cli.input.row_shapes import Rows, same_shapes
from penstock.cli.input.text_values import from_json
from penstock.errors import SchemaMismatchError

BLOCK_BYTES: Final = 1 << 20
BLOCK_ROWS: Final = 10_000

Arrange = Callable[[Rows, Sequence[int]], Iterable[tuple[Rows, Sequence[int]]]]
_Numbered = tuple[Rows, str, Sequence[int]]


def read_json(
    stream: BinaryIO, schema: pa.Schema, file: str, arrange: Arrange = same_shapes, bad: BadRows | None = None
) -> Iterator[InputBlock]:
    """Yield the rows of a stream, in blocks; `arrange` cuts rows into pieces that have the same names.

    Rows that are wrong are given to `bad`, if there is one.

    Raises:
        SchemaMismatchError: it is no JSON, a row is no object, or a value does not fit; names the place.
    """
    # Exact where a column keeps digits; plain floats, which are quicker, elsewhere.
    exact = any(arrow.is_decimal(kind) or arrow.is_nested(kind) for kind in schema.types)
    decoder = json.JSONDecoder(parse_float=Decimal) if exact else json.JSONDecoder()
    blocks, opening = _blocks(stream), list[list[bytes]]()
    for lines in blocks:
        opening.append(lines)
        text = next(filter(None, map(bytes.strip, lines)), None)
        if text is not None:
            read = _read_array if text.startswith(b"[") else _read_lines
            for rows, unit, numbers in read(decoder, chain(opening, blocks), file, bad):
                for piece, places in arrange(rows, numbers) if rows else ():
                    yield from _typed(piece, schema, file, unit, places, bad=bad)
            return


def _read_lines(
    decoder: json.JSONDecoder, blocks: Iterable[list[bytes]], file: str, bad: BadRows | None
) -> Iterator[_Numbered]:
    first = 1
    for lines in blocks:
        filled = [(number, text) for number, line in enumerate(lines, first) if (text := line.strip())]
        first += len(lines)
        if filled:
            rows, numbers = _parse(decoder, filled, file, bad)
            yield rows, "line", numbers


def _read_array(
    decoder: json.JSONDecoder, blocks: Iterable[list[bytes]], file: str, bad: BadRows | None
) -> Iterator[_Numbered]:
    try:
        rows = decoder.decode(b"\n".join(chain.from_iterable(blocks)).decode())
    except json.JSONDecodeError as error:
        raise SchemaMismatchError(
            "the array is no json; nothing of it was written", file=file, line=error.lineno, reason=str(error)
        ) from error
    except (ValueError, RecursionError) as error:
        raise SchemaMismatchError(
            "the array is no json; nothing of it was written", file=file, reason=str(error)
        ) from error
    numbers: Sequence[int] = range(1, len(rows) + 1)
    if not all(type(row) is dict for row in rows):
        for number, row in zip(numbers, rows, strict=True):
            if type(row) is not dict:
                _refuse(SchemaMismatchError("a row of the array is no json object", file=file, row=number), row, bad)
        numbers = [number for number, row in zip(numbers, rows, strict=True) if type(row) is dict]
        rows = [row for row in rows if type(row) is dict]
    for start in range(0, len(rows), BLOCK_ROWS):
        yield rows[start : start + BLOCK_ROWS], "row", numbers[start : start + BLOCK_ROWS]


def _blocks(stream: BinaryIO) -> Iterator[list[bytes]]:
    """Yield lines as they are there: a program that pipes a few does not wait for a block to fill."""
    # Pieces of one line, joined once: an array may be a single line, as large as the file.
    rest: list[bytes] = []
    while chunk := cast(io.BufferedReader, stream).read1(BLOCK_BYTES):
        head, newline, last = chunk.rpartition(b"\n")
        if newline:
            yield b"".join([*rest, head]).split(b"\n")
            rest = []
        rest.append(last)
    if any(rest):
        yield [b"".join(rest)]


def _parse(
    decoder: json.JSONDecoder, filled: list[tuple[int, bytes]], file: str, bad: BadRows | None
) -> tuple[Rows, Sequence[int]]:
    numbers, lines = [number for number, _ in filled], [text for _, text in filled]
    try:
        rows = decoder.decode("[" + b",".join(lines).decode() + "]")
    except (ValueError, RecursionError):
        rows = []
    # A line may hold half a row, or two, and still join to valid JSON.
    if len(rows) == len(lines) and all(type(row) is dict for row in rows):
        return rows, numbers
    parsed = [(number, _parse_line(decoder, line, number, file, bad)) for number, line in filled]
    return [row for _, row in parsed if row is not None], [number for number, row in parsed if row is not None]


def _parse_line(
    decoder: json.JSONDecoder, line: bytes, number: int, file: str, bad: BadRows | None
) -> dict[str, Any] | None:
    try:
        row = decoder.decode(line.decode())
        if isinstance(row, dict):
            return row
        wrong = SchemaMismatchError("the line is no json object", file=file, line=number)
    except (ValueError, RecursionError) as error:
        wrong = SchemaMismatchError("the line is no json", file=file, line=number, reason=str(error))
    _refuse(wrong, line.decode(errors="replace"), bad)
    return None


def _refuse(error: SchemaMismatchError, row: object, bad: BadRows | None) -> None:
    if bad is None:
        raise error
    bad.add(error, row)


def _typed(
    rows: Rows, schema: pa.Schema, file: str, unit: str, numbers: Sequence[int], *, bad: BadRows | None
) -> Iterator[InputBlock]:
    """Yield the rows with their values as the columns have them; where one does not fit, those around it."""
    first = 0
    while first < len(rows):
        part, places = rows[first:], numbers[first:]
        try:
            yield InputBlock(_columns(part, schema), len(part), file, unit, places)
            return
        except SchemaMismatchError as error:
            at = error.facts["row"]
            if bad is None:
                raise located(error, file, unit, places) from error
            # Another column may be wrong in a row before.
            yield from _typed(part[:at], schema, file, unit, places[:at], bad=bad)
            bad.add(located(error, file, unit, places), part[at])
            first += at + 1


def _columns(rows: Rows, schema: pa.Schema) -> dict[str, Any]:
    columns: dict[str, Any] = {}
    for name in rows[0]:
        values = list(map(itemgetter(name), rows))
        index = schema.get_field_index(name)
        columns[name] = values if index < 0 else from_json(values, schema.field(index))
    return columns
