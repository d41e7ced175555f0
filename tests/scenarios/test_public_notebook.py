"""What a notebook shows of tables and scans."""

from __future__ import annotations

from typing import Any

import duckdb
import polars
import pyarrow as pa
import pytest

import penstock

SCHEMA = "id BIGINT, name STRING, PRIMARY KEY (id)"


def test_table_and_info_show_their_columns(connection: penstock.Connection) -> None:
    table = connection.create_table("shop.sums", "city STRING, amount DECIMAL(18,2) SUM, PRIMARY KEY (city)")

    html = table.info._repr_html_()

    assert table._repr_html_().startswith(html)
    assert "<td>city</td><td>STRING</td><td>key</td>" in html
    assert "<td>amount</td><td>DECIMAL(18, 2)</td><td>sum</td>" in html


def test_scan_shows_its_cut_and_reads_nothing(connection: penstock.Connection) -> None:
    table = connection.create_table("shop.orders", "id BIGINT, PRIMARY KEY (id)", buckets=2)
    table.upsert([{"id": number} for number in range(10)])

    with table.scan() as scan:
        html = scan._repr_html_()

        assert "<td>id</td><td>int64</td>" in html
        assert html.count("<tr>") == 2 + 1 + 2
        assert scan.to_arrow().num_rows == 10


def test_everything_that_has_values_shows_them_as_html(connection: penstock.Connection) -> None:
    table = connection.create_table("shop.t", SCHEMA)
    result = table.upsert({"id": [1], "name": ["a"]})
    lease = connection.acquire_lease("<b>", table.cut())
    owner = table.acquire_owner("<b>", columns=["name"])

    with table.scan() as scan, table.changes() as changes:
        values: list[Any] = [
            connection,
            table,
            table.info,
            scan,
            table.cut(),
            changes,
            table.stats(),
            result,
            lease,
            owner,
        ]
        values += [*connection.list_leases(), *connection.list_owners(), *table.create_snapshot().values()]
        shown = {repr(value): value._repr_html_() for value in values}

    assert [value for value, html in shown.items() if "<table>" not in html] == []
    assert [value for value, html in shown.items() if "<b>" in html] == []
    assert "shop.t" in connection._repr_html_()


def test_closed_connection_shows_no_tables(connection: penstock.Connection) -> None:
    connection.create_table("shop.t", SCHEMA)
    connection.close()

    assert "closed" in connection._repr_html_()


def test_tables_of_all_databases_are_listed_by_path(connection: penstock.Connection) -> None:
    for path in ("shop.b", "shop.a", "c"):
        connection.create_table(path, SCHEMA)

    assert connection.list_tables() == ["default.c", "shop.a", "shop.b"]
    assert connection.list_tables("shop") == ["a", "b"]


def test_stream_that_ends_is_taken_whole(connection: penstock.Connection) -> None:
    table = connection.create_table("shop.t", SCHEMA)
    table.upsert({"id": [1, 2], "name": ["a", "b"]})
    position = table.cut()
    table.delete([1])

    assert table.changes(start=position).to_arrow()["_change_type"].to_pylist() == ["-D"]
    assert polars.DataFrame(table.changes(start=position))["id"].to_list() == [1]
    changes = table.changes()  # noqa: F841 - DuckDB finds it by its name
    counted: Any = duckdb.sql("SELECT count(*) FROM changes")
    assert counted.fetchall() == [(3,)]
    assert table.changes(start=table.cut()).to_arrow().num_rows == 0


def test_stream_that_follows_for_ever_is_not_taken_whole(connection: penstock.Connection) -> None:
    table = connection.create_table("shop.t", SCHEMA)

    with table.changes(follow=True) as stream, pytest.raises(penstock.errors.InvalidError, match="timeout"):
        stream.to_arrow()


def test_polars_from_arrow_is_refused_by_name(connection: penstock.Connection) -> None:
    table = connection.create_table("shop.t", SCHEMA)
    table.upsert({"id": [1], "name": ["a"]})

    with pytest.raises(penstock.errors.UnsupportedError, match="to_polars"):
        polars.from_arrow(table.scan())
    assert polars.DataFrame(table.scan()).shape == table.scan().to_polars().shape == (1, 2)


def test_table_shows_some_of_its_rows(connection: penstock.Connection) -> None:
    table = connection.create_table("shop.t", SCHEMA)
    table.upsert({"id": range(20), "name": ["<b>" + "x" * 200] * 20})

    html = table._repr_html_()

    assert html.count("&lt;b&gt;xxx") == 5
    assert "x" * 100 not in html


def test_dropped_table_shows_its_columns_and_says_why_there_are_no_rows(connection: penstock.Connection) -> None:
    table = connection.create_table("shop.t", SCHEMA)
    connection.drop_table("shop.t")

    html = table._repr_html_()

    assert "<td>name</td>" in html
    assert "dropped" in html or "no such table" in html


def test_table_is_taken_as_it_is_by_what_reads_arrow(connection: penstock.Connection) -> None:
    table = connection.create_table("shop.t", SCHEMA)
    table.upsert({"id": [1, 2], "name": ["a", "b"]})

    held = table  # noqa: F841 - DuckDB finds it by its name; `table` is a word of its own
    found: Any = duckdb.sql("SELECT count(*), max(name) FROM held")

    assert found.fetchall() == [(2, "b")]
    assert pa.table(table).num_rows == polars.DataFrame(table).height == 2
    with pytest.raises(penstock.errors.UnsupportedError, match="to_polars"):
        polars.from_arrow(table)
