"""Rows that do not fit: left out up to a number, written down with their place, and never more than was said."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest
from typer.testing import CliRunner, Result

import penstock
from penstock.cli.main import app

Put = Callable[..., Result]


@pytest.fixture(params=["directory", "server"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Return where `t`, `small` and `log` are."""
    with penstock.connect(tmp_path / "data") as connection:
        connection.create_table("t", "id BIGINT PRIMARY KEY, n INT, at TIMESTAMP, s STRING", buckets=2)
        small = "k STRING, n TINYINT SUM, PRIMARY KEY (k)"
        connection.create_table("small", small, merge_engine="aggregate").upsert([{"k": "full", "n": 120}])
        connection.create_table("log", "a BIGINT, b STRING")
    if request.param == "directory":
        yield str(tmp_path / "data")
        return
    with penstock.serve(tmp_path / "data") as server:
        yield server.url


@pytest.fixture
def put(url: str) -> Put:
    def run(*words: str, code: int = 0) -> Result:
        done = CliRunner().invoke(app, ["put", *words], env={"PENSTOCK_URL": url})
        assert done.exit_code == code, done.output
        return done

    return run


def rows(url: str, table: str) -> list[dict[str, Any]]:
    done = CliRunner().invoke(app, ["scan", table, "-o", "ndjson"], env={"PENSTOCK_URL": url})
    assert done.exit_code == 0, done.output
    return [json.loads(line) for line in done.stdout.splitlines()]


def rejects(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


CSV = (
    b"id,n,at,s\n"  # line 1
    b'1,1,2026-07-01,"two\nlines"\n'  # lines 2 and 3
    b"2,x,,\n"  # 4: no number
    b"\n"  # 5: nothing
    b"3,3\n"  # 6: too short
    b"4,4,tomorrow,\n"  # 7: no time
    b",5,,\n"  # 8: no key
    b"6, 6 ,2026-07-01T10:00:00+02:00,\n"  # 9
    b"7,7,,\xff\n"  # 10: no UTF-8
    b'8,99999999999,,""\n'  # 11: too large
    b'9,9,,""\n'  # 12
    b"10,1,,a,b,c\n"  # 13: too long
)


def test_bad_rows_of_a_csv_are_left_out_with_their_lines(put: Put, url: str, tmp_path: Path) -> None:
    file, bad = tmp_path / "rows.csv", tmp_path / "bad.ndjson"
    file.write_bytes(CSV)

    done = put("t", str(file), "--skip-bad", "10", "--rejects", str(bad), "-o", "json")

    assert json.loads(done.stdout)[0] | {"seconds": 0} == {
        "table": "default.t",
        "operation": "upsert",
        "rows": 3,
        "seconds": 0,
        "skipped": 7,
    }
    assert "7 bad rows left out" in done.stderr
    found = rejects(bad)
    assert sorted(row["line"] for row in found) == [4, 6, 7, 8, 10, 11, 13]
    assert {row["file"] for row in found} == {str(file)}
    assert next(row for row in found if row["line"] == 7)["data"]["at"] == "tomorrow"
    assert next(row for row in found if row["line"] == 6)["data"] == "3,3"
    assert sorted((row["id"], row["n"], row["s"]) for row in rows(url, "t")) == [
        (1, 1, "two\nlines"),
        (6, 6, None),
        (9, 9, ""),
    ]


def test_one_bad_row_more_writes_nothing_more_and_tells_what_was_written(put: Put, url: str, tmp_path: Path) -> None:
    file, bad = tmp_path / "rows.csv", tmp_path / "bad.ndjson"
    wrong = {5, 90_000, 90_001}
    file.write_text("id,n,at,s\n" + "".join(f"{i},{'x' if i in wrong else i},,{'y' * 20}\n" for i in range(100_000)))

    done = put("t", str(file), "--skip-bad", "2", "--rejects", str(bad), code=1)

    said = re.search(r"written before it: ([\d,]+) rows", done.stderr)
    assert said is not None, done.stderr
    written = {row["id"] for row in rows(url, "t")}
    assert len(written) == int(said[1].replace(",", "")) > 0
    assert written == set(range(max(written) + 1)) - {5}
    assert "line=90003" in done.stderr
    assert "bad rows left out before it: 2, as many as --skip-bad allows" in done.stderr
    assert [row["line"] for row in rejects(bad)] == [7, 90_002, 90_003]


def test_first_bad_row_stops_without_skip_bad_and_is_in_the_file(put: Put, url: str, tmp_path: Path) -> None:
    file, bad = tmp_path / "rows.csv", tmp_path / "bad.ndjson"
    file.write_bytes(CSV)

    assert "row=" in put("t", str(file), code=1).stderr
    put("t", str(file), "--rejects", str(bad), code=1)

    assert [row["line"] for row in rejects(bad)] == [4]
    assert rows(url, "t") == []


def test_bad_lines_of_json_are_left_out(put: Put, url: str, tmp_path: Path) -> None:
    file, bad = tmp_path / "rows.ndjson", tmp_path / "bad.ndjson"
    good = {"id": 1, "n": 1, "at": "2026-07-01", "s": "a"}
    lines = [
        good,
        {"id": 2},
        good | {"id": None},
        good | {"at": "x"},
        good | {"n": "x"},
        good | {"zzz": 1},
        good | {"id": 7},
    ]
    text = [json.dumps(line) for line in lines]
    file.write_text("\n".join([*text[:2], "{broken", "[1]", *text[2:]]))

    put("t", str(file), "--skip-bad", "7", "--rejects", str(bad))

    assert sorted(row["line"] for row in rejects(bad)) == [2, 3, 4, 5, 6, 7, 8]
    assert sorted(row["id"] for row in rows(url, "t")) == [1, 7]
    put("t", str(file), "--skip-bad", "6", code=1)


def test_bad_elements_of_an_array_are_left_out(put: Put, url: str, tmp_path: Path) -> None:
    file, bad = tmp_path / "rows.json", tmp_path / "bad.ndjson"
    file.write_text(json.dumps([{"a": 1, "b": "x"}, 17, {"a": "y", "b": "x"}, {"a": 4, "b": None}]))

    put("log", str(file), "--skip-bad", "2", "--rejects", str(bad))

    assert sorted(row["row"] for row in rejects(bad)) == [2, 3]
    assert [row["a"] for row in rows(url, "log")] == [1, 4]


@pytest.mark.parametrize("ending", ["parquet", "arrow"])
def test_bad_rows_of_binary_files_are_left_out(put: Put, url: str, tmp_path: Path, ending: str) -> None:
    file, bad = tmp_path / f"rows.{ending}", tmp_path / "bad.ndjson"
    table = pa.table(
        {
            "id": pa.array([1, None, 3]),
            "n": pa.array([1, 2, 3], pa.int32()),
            "at": pa.array([date(2026, 7, 1), None, None]),
            "s": ["a", "b", "c"],
        }
    )
    if ending == "parquet":
        pyarrow.parquet.write_table(table, file)
    else:
        with pa.ipc.new_file(file, table.schema) as sink:
            sink.write_table(table)

    put("t", str(file), "--skip-bad", "1", "--rejects", str(bad))

    assert [(row["row"], row["data"]["s"]) for row in rejects(bad)] == [(2, "b")]
    assert [row["id"] for row in rows(url, "t")] == [1, 3]


def test_row_that_only_the_table_can_refuse_is_found_among_the_others(put: Put, url: str, tmp_path: Path) -> None:
    file, bad = tmp_path / "rows.csv", tmp_path / "bad.ndjson"
    file.write_text("k,n\n" + "".join(f"{'full' if i == 700 else i},{i % 100}\n" for i in range(1000)))

    put("small", str(file), "--skip-bad", "1", "--rejects", str(bad))

    found = rows(url, "small")
    if rejects(bad):
        assert [row["line"] for row in rejects(bad)] == [702]
    assert len(found) == 1000


def test_wrong_file_is_no_matter_of_rows(put: Put, url: str, tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    file.write_text("id,n,at,s,extra\n1,1,,,\n")
    assert "extra" in put("t", str(file), "--skip-bad", "1000000", code=1).stderr
    file.write_text("n,at,s\n1,,\n")
    assert "key column" in put("t", str(file), "--skip-bad", "1000000", code=1).stderr
    file.write_text("id,n\n1,1\n")
    assert "--missing keep" in put("t", str(file), "--skip-bad", "1000000", code=1).stderr
    assert rows(url, "t") == []


def test_skip_bad_goes_not_with_changes_and_rejects_names_no_input(put: Put, tmp_path: Path) -> None:
    file = tmp_path / "rows.ndjson"
    file.write_text('{"id": 1, "n": 1, "at": null, "s": "a"}\n')

    put("t", str(file), "--operation", "apply", "--skip-bad", "1", code=2)
    put("t", str(file), "--rejects", str(file), code=2)
    put("t", str(file), "--skip-bad", "-1", code=2)

    assert file.read_text() != ""


@pytest.mark.parametrize("skip", [[], ["--skip-bad", "1"]])
@pytest.mark.parametrize(
    ("name", "content", "count"),
    [
        ("heading.csv", b"id,n,at,s\n", 0),
        ("heading-without-end.csv", b"id,n,at,s", 0),
        ("marked.csv", b"\xef\xbb\xbfid,n,at,s\r\n1,1,,a\r\n", 1),
        ("marked.ndjson", b'\xef\xbb\xbf{"id":1,"n":1,"at":"2026-07-01","s":"a"}', 1),
        ("empty.ndjson", b"", 0),
        ("quoted.csv", b'"id","n","at","s"\n"1","1",,"a ""b"", c"\n', 1),
    ],
)
def test_odd_files_are_read(
    put: Put, url: str, tmp_path: Path, *, skip: list[str], name: str, content: bytes, count: int
) -> None:
    (tmp_path / name).write_bytes(content)

    put("t", str(tmp_path / name), *skip)

    assert len(rows(url, "t")) == count


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("utf16.csv", "id,n\n1,1\n".encode("utf-16"), "the file is UTF-16, not utf-8"),
        ("empty.csv", b"", "the csv is empty"),
        ("lines.csv", b"\n\n", "the csv is empty"),
        ("binary.csv", b"PAR1\0\0", "the file is no text"),
        ("cut.csv.gz", b"\x1f\x8b\x08\0\0", "not a readable gzip file"),
        ("plain.csv.gz", b"id,n,at,s\n", "gzip"),
    ],
)
def test_file_that_is_no_text_is_said_so(put: Put, tmp_path: Path, name: str, content: bytes, words: str) -> None:
    (tmp_path / name).write_bytes(content)

    assert words in put("t", str(tmp_path / name), code=1).stderr


def test_delimiter_is_a_character_or_tab(put: Put, url: str, tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    for id, (given, between) in enumerate([(";", ";"), ("tab", "\t"), ("|", "|")]):
        file.write_text(between.join(["id", "n", "at", "s"]) + "\n" + between.join([str(id), "1", "2026-07-01", "a,b"]))
        put("t", str(file), "--delimiter", given)
        put("t", str(file), "--delimiter", given, "--skip-bad", "0")
    for wrong in ("", "ab", '"', "\n"):
        put("t", str(file), "--delimiter", wrong, code=2)

    assert [(row["id"], row["s"]) for row in rows(url, "t")] == [(0, "a,b"), (1, "a,b"), (2, "a,b")]
    with penstock.connect(url) as connection:
        assert connection.table("t").get(id=1)["at"] == datetime(2026, 7, 1, tzinfo=UTC)  # type: ignore[index]
