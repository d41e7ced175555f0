"""CSV whose bad rows are told apart: read as text, converted column by column, each row with its line.

It is slower than `csv_file`, which stops at the first bad row, and reads the same values.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, BinaryIO, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
from pyarrow import types as arrow

from penstock.cli.input.bad_rows import BadRows
from penstock.cli.input.csv_file import BLOCK_BYTES, FALSE_VALUES, NO_ROWS, TRUE_VALUES, wrong_csv
from penstock.cli.input.input_block import InputBlock
from penstock.cli.input.text_values import from_texts
from penstock.errors import SchemaMismatchError

_TEXT: Final = pa.large_string()


@dataclass(slots=True)
class _Torn:
    """Rows that have another number of values than the heading; empty lines are none of them, but take a line."""

    found: list[tuple[int, int, int, str]] = field(default_factory=list)

    def keep(self, row: Any) -> str:
        self.found.append((row.number, row.actual_columns, row.expected_columns, row.text))
        return "skip"


def read_csv_rows(
    stream: BinaryIO, schema: pa.Schema, file: str, delimiter: str, bad: BadRows, *, keyed: bool
) -> Iterator[InputBlock]:
    """Yield the rows that fit, in blocks; the others are given to `bad`.

    Arrow reads an empty line as a row without any value. In a table with a key that is none to write, so such rows
    count as lines and are left out; where they may be rows, empty lines are skipped before, and not counted.

    Raises:
        SchemaMismatchError: the file is no CSV at all.
        InvalidError: there is one bad row too many.
    """
    torn = _Torn()
    # One thread: only then does Arrow say which row is wrong.
    options = pyarrow.csv.ReadOptions(block_size=BLOCK_BYTES, use_threads=False)
    parse = pyarrow.csv.ParseOptions(
        delimiter=delimiter, newlines_in_values=True, ignore_empty_lines=not keyed, invalid_row_handler=torn.keep
    )
    convert = pyarrow.csv.ConvertOptions(
        column_types={found.name: pa.binary() for found in schema},
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
        null_values=[""],
    )
    try:
        reader = pyarrow.csv.open_csv(stream, options, parse, convert)
        lines = _Lines(torn)
        for batch in reader:
            numbers, refused = lines.of(batch)
            yield from _fitting(batch, numbers, refused, schema, file, bad=bad, keyed=keyed)
        _reject_torn(torn.found, lines, file, bad)
    except pa.ArrowInvalid as error:
        if NO_ROWS not in str(error):
            raise wrong_csv(error, file) from error


class _Lines:
    """Counts lines: the heading is the first, and a value may have ends of lines in it."""

    def __init__(self, torn: _Torn) -> None:
        self._torn = torn
        self._row = 2
        self._line = 2

    def of(self, batch: pa.RecordBatch) -> tuple[npt.NDArray[np.int64], list[tuple[int, int, int, str]]]:
        """Return the line of each row of a batch, and the torn rows among and before them, with theirs."""
        heights = np.ones(batch.num_rows, np.int64)
        for column in batch.columns:
            if arrow.is_binary(column.type):
                heights += pc.count_substring(column, "\n").fill_null(0).to_numpy(zero_copy_only=False)
        # Torn rows by number, up to the last row of this batch: each pushes that row further down.
        end, count = self._row + batch.num_rows, 0
        for number, *_ in self._torn.found:
            if number >= end + count:
                break
            count += 1
        refused, self._torn.found = self._torn.found[:count], self._torn.found[count:]
        places = np.arange(self._row, end + count)
        kept = np.ones(len(places), bool)
        kept[[number - self._row for number, *_ in refused]] = False
        whole = np.ones(len(places), np.int64)
        whole[kept] = heights
        whole[~kept] = [text.count("\n") + 1 for *_, text in refused]
        starts = self._line + np.cumsum(whole) - whole
        self._row, self._line = end + count, int(self._line + whole.sum())
        told = [(int(line), *facts) for line, (_, *facts) in zip(starts[~kept], refused, strict=True)]
        return starts[kept], told  # type: ignore[return-value]

    def rest(self, found: list[tuple[int, int, int, str]]) -> list[tuple[int, int, int, str]]:
        """Return the torn rows after the last batch, with their lines."""
        told = []
        for _, actual, expected, text in found:
            told.append((self._line, actual, expected, text))
            self._line += text.count("\n") + 1
        return told


def _fitting(
    batch: pa.RecordBatch,
    numbers: npt.NDArray[np.int64],
    torn: list[tuple[int, int, int, str]],
    schema: pa.Schema,
    file: str,
    *,
    bad: BadRows,
    keyed: bool,
) -> Iterator[InputBlock]:
    """Yield what fits of a batch, as one block; say what does not, in the order of the lines."""
    faults: dict[int, tuple[SchemaMismatchError, object]] = {
        line: (_torn_error(line, actual, expected, file), text) for line, actual, expected, text in torn if text
    }
    good = np.ones(batch.num_rows, bool)
    if keyed:
        good = np.any([column.is_valid().to_numpy(zero_copy_only=False) for column in batch.columns], axis=0)
    columns: dict[str, Any] = {}
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        index = schema.get_field_index(name)
        kind = pa.field(name, _TEXT) if index < 0 else schema.field(index)
        columns[name], wrong = _converted(column, kind)
        for at, error in wrong.items():
            if good[at]:
                row = {
                    found: values[at].as_py() for found, values in zip(batch.schema.names, batch.columns, strict=True)
                }
                told = SchemaMismatchError(error.message, file=file, line=int(numbers[at]), **_facts(error))
                faults.setdefault(int(numbers[at]), (told, _texts(row)))
        good[list(wrong)] = False
    for line in sorted(faults):
        bad.add(*faults[line])
    kept = np.flatnonzero(good)
    if len(kept) == batch.num_rows:
        yield InputBlock(columns, batch.num_rows, file, "line", numbers.tolist())
    elif len(kept):
        taken = {name: values.take(pa.array(kept)) for name, values in columns.items()}
        yield InputBlock(taken, len(kept), file, "line", numbers[kept].tolist())


def _converted(column: pa.Array, kind: pa.Field) -> tuple[pa.Array, dict[int, SchemaMismatchError]]:
    """Return the values in the column's type, null where one does not fit, and why it does not."""
    wrong: dict[int, SchemaMismatchError] = {}
    pieces = list(_pieces(column, kind, 0, wrong))
    return pa.concat_arrays(pieces) if pieces else pa.array([], kind.type), wrong


def _pieces(column: pa.Array, kind: pa.Field, first: int, wrong: dict[int, SchemaMismatchError]) -> Iterator[pa.Array]:
    try:
        yield _read(column, kind)
        return
    except SchemaMismatchError as error:
        if len(column) == 1:
            wrong[first] = error
            yield pa.nulls(1, kind.type)
            return
        at = error.facts.get("row")
    # The row that is named comes to stand alone in two steps; else in the middle.
    cut = at if isinstance(at, int) and 0 < at < len(column) else 1 if at == 0 else len(column) // 2
    yield from _pieces(column[:cut], kind, first, wrong)
    yield from _pieces(column[cut:], kind, first + cut, wrong)


def _read(column: pa.Array, kind: pa.Field) -> pa.Array:
    if not arrow.is_binary(column.type):
        return column
    try:
        texts = column.cast(pa.string())
    except pa.ArrowInvalid as error:
        raise SchemaMismatchError("a text is not utf-8", column=kind.name) from error
    if arrow.is_string(kind.type) or arrow.is_large_string(kind.type):
        return texts.cast(kind.type)
    if arrow.is_boolean(kind.type):
        return _booleans(texts, kind)
    plain = arrow.is_integer(kind.type) or arrow.is_floating(kind.type) or arrow.is_decimal(kind.type)
    return from_texts(pc.utf8_trim_whitespace(texts) if plain else texts, kind)


def _booleans(texts: pa.Array, kind: pa.Field) -> pa.Array:
    true, false = (pc.is_in(texts, pa.array(words)) for words in (TRUE_VALUES, FALSE_VALUES))
    unknown = pc.and_(pc.invert(pc.or_(true, false)), texts.is_valid()).to_numpy(zero_copy_only=False)
    if unknown.any():
        row = int(np.argmax(unknown))
        raise SchemaMismatchError(
            "a value does not fit its column", column=kind.name, row=row, value=repr(texts[row].as_py()), wanted="bool"
        )
    return pc.if_else(texts.is_valid(), true, pa.scalar(None, pa.bool_()))


def _facts(error: SchemaMismatchError) -> dict[str, Any]:
    return {name: value for name, value in error.facts.items() if name != "row"}


def _texts(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value.decode(errors="replace") if isinstance(value, bytes) else value for name, value in row.items()}


def _torn_error(line: int, actual: int, expected: int, file: str) -> SchemaMismatchError:
    return SchemaMismatchError(f"a row has {actual} values where the heading has {expected}", file=file, line=line)


def _reject_torn(found: list[tuple[int, int, int, str]], lines: _Lines, file: str, bad: BadRows) -> None:
    for line, actual, expected, text in lines.rest(found):
        if text:
            bad.add(_torn_error(line, actual, expected, file), text)
