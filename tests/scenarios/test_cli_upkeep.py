"""Databases, partitions, deletions and tokens at the command line, over a directory and over a server."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

import penstock
from penstock.cli.main import app

Run = Callable[..., Result]
PENSTOCK = (sys.executable, "-c", "from penstock.cli.main import main; main()")


@pytest.fixture(params=["directory", "server"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Return where `shop.orders`, `shop.days` and `shop.clicks` are."""
    with penstock.connect(tmp_path / "data") as connection:
        connection.create_database("shop")
        connection.create_table("shop.orders", "id BIGINT PRIMARY KEY, city STRING", buckets=2).upsert(
            {"id": list(range(10)), "city": ["Ulm", "Bonn"] * 5}
        )
        days = "id BIGINT, day DATE, n INT, PRIMARY KEY (id, day)"
        connection.create_table("shop.days", days, partitioned_by=["day"]).upsert(
            [{"id": i, "day": date(2026, 7, 1 + i % 2), "n": 1} for i in range(6)]
        )
        connection.create_table("shop.clicks", "page STRING").append({"page": ["a", "b"]})
    if request.param == "directory":
        yield str(tmp_path / "data")
        return
    with penstock.serve(tmp_path / "data") as server:
        yield server.url


@pytest.fixture
def run(url: str) -> Run:
    def run(*words: str, code: int = 0) -> Result:
        done = CliRunner().invoke(app, words, env={"PENSTOCK_URL": url, "COLUMNS": "200"})
        assert done.exit_code == code, done.output
        return done

    return run


def rows(done: Result) -> list[dict[str, Any]]:
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_databases_are_made_listed_and_dropped(run: Run) -> None:
    run("database", "create", "lab")
    run("database", "create", "lab", code=1)
    run("database", "create", "lab", "--if-not-exists")
    assert rows(run("database", "list")) == [
        {"database": "default", "tables": 0},
        {"database": "lab", "tables": 0},
        {"database": "shop", "tables": 3},
    ]
    refused = run("database", "drop", "shop", code=2)
    assert "--cascade" in refused.stderr
    assert "--yes" in run("database", "drop", "shop", "--cascade", code=2).stderr
    run("database", "drop", "shop", "--cascade", "--yes")
    run("database", "drop", "shop", "--if-exists")
    assert "penstock database list" in run("database", "drop", "shop", code=3).stderr


def test_partitions_are_made_listed_and_dropped(run: Run) -> None:
    made = run("partition", "create", "shop.days", "day=2026-08-01", "--output", "json")
    assert json.loads(made.stdout) == [{"table": "shop.days", "partition": "day=2026-08-01"}]
    run("partition", "create", "shop.days", "day=2026-08-01", code=1)
    run("partition", "create", "shop.days", "day=2026-08-01", "--if-not-exists")
    found = {row["partition"]: row["rows"] for row in rows(run("partition", "list", "shop.days"))}
    assert found == {"day=2026-07-01": 3, "day=2026-07-02": 3, "day=2026-08-01": 0}

    assert "--yes" in run("partition", "drop", "shop.days", "day=2026-07-01", code=2).stderr
    run("partition", "drop", "shop.days", "day=2026-07-01", "--yes")
    run("partition", "drop", "shop.days", "day=2026-07-01", "--yes", "--if-exists")
    gone = run("partition", "drop", "shop.days", "day=2026-07-01", "--yes", code=3)
    assert "penstock partition list" in gone.stderr
    assert len(rows(run("scan", "shop.days"))) == 3


@pytest.mark.parametrize("name", ["2026-07-01", "id=1", "day=2026-07-01/day=2026-07-02", "day=tomorrow"])
def test_partition_that_is_named_wrongly_changes_nothing(run: Run, name: str) -> None:
    run("partition", "drop", "shop.days", name, "--yes", code=2)

    assert len(rows(run("scan", "shop.days"))) == 6


def test_partition_of_a_table_without_them_is_a_usage_error(run: Run) -> None:
    for words in (["list", "shop.orders"], ["drop", "shop.orders", "day=1", "--yes"]):
        assert "partition" in run("partition", *words, code=2).stderr


def test_delete_tells_how_many_rows_matched(run: Run) -> None:
    assert "--yes" in run("delete", "shop.orders", "--where", "city = 'Ulm'", code=2).stderr
    assert len(rows(run("scan", "shop.orders"))) == 10
    done = run("delete", "shop.orders", "--where", "city = 'Ulm'", "--yes", "--output", "json")
    assert json.loads(done.stdout) == [{"table": "shop.orders", "rows": 5}]
    assert "deleted 5 rows of shop.orders" in done.stderr
    assert "deleted 0 rows" in run("delete", "shop.orders", "--where", "city = 'Ulm'", "--yes").stderr
    run("delete", "shop.orders", "--where", " ", "--yes", code=2)
    run("delete", "shop.orders", "--where", "town = 'Ulm'", "--yes", code=2)
    run("delete", "shop.clicks", "--where", "page = 'a'", "--yes", code=2)
    assert len(rows(run("scan", "shop.orders"))) == 5


@pytest.mark.parametrize(("table", "count"), [("shop.orders", 10), ("shop.clicks", 2), ("shop.days", 6)])
def test_truncate_tells_how_many_rows_went(run: Run, table: str, count: int) -> None:
    assert "--yes" in run("truncate", table, code=2).stderr
    assert f"deleted {count} rows of {table}" in run("truncate", table, "--yes").stderr
    assert rows(run("scan", table)) == []
    assert "deleted 0 rows" in run("truncate", table, "--yes").stderr


@pytest.mark.parametrize(("answer", "left", "code"), [("y", 5, 0), ("n", 10, 2)])
def test_terminal_is_asked_with_the_number_of_rows(url: str, run: Run, answer: str, left: int, code: int) -> None:
    mine, terminal = pty.openpty()
    words = ("delete", "shop.orders", "--where", "city = 'Ulm'")
    with open(mine, "wb", buffering=0) as keyboard, open(terminal, "rb") as screen:
        keyboard.write(f"{answer}\n".encode())
        known = os.environ | {"PENSTOCK_URL": url}
        done = subprocess.run(
            [*PENSTOCK, *words], stdin=screen, capture_output=True, text=True, timeout=60, check=False, env=known
        )

    assert done.returncode == code, done.stderr
    assert "Delete 5 rows of shop.orders?" in done.stderr
    assert done.stdout == ""
    assert len(rows(run("scan", "shop.orders"))) == left


def test_token_is_made_used_listed_and_revoked(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    runner = CliRunner()

    made = runner.invoke(app, ["token", "create", "ann", "--token-file", str(file)])
    other = runner.invoke(app, ["token", "create", "bob", "--token-file", str(file)])
    token = made.stdout.strip()

    assert made.exit_code == other.exit_code == 0
    assert made.stdout == f"{token}\n"
    assert len(token) > 40
    assert token not in file.read_text()
    assert file.stat().st_mode & 0o777 == 0o600
    with penstock.serve(tmp_path / "data", token_file=file) as server:
        assert runner.invoke(app, ["table", "list", "--url", server.url, "--token", token]).exit_code == 0
        assert runner.invoke(app, ["table", "list", "--url", server.url, "--token", "x"]).exit_code == 4
    listed = runner.invoke(app, ["token", "list", "--token-file", str(file), "-o", "csv"])
    assert listed.stdout.splitlines() == ['"name"', '"ann"', '"bob"']
    assert runner.invoke(app, ["token", "create", "ann", "--token-file", str(file)]).exit_code == 1
    assert runner.invoke(app, ["token", "create", "local", "--token-file", str(file)]).exit_code == 2
    assert runner.invoke(app, ["token", "revoke", "carl", "--token-file", str(file), "--yes"]).exit_code == 3
    assert runner.invoke(app, ["token", "revoke", "ann", "bob", "--token-file", str(file), "--yes"]).exit_code == 2
    assert runner.invoke(app, ["token", "revoke", "ann", "--token-file", str(file), "--yes"]).exit_code == 0
    assert runner.invoke(app, ["token", "list", "--token-file", str(file), "-o", "csv"]).stdout.split() == [
        '"name"',
        '"bob"',
    ]
