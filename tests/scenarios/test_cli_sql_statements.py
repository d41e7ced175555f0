"""Statements that are no SELECT: those about tables answer, and others say which command does that."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

import penstock
from penstock.cli.main import app

Sql = Callable[..., Result]


@pytest.fixture(params=["directory", "server"])
def sql(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Sql]:
    """Return a function that runs a statement over `shop.orders` and `lab.days`."""

    def runner(url: str) -> Sql:
        def run(text: str, *words: str, code: int = 0) -> Result:
            done = CliRunner().invoke(app, ["sql", text, *words], env={"PENSTOCK_URL": url})
            assert done.exit_code == code, done.output
            return done

        return run

    with penstock.connect(tmp_path / "data") as connection:
        connection.create_database("shop")
        connection.create_database("lab")
        connection.create_table("shop.orders", "id BIGINT, city STRING NOT NULL, PRIMARY KEY (id)")
        connection.create_table("lab.days", "day DATE, n BIGINT SUM, PRIMARY KEY (day)", merge_engine="aggregate")
    if request.param == "directory":
        yield runner(str(tmp_path / "data"))
        return
    with penstock.serve(tmp_path / "data") as server:
        yield runner(server.url)


def rows(done: Result) -> list[dict[str, Any]]:
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize("text", ["SHOW TABLES", "show tables;", "  Show\n all  tables ; "])
def test_tables_are_shown(sql: Sql, text: str) -> None:
    assert rows(sql(text)) == [{"database": "lab", "table": "days"}, {"database": "shop", "table": "orders"}]


def test_tables_of_a_database_and_databases_are_shown(sql: Sql) -> None:
    assert rows(sql("SHOW TABLES FROM lab")) == [{"database": "lab", "table": "days"}]
    assert sql("SHOW DATABASES", "-o", "csv").stdout.split() == ['"database"', '"default"', '"lab"', '"shop"']
    sql("SHOW TABLES IN nowhere", code=3)


@pytest.mark.parametrize(
    "text", ["DESCRIBE lab.days", "desc lab.days;", "SHOW COLUMNS FROM lab.days", "DESCRIBE TABLE lab.days"]
)
def test_table_is_described(sql: Sql, text: str) -> None:
    assert rows(sql(text)) == [
        {"column_name": "day", "column_type": "DATE", "null": "NO", "key": "PRI", "aggregate": None},
        {"column_name": "n", "column_type": "BIGINT", "null": "YES", "key": None, "aggregate": "sum"},
    ]


def test_table_that_is_not_there_is_not_described(sql: Sql) -> None:
    assert "SHOW TABLES" in sql("DESCRIBE shop.nothing", code=3).stderr


@pytest.mark.parametrize(
    ("text", "instead"),
    [
        ("INSERT INTO shop.orders VALUES (1, 'a')", "penstock put"),
        ("UPDATE shop.orders SET city = 'b'", "--columns"),
        ("delete from shop.orders", "penstock delete"),
        ("\n-- all of it\nTRUNCATE shop.orders", "penstock truncate"),
        ("CREATE TABLE x (id INT)", "penstock table create"),
        ("CREATE DATABASE x", "penstock database create"),
        ("DROP TABLE shop.orders", "penstock table drop"),
        ("ALTER TABLE shop.orders ADD COLUMN x INT", "penstock table alter"),
        ("SET threads = 1", "nothing can be set"),
        ("USE shop", "database.table"),
    ],
)
def test_other_statement_says_what_to_use(sql: Sql, text: str, instead: str) -> None:
    assert instead in sql(text, code=2).stderr


def test_select_is_no_such_statement(sql: Sql) -> None:
    assert rows(sql("SELECT count(*) AS n FROM shop.orders")) == [{"n": 0}]
    assert rows(sql("WITH deleted AS (SELECT 1 AS a) SELECT a FROM deleted")) == [{"a": 1}]
    assert rows(sql("DESCRIBE SELECT 1 AS one"))[0]["column_name"] == "one"
