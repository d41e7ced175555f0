"""Files of rows: every format gives the same rows, and a bad one names its place."""

from __future__ import annotations

import gzip
import io
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.cli.input.inputs import BLOCK_ROWS, InputFile
from penstock.cli.terminal.options import InputFormat, OutputFormat
from penstock.cli.terminal.output import write_batches
from penstock.errors import InvalidError, NotFoundError, SchemaMismatchError

ORDERS = pa.schema([("id", pa.int64()), ("city", pa.string()), ("price", pa.decimal128(10, 2)), ("day", pa.date32())])


def read(path: Path, schema: pa.Schema, given: InputFormat | None = None) -> list[dict[str, object]]:
    """Return the rows of a file in the types of a schema."""
    found: list[dict[str, object]] = []
    for block in InputFile(str(path), given).blocks(schema):
        columns = (
            block.data if isinstance(block.data, dict) else dict(zip(block.data.schema.names, block.data, strict=True))
        )
        arrays = {
            name: column if isinstance(column, pa.Array) else pa.array(column, schema.field(name).type)
            for name, column in columns.items()
        }
        found += pa.table(arrays).to_pylist()
    return found


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


@pytest.mark.parametrize("output", [OutputFormat.CSV, OutputFormat.NDJSON, OutputFormat.ARROW, OutputFormat.PARQUET])
def test_what_is_written_is_read_back(
    stdout: Callable[[], bytes], rows: pa.Table, tmp_path: Path, output: OutputFormat
) -> None:
    write_batches(output, rows.schema, rows.to_batches())
    (tmp_path / "rows").write_bytes(stdout())

    assert read(tmp_path / "rows", rows.schema, InputFormat(output.value)) == rows.to_pylist()


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a.csv", InputFormat.CSV),
        ("a.tsv", InputFormat.CSV),
        ("a.CSV.gz", InputFormat.CSV),
        ("a.jsonl", InputFormat.NDJSON),
        ("a.json", InputFormat.JSON),
        ("a.ndjson", InputFormat.NDJSON),
        ("a.parquet", InputFormat.PARQUET),
        ("a.pq", InputFormat.PARQUET),
        ("a.arrow", InputFormat.ARROW),
        ("a.feather", InputFormat.ARROW),
    ],
)
def test_name_says_the_format(tmp_path: Path, name: str, expected: InputFormat) -> None:
    assert InputFile(str(write(tmp_path / name, "")), None).format is expected


@pytest.mark.parametrize("name", ["-", "rows.txt", "rows"])
def test_name_that_does_not_say_asks_for_the_format(name: str) -> None:
    with pytest.raises(InvalidError, match="--format"):
        InputFile(name, None)


def test_absent_file_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="no such file"):
        InputFile(str(tmp_path / "gone.csv"), None)


def test_tabs_and_gzip_are_read(tmp_path: Path) -> None:
    tabs = write(tmp_path / "a.tsv", "id\tcity\n1\tUlm\n")
    packed = tmp_path / "a.ndjson.gz"
    packed.write_bytes(gzip.compress(b'{"id": 1, "city": "Ulm"}\n'))

    assert read(tabs, ORDERS) == read(packed, ORDERS) == [{"id": 1, "city": "Ulm"}]


def test_stdin_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"id\n7\n")))

    (block,) = InputFile("-", InputFormat.CSV).blocks(ORDERS)

    assert block.data["id"].to_pylist() == [7]


def test_arrow_files_and_streams_are_told_apart(tmp_path: Path) -> None:
    table = pa.table({"id": [1, 2]})
    with pa.ipc.new_file(tmp_path / "file.arrow", table.schema) as file:
        file.write_table(table)
    with pa.ipc.new_stream(tmp_path / "stream.arrow", table.schema) as stream:
        stream.write_table(table)

    assert read(tmp_path / "file.arrow", ORDERS) == read(tmp_path / "stream.arrow", ORDERS) == table.to_pylist()


def test_large_batches_are_read_in_blocks_with_the_number_of_each_row(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": range(2 * BLOCK_ROWS + 5)}), tmp_path / "a.parquet")

    blocks = list(InputFile(str(tmp_path / "a.parquet"), None).blocks(ORDERS))

    assert [block.rows for block in blocks] == [BLOCK_ROWS, BLOCK_ROWS, 5]
    assert [block.numbers[0] for block in blocks] == [1, BLOCK_ROWS + 1, 2 * BLOCK_ROWS + 1]


def test_csv_reads_null_and_empty_apart(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", 'id,city,price,day\n1,"",1.5,2026-07-01\n2,,,\n')

    first, second = read(path, ORDERS)

    assert (first["city"], second["city"], second["price"]) == ("", None, None)


def test_timestamps_without_zone_are_utc_where_the_column_has_a_zone(tmp_path: Path) -> None:
    schema = pa.schema([("at", pa.timestamp("us", "UTC"))])
    texts = ("2026-07-01T12:00:00Z", "2026-07-01 12:00:00", "2026-07-01T14:00:00+02:00")
    path = write(tmp_path / "a.csv", "at\n" + "\n".join(texts) + "\n")

    assert len({row["at"] for row in read(path, schema)}) == 1


@pytest.mark.parametrize(
    ("name", "text", "place"),
    [
        ("a.csv", "id,city\n1,Ulm\nx,Bonn\n", "row=3"),
        ("a.csv", "id,city\n1,Ulm\n2\n", "row=3"),
        ("a.csv", 'id,city,day\n1,"a\nb",2026-07-01\n2,b,tomorrow\n', "row=3"),
        ("a.csv", "", "a.csv"),
        ("a.ndjson", '{"id": 1}\n\n{"id": \n', "line=3"),
        ("a.ndjson", '{"id": 1}\n[2]\n', "line=2"),
        ("a.ndjson", '{"id": 1},{"id": 2}\n{"id":\n3}\n', "line=1"),
        ("a.ndjson", '{"id": 1, "day": "2026-07-01"}\n{"id": 2, "day": "tomorrow"}\n', "line=2"),
        ("a.ndjson", '{"id": 1, "price": "1.5"}\n{"id": 2, "price": 1.005}\n', "line=2"),
        ("a.parquet", "no parquet", "a.parquet"),
        ("a.arrow", "no arrow at all", "a.arrow"),
    ],
)
def test_bad_row_names_its_place(tmp_path: Path, name: str, text: str, place: str) -> None:
    with pytest.raises(SchemaMismatchError, match=place):
        read(write(tmp_path / name, text), ORDERS)


def test_error_of_a_row_becomes_one_of_a_line(tmp_path: Path) -> None:
    path = write(tmp_path / "a.ndjson", '\n{"id": 1}\n\n{"id": 2}\n')
    (block,) = InputFile(str(path), None).blocks(ORDERS)

    located = block.locate(SchemaMismatchError("a value does not fit", row=1, column="id"))

    assert located.facts == {"file": str(path), "line": 4, "column": "id"}


def test_json_floats_and_words_go_into_double_columns(tmp_path: Path) -> None:
    schema = pa.schema([("x", pa.float64()), ("price", pa.decimal128(10, 2))])
    path = write(tmp_path / "a.ndjson", '{"x": 1.5, "price": 1.10}\n{"x": "Infinity", "price": null}\n{"x": null}\n')

    assert [row["x"] for row in read(path, schema)] == [1.5, float("inf"), None]
