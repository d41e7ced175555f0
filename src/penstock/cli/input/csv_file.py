"""CSV as record batches of a table's types."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, BinaryIO, Final

import pyarrow as pa
import pyarrow.csv
from pyarrow import types as arrow

from penstock.cli.input.input_block import InputBlock, located
from penstock.cli.input.text_values import from_texts
from penstock.errors import SchemaMismatchError
from penstock.model.place.system_columns import CHANGE_TYPE

BLOCK_BYTES: Final = 1 << 20
TRUE_VALUES: Final = ("true", "True", "TRUE", "1")
# Arrow's words for a heading without an end of line after it, or nothing but ends of lines.
NO_ROWS: Final = "cannot infer number of columns"
FALSE_VALUES: Final = ("false", "False", "FALSE", "0")
_ROW: Final = re.compile(r"Row #(\d+): ")
_COLUMN: Final = re.compile(r"In CSV column #(\d+): ")


def read_csv(stream: BinaryIO, schema: pa.Schema, file: str, delimiter: str = ",") -> Iterator[InputBlock]:
    """Yield the rows of a stream whose first line has the column names, in blocks.

    Raises:
        SchemaMismatchError: a row has too many or too few values, or a value does not fit; names the row.
    """
    # One thread: only then does Arrow say which row is wrong.
    options = pyarrow.csv.ReadOptions(block_size=BLOCK_BYTES, use_threads=False)
    parse = pyarrow.csv.ParseOptions(delimiter=delimiter, newlines_in_values=True)
    convert = pyarrow.csv.ConvertOptions(
        column_types={field.name: _csv_type(field.type) for field in schema} | {CHANGE_TYPE: pa.string()},
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
        null_values=[""],
        true_values=list(TRUE_VALUES),
        false_values=list(FALSE_VALUES),
    )
    try:
        reader = pyarrow.csv.open_csv(stream, options, parse, convert)
        first = 2
        for batch in reader:
            numbers = range(first, first + batch.num_rows)
            yield InputBlock(_columns(batch, schema, file, numbers), batch.num_rows, file, "row", numbers)
            first += batch.num_rows
    except pa.ArrowInvalid as error:
        if NO_ROWS not in str(error):
            raise wrong_csv(error, file) from error


def _csv_type(kind: pa.DataType) -> pa.DataType:
    # The rest is read as text, and by us: Arrow's reader knows no JSON, no base64, and insists on zones.
    plain = (arrow.is_boolean, arrow.is_integer, arrow.is_floating, arrow.is_decimal, arrow.is_date, arrow.is_string)
    return kind if any(fits(kind) for fits in plain) else pa.string()


def _columns(batch: pa.RecordBatch, schema: pa.Schema, file: str, numbers: range) -> dict[str, Any]:
    columns: dict[str, Any] = {}
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        index = schema.get_field_index(name)
        if index < 0 or column.type.equals(schema.field(index).type):
            columns[name] = column
            continue
        try:
            columns[name] = from_texts(column, schema.field(index))
        except SchemaMismatchError as error:
            raise located(error, file, "row", numbers) from error
    return columns


def wrong_csv(error: pa.ArrowInvalid, file: str) -> SchemaMismatchError:
    """Return what Arrow says of a file, with the place if it names one."""
    reason = str(error).splitlines()[0]
    row, column = _ROW.search(reason), _COLUMN.search(reason)
    facts: dict[str, Any] = {"file": file}
    if row is not None:
        facts["row"] = int(row[1])
    if column is not None:
        facts["column"] = int(column[1]) + 1
    told = _COLUMN.sub("", _ROW.sub("", reason)).removeprefix("CSV parse error: ")
    told = told.replace("CSV conversion error to", "not a value of type")
    return SchemaMismatchError(f"the csv cannot be read: {told}", **facts)
