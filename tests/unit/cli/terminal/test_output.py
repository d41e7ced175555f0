"""Rows on stdout: whole, in order, and readable by whoever reads the format."""

from __future__ import annotations

import csv
import io
import json
import pty
import sys
import unicodedata
from collections.abc import Callable

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.cli.terminal.options import OutputFormat
from penstock.cli.terminal.output import write_batches

Written = Callable[[], bytes]


def test_ndjson_has_a_json_object_for_each_row(stdout: Written, rows: pa.Table) -> None:
    assert write_batches(OutputFormat.NDJSON, rows.schema, rows.to_batches()) == 3

    first, second, third = map(json.loads, stdout().splitlines())
    assert first == {
        "id": 1,
        "flag": True,
        "ratio": 1.5,
        "price": 12.5,
        "city": 'Ulm, "old"\n\ttown\\',
        "day": "2026-07-01",
        "at": "2026-07-01T12:00:00.000005Z",
        "local": "2026-07-01T12:00:00.000005",
        "blob": "AP8=",
        "tags": ["a", None],
        "days": ["2026-07-01"],
        "point": {"x": 1, "n": "p"},
        "counts": {"k": 1},
    }
    assert (second["city"], second["blob"], second["tags"], second["day"]) == ("", "", [], "1969-12-31")
    assert third == dict.fromkeys(rows.column_names) | {"id": 3}


def test_json_keeps_the_digits_of_decimals_and_large_numbers(stdout: Written) -> None:
    exact = pa.table({"n": [2**63 - 1], "d": pa.array(["0.10"]).cast(pa.decimal128(38, 2))})

    write_batches(OutputFormat.NDJSON, exact.schema, exact.to_batches())

    assert stdout() == b'{"n":9223372036854775807,"d":0.10}\n'


def test_json_writes_as_words_what_it_has_no_numbers_for(stdout: Written) -> None:
    odd = pa.table({"x": [float("nan"), float("inf"), -float("inf")], "l": [[float("nan")], [1.0], [-float("inf")]]})

    write_batches(OutputFormat.NDJSON, odd.schema, odd.to_batches())

    found = [json.loads(line) for line in stdout().splitlines()]
    assert [row["x"] for row in found] == ["NaN", "Infinity", "-Infinity"]
    assert [row["l"] for row in found] == [["NaN"], [1.0], ["-Infinity"]]


def test_json_escapes_every_character_that_must_be(stdout: Written) -> None:
    every = pa.table({'na"me': ["".join(map(chr, range(0x100))), "\u2028\U0001f600"]})

    write_batches(OutputFormat.NDJSON, every.schema, every.to_batches())

    assert [json.loads(line) for line in stdout().decode().split("\n")[:-1]] == every.to_pylist()


@pytest.mark.parametrize("batch_rows", [1, 2, 10])
def test_json_is_one_array_however_many_batches(stdout: Written, rows: pa.Table, batch_rows: int) -> None:
    write_batches(OutputFormat.JSON, rows.schema, rows.to_batches(batch_rows))

    assert [row["id"] for row in json.loads(stdout())] == [1, 2, 3]


def test_json_without_rows_is_an_empty_array(stdout: Written, rows: pa.Table) -> None:
    write_batches(OutputFormat.JSON, rows.schema, [])

    assert json.loads(stdout()) == []


def test_csv_tells_null_from_empty(stdout: Written, rows: pa.Table) -> None:
    write_batches(OutputFormat.CSV, rows.schema, rows.to_batches())

    heading, *lines = csv.reader(io.StringIO(stdout().decode()))
    assert heading == rows.column_names
    assert lines[0][heading.index("city")] == 'Ulm, "old"\n\ttown\\'
    assert lines[0][heading.index("counts")] == '{"k": 1}'
    assert stdout().decode().splitlines()[-1] == "3" + "," * (rows.num_columns - 1)
    assert '2,false,-2e+300,-0.01,"",' in stdout().decode()


def test_csv_without_rows_has_the_heading(stdout: Written, rows: pa.Table) -> None:
    write_batches(OutputFormat.CSV, rows.schema.empty_table().select(["id", "city"]).schema, [])

    assert stdout() == b'"id","city"\n'


def test_arrow_and_parquet_hold_the_rows_as_they_are(stdout: Written, rows: pa.Table) -> None:
    write_batches(OutputFormat.ARROW, rows.schema, rows.to_batches(1))
    streamed = stdout()
    write_batches(OutputFormat.PARQUET, rows.schema, rows.to_batches(1))
    filed = stdout()[len(streamed) :]

    assert pa.ipc.open_stream(streamed).read_all().equals(rows)
    # Parquet names the entries of a map in its own way.
    assert pq.read_table(io.BytesIO(filed)).to_pylist() == rows.to_pylist()


def test_parquet_gathers_small_batches_into_one_row_group(stdout: Written) -> None:
    many = pa.table({"id": range(1_000)})

    write_batches(OutputFormat.PARQUET, many.schema, many.to_batches(10))

    assert pq.ParquetFile(io.BytesIO(stdout())).num_row_groups == 1


def test_without_a_terminal_the_default_is_ndjson(stdout: Written) -> None:
    write_batches(None, pa.schema([("id", pa.int64())]), [pa.record_batch({"id": [1]})])

    assert stdout() == b'{"id":1}\n'


@pytest.mark.parametrize("output", list(OutputFormat))
def test_types_that_only_queries_give_are_written(stdout: Written, output: OutputFormat) -> None:
    odd = pa.table(
        {
            "word": pa.array(["a", None]).dictionary_encode(),
            "for": pa.array([1, None], pa.duration("us")),
            "at": pa.array([1, None], pa.time64("us")),
            "none": pa.nulls(2),
        }
    )

    assert write_batches(output, odd.schema, odd.to_batches()) == 2
    assert stdout()


@pytest.mark.parametrize(
    ("key", "entries", "shown"),
    [
        (pa.string(), [("a", 1), ("b", 2)], {"a": 1, "b": 2}),
        (pa.string(), [("a", 1), ("a", 2)], [["a", 1], ["a", 2]]),
        (pa.list_(pa.int32()), [([1], 1)], [[[1], 1]]),
    ],
    ids=["plain", "a key twice", "lists for keys"],
)
def test_map_that_no_object_can_say_is_written_as_pairs(
    key: pa.DataType, entries: list[object], shown: object, stdout: Written
) -> None:
    rows = pa.table({"m": pa.array([entries], pa.map_(key, pa.int32()))})

    write_batches(OutputFormat.NDJSON, rows.schema, rows.to_batches())

    assert json.loads(stdout()) == {"m": shown}


def _read(screen: io.FileIO) -> bytes:
    """Return what a terminal shows next, nothing once nobody writes to it."""
    try:
        return screen.read(65_536) or b""
    except OSError:
        return b""


HOSTILE = "\x1b]0;owned\x07\x1b[31mred\x7f\x9b2J"


@pytest.mark.parametrize("output", [OutputFormat.CSV, OutputFormat.NDJSON, OutputFormat.JSON, OutputFormat.TABLE, None])
def test_controls_in_values_are_shown_on_a_terminal_not_sent(output: OutputFormat | None) -> None:
    rows = pa.table({"name\x1b[1m": [HOSTILE], "lines": ["a\tb"]})
    mine, terminal = pty.openpty()
    with open(mine, "rb", buffering=0) as screen, pytest.MonkeyPatch.context() as patch:
        with open(terminal, "w") as stdout:
            patch.setattr(sys, "stdout", stdout)
            write_batches(output, rows.schema, rows.to_batches())
        seen = b"".join(iter(lambda: _read(screen), b"")).decode()

    assert not any(unicodedata.category(each) == "Cc" and each not in "\t\r\n" for each in seen)
    assert "red" in seen


def test_controls_in_values_reach_a_pipe_as_they_are(stdout: Written) -> None:
    rows = pa.table({"name": [HOSTILE]})

    write_batches(OutputFormat.CSV, rows.schema, rows.to_batches())

    assert HOSTILE.encode() in stdout()
