"""What a SELECT reads."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import duckdb
import pytest

from penstock.cli.commands.query import Query
from penstock.errors import InvalidError

COLUMNS = ["id", "city", "Amount"]


@pytest.fixture
def database() -> Iterator[Any]:
    with closing(duckdb.connect()) as opened:
        yield opened


@pytest.mark.parametrize(
    ("text", "paths"),
    [
        ("SELECT 1", []),
        ("SELECT id FROM orders", ["default.orders"]),
        ("SELECT id FROM shop.orders", ["shop.orders"]),
        ("FROM shop.orders", ["shop.orders"]),
        ('SELECT id FROM "shop"."my-orders"', ["shop.my-orders"]),
        ("SELECT a.id FROM shop.a JOIN shop.b USING (id) JOIN shop.a c USING (id)", ["shop.a", "shop.b"]),
        ("SELECT id FROM x.a WHERE id IN (SELECT id FROM y.b)", ["x.a", "y.b"]),
        ("SELECT id FROM x.a UNION ALL SELECT id FROM y.b", ["x.a", "y.b"]),
        ("WITH t AS (SELECT id FROM shop.orders) SELECT id FROM t JOIN T u USING (id)", ["shop.orders"]),
        ("SELECT c FROM 'cities.csv'", []),
        ("SELECT table_name FROM information_schema.tables", []),
        ("SELECT range FROM range(3)", []),
    ],
)
def test_tables_are_those_that_the_query_names(database: Any, text: str, paths: list[str]) -> None:
    assert [name.path for name in Query.parse(database, text).tables] == paths


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("SELECT amount FROM orders", ["Amount"]),
        ("SELECT o.amount FROM orders o WHERE o.city = 'x' ORDER BY id", COLUMNS),
        ("SELECT count(*) FROM orders", []),
        ("SELECT count(*) FROM orders GROUP BY city", ["city"]),
        ("SELECT 1 FROM orders JOIN other USING (id)", ["id"]),
        ("SELECT * FROM orders", COLUMNS),
        ("SELECT o.* FROM orders o", COLUMNS),
        ("SELECT COLUMNS('i.*') FROM orders", COLUMNS),
        ("SELECT orders FROM orders", COLUMNS),
        ("SELECT o FROM orders o", COLUMNS),
        ("SELECT 1 FROM orders NATURAL JOIN other", COLUMNS),
        ("DESCRIBE orders", COLUMNS),
        ("SELECT (SELECT max(p.amount) FROM orders p) FROM orders", ["Amount"]),
    ],
)
def test_columns_are_those_that_may_be_read(database: Any, text: str, columns: list[str]) -> None:
    assert Query.parse(database, text).columns_of(COLUMNS) == columns


@pytest.mark.parametrize("text", ["", "selec 1", "SELECT 1; SELECT 2", "INSERT INTO t VALUES (1)", "DROP TABLE t"])
def test_anything_but_one_select_is_refused(database: Any, text: str) -> None:
    with pytest.raises(InvalidError, match=r"one SELECT|cannot read the query"):
        Query.parse(database, text)
