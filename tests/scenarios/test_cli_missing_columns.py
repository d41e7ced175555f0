"""`put` of rows that lack a column: what is stored never depends on how a pipe delivers them."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from penstock.cli.main import main
from penstock.client.connection import Connection, connect

STORED = {"id": 1, "a": "old", "b": "kept"}
PATCH = [{"id": 2, "a": "x", "b": "y"}, {"id": 1, "a": "new"}]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Return a directory with one row in `d.t`, and an aggregating table `d.sums`."""
    with connect(tmp_path / "data") as conn:
        conn.create_database("d")
        conn.create_table("d.t", "id BIGINT, a STRING, b STRING, PRIMARY KEY (id)").upsert([STORED])
        conn.create_table("d.log", "id BIGINT, a STRING")
        conn.create_table(
            "d.sums",
            "id BIGINT, n BIGINT SUM, last STRING LAST_VALUE, PRIMARY KEY (id)",
            merge_engine="aggregate",
            properties={"delete.behavior": "allow"},
        )
    return tmp_path / "data"


class Pieces(io.RawIOBase):
    """A pipe whose writer writes a piece once the one before was read."""

    def __init__(self, pieces: Sequence[str]) -> None:
        self._pieces = [piece.encode() for piece in pieces]

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        piece = self._pieces.pop(0) if self._pieces else b""
        buffer[: len(piece)] = piece
        return len(piece)


@dataclass(frozen=True)
class Done:
    """How a command ended."""

    code: int
    told: str


Put = Callable[..., Done]


@pytest.fixture
def put(data: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Put:
    """Return a function that runs `put` on a pipe that delivers these pieces."""

    def run(table: str, pieces: Sequence[str], *words: str, file: str = "-") -> Done:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(Pieces(pieces))))
        format_ = ["--format", "ndjson"] if file == "-" else []
        monkeypatch.setattr(sys, "argv", ["penstock", "put", table, file, *format_, "--url", str(data), *words])
        try:
            main()
        except SystemExit as end:
            return Done(int(end.code or 0), capsys.readouterr().err)
        return Done(0, capsys.readouterr().err)

    return run


def lines(rows: Sequence[dict[str, object]]) -> list[str]:
    return [json.dumps(row) + "\n" for row in rows]


def deliveries(rows: Sequence[dict[str, object]]) -> list[list[str]]:
    """Return the rows as one piece, as a piece a line, and as pieces that end inside a line."""
    text = "".join(lines(rows))
    return [[text], lines(rows), [text[:7], text[7:30], text[30:]]]


def stored(conn: Connection, table: str = "d.t") -> dict[int, dict[str, object]]:
    return {row["id"]: row for row in conn.table(table).scan().to_arrow().to_pylist()}


@pytest.mark.parametrize("pieces", deliveries(PATCH), ids=["one block", "line by line", "torn"])
def test_missing_column_is_refused_by_default_and_stored_values_stay(data: Path, put: Put, pieces: list[str]) -> None:
    done = put("d.t", pieces)

    assert done.code == 1
    assert "a row lacks a column" in done.told
    assert "--missing keep" in done.told
    assert "line=2" in done.told
    assert "column=b" in done.told
    with connect(data) as conn:
        assert stored(conn) == {1: STORED, 2: PATCH[0]}


@pytest.mark.parametrize("pieces", deliveries(PATCH), ids=["one block", "line by line", "torn"])
@pytest.mark.parametrize(("missing", "b"), [("keep", "kept"), ("null", None)])
def test_missing_column_is_kept_or_nulled_as_asked(
    data: Path, put: Put, pieces: list[str], missing: str, b: str | None
) -> None:
    done = put("d.t", pieces, "--missing", missing)

    assert done.code == 0, done.told
    with connect(data) as conn:
        assert stored(conn) == {1: {"id": 1, "a": "new", "b": b}, 2: PATCH[0]}


def test_rows_of_one_key_are_applied_in_their_order_whatever_they_lack(data: Path, put: Put) -> None:
    rows: list[dict[str, object]] = [{"id": 1, "a": "1", "b": "1"}, {"id": 1, "b": "2"}, {"id": 1, "a": "3", "b": "3"}]

    done = put("d.t", ["".join(lines(rows))], "--missing", "keep")

    assert done.code == 0, done.told
    with connect(data) as conn:
        assert stored(conn) == {1: {"id": 1, "a": "3", "b": "3"}}


def test_missing_goes_with_the_columns_named(data: Path, put: Put) -> None:
    done = put("d.t", lines([{"id": 1, "b": "new"}]), "--columns", "a,b", "--missing", "keep")

    assert done.code == 0, done.told
    with connect(data) as conn:
        assert stored(conn) == {1: STORED | {"b": "new"}}


@pytest.mark.parametrize(("operation", "table"), [("delete", "d.t"), ("append", "d.log")])
def test_keep_is_refused_where_nothing_can_be_kept(data: Path, put: Put, operation: str, table: str) -> None:
    done = put(table, lines([{"id": 1}]), "--operation", operation, "--missing", "keep")

    assert done.code == 2
    assert "--missing keep" in done.told


def test_row_appended_without_a_column_is_refused_or_null(data: Path, put: Put) -> None:
    assert put("d.log", lines([{"id": 1}])).code == 1
    assert put("d.log", lines([{"id": 1}, {"id": 2, "a": "x"}]), "--missing", "null").code == 0

    with connect(data) as conn:
        assert stored(conn, "d.log") == {1: {"id": 1, "a": None}, 2: {"id": 2, "a": "x"}}


def test_key_that_is_missing_is_refused_also_where_null_is_allowed(data: Path, put: Put) -> None:
    done = put("d.t", lines([{"a": "x", "b": "y"}]), "--missing", "null")

    assert done.code == 1
    assert "key column" in done.told


def test_missing_column_of_a_csv_is_kept_as_asked(data: Path, put: Put, tmp_path: Path) -> None:
    (tmp_path / "patch.csv").write_text("id,a\n1,new\n")

    refused = put("d.t", [], file=str(tmp_path / "patch.csv"))
    kept = put("d.t", [], "--missing", "keep", file=str(tmp_path / "patch.csv"))

    assert (refused.code, kept.code) == (1, 0), refused.told + kept.told
    with connect(data) as conn:
        assert stored(conn) == {1: STORED | {"a": "new"}}


def test_column_that_an_aggregate_row_lacks_adds_nothing(data: Path, put: Put) -> None:
    rows: list[dict[str, object]] = [{"id": 1, "n": 2, "last": "x"}, {"id": 1, "n": 3}, {"id": 2, "last": "y"}]

    for pieces in deliveries(rows)[:2]:
        assert put("d.sums", pieces).code == 0

    with connect(data) as conn:
        assert stored(conn, "d.sums") == {1: {"id": 1, "n": 10, "last": "x"}, 2: {"id": 2, "n": None, "last": "y"}}


CHANGES: list[dict[str, object]] = [
    {"_change_type": "+I", "id": 5, "n": 1},
    {"_change_type": "-U", "id": 5, "n": 1},
    {"_change_type": "+U", "id": 5, "n": 7},
]


@pytest.mark.parametrize("pieces", deliveries(CHANGES), ids=["one block", "line by line", "torn"])
def test_update_is_applied_whole_however_a_pipe_is_cut(data: Path, put: Put, pieces: list[str]) -> None:
    done = put("d.sums", pieces, "--operation", "apply")

    assert done.code == 0, done.told
    with connect(data) as conn:
        assert stored(conn, "d.sums")[5]["n"] == 7


def test_delete_to_apply_needs_its_key_alone(data: Path, put: Put) -> None:
    rows: list[dict[str, object]] = [
        {"_change_type": "+I", "id": 9, "a": "x", "b": "y"},
        {"_change_type": "-D", "id": 1},
    ]

    done = put("d.t", ["".join(lines(rows))], "--operation", "apply")

    assert done.code == 0, done.told
    with connect(data) as conn:
        assert stored(conn) == {9: {"id": 9, "a": "x", "b": "y"}}
