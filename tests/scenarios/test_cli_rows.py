"""A user at the command line: the same commands over a directory and over a server."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from typer.testing import CliRunner, Result

from penstock.cli.commands.query import Query
from penstock.cli.commands.sql import TableAtCut
from penstock.cli.main import app
from penstock.client.connection import connect
from penstock.errors import TableNotFoundError
from penstock.testing.server import server

ORDERS = "id BIGINT, city STRING, amount DECIMAL(10,2), PRIMARY KEY (id)"
Penstock = Callable[..., Result]


@pytest.fixture(params=["embedded", "server"])
def penstock(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Penstock]:
    """Return a function that runs a command and checks how it ended."""

    def runner(url: str) -> Penstock:
        def run(*words: str, code: int = 0, given: bytes | str | None = None) -> Result:
            done = CliRunner().invoke(app, words, env={"PENSTOCK_URL": url, "COLUMNS": "200"}, input=given)
            assert done.exit_code == code, done.output
            return done

        return run

    if request.param == "embedded":
        yield runner(str(tmp_path / "data"))
        return
    with server(tmp_path / "data") as running:
        yield runner(running.url)


@pytest.fixture
def orders(penstock: Penstock) -> Penstock:
    """Return the runner of commands, with three orders in `shop.orders`."""
    penstock("table", "create", "shop.orders", ORDERS, "--buckets", "2")
    penstock("put", "shop.orders", "-", "--format", "csv", given="id,city,amount\n1,Ulm,1.50\n2,Bonn,2.25\n3,Ulm,4\n")
    return penstock


def lines(done: Result) -> list[dict[str, Any]]:
    return sorted((json.loads(line) for line in done.stdout.splitlines()), key=lambda row: json.dumps(row.get("id")))


def test_put_leaves_out_a_column_that_was_added_later(orders: Penstock, tmp_path: Path) -> None:
    orders("table", "alter", "shop.orders", "--add", "note STRING")
    orders("put", "shop.orders", "-", "--format", "ndjson", given='{"id":1,"city":"Ulm","amount":1,"note":"kept"}')

    orders("put", "shop.orders", "-", "--format", "csv", given="id,city,amount\n1,Bonn,2\n9,Ulm,3\n")

    found = {row["id"]: (row["city"], row["note"]) for row in lines(orders("scan", "shop.orders"))}
    assert (found[1], found[9]) == (("Bonn", "kept"), ("Ulm", None))


def test_rows_put_are_scanned(orders: Penstock) -> None:
    assert lines(orders("scan", "shop.orders")) == [
        {"id": 1, "city": "Ulm", "amount": 1.5},
        {"id": 2, "city": "Bonn", "amount": 2.25},
        {"id": 3, "city": "Ulm", "amount": 4.0},
    ]


def test_scan_takes_columns_filter_and_limit(orders: Penstock) -> None:
    found = lines(orders("scan", "shop.orders", "-c", "city,id", "--filter", "city = 'Ulm'"))

    assert found == [{"city": "Ulm", "id": 1}, {"city": "Ulm", "id": 3}]
    assert len(lines(orders("scan", "shop.orders", "--limit", "2"))) == 2
    assert orders("scan", "shop.orders", "--limit", "0").stdout == ""


def test_scan_as_of_a_cut_shows_the_rows_of_that_time(orders: Penstock) -> None:
    (described,) = lines(orders("table", "describe", "shop.orders"))
    cut = json.dumps({bucket["bucket"]: bucket["visible"] for bucket in described["buckets"]})
    orders("put", "shop.orders", "-", "--format", "ndjson", "--operation", "delete", given='{"id": 1}\n{"id": 2}\n')

    assert [row["id"] for row in lines(orders("scan", "shop.orders"))] == [3]
    assert [row["id"] for row in lines(orders("scan", "shop.orders", "--as-of", cut))] == [1, 2, 3]
    foreign = json.dumps({"database": "x", "table": 1, "offsets": {"0": "1", "1": "1"}})
    refused = orders("scan", "shop.orders", "--as-of", foreign, code=2)
    assert "the cut cannot be used here: it is of another database" in refused.stderr


@pytest.mark.parametrize("output", ["csv", "json", "ndjson", "arrow", "parquet"])
def test_scanned_rows_can_be_put_into_another_table(orders: Penstock, output: str) -> None:
    orders("table", "create", "shop.copy", ORDERS)

    scanned = orders("scan", "shop.orders", "-o", output).stdout_bytes
    orders("put", "shop.copy", "-", "--format", output, given=scanned)

    assert lines(orders("scan", "shop.copy")) == lines(orders("scan", "shop.orders"))


def test_changes_applied_to_another_table_make_it_equal(orders: Penstock) -> None:
    orders("table", "create", "shop.copy", ORDERS)
    orders("put", "shop.orders", "-", "--format", "csv", "--columns", "amount", given="id,amount\n1,9\n")
    orders("put", "shop.orders", "-", "--format", "csv", "--operation", "delete", given="id\n2\n")

    changes = orders("tail", "shop.orders").stdout
    orders("put", "shop.copy", "-", "--format", "ndjson", "--operation", "apply", given=changes)

    assert lines(orders("scan", "shop.copy")) == lines(orders("scan", "shop.orders"))
    assert [row["amount"] for row in lines(orders("scan", "shop.copy"))] == [9.0, 4.0]


def test_tail_starts_where_it_is_told(orders: Penstock) -> None:
    (described,) = lines(orders("table", "describe", "shop.orders"))
    cut = json.dumps({bucket["bucket"]: bucket["visible"] for bucket in described["buckets"]})
    orders("put", "shop.orders", "-", "--format", "csv", "--columns", "city", given="id,city\n1,Jena\n")

    assert len(lines(orders("tail", "shop.orders"))) == 5
    assert [row["_change_type"] for row in lines(orders("tail", "shop.orders", "--from", cut))] == ["-U", "+U"]
    assert [r["city"] for r in lines(orders("tail", "shop.orders", "--from", cut, "--images", "after"))] == ["Jena"]
    assert lines(orders("tail", "shop.orders", "--from", "latest")) == []
    assert lines(orders("tail", "shop.orders", "--from", "2999-01-01T00:00:00Z")) == []
    assert len(lines(orders("tail", "shop.orders", "--from", "2000-01-01"))) == 5
    assert len(lines(orders("tail", "shop.orders", "--from", "snapshot"))) == 3


def test_tail_goes_on_at_the_position_that_it_said(orders: Penstock) -> None:
    told = orders("tail", "shop.orders", "--follow", "--from", "earliest", "--timeout", "1ms").stderr
    position = told.partition("--from '")[2].rstrip().removesuffix("'")
    orders("put", "shop.orders", "-", "--format", "csv", given="id,city,amount\n9,Gera,1\n")

    assert [row["id"] for row in lines(orders("tail", "shop.orders", "--from", position))] == [9]


def test_lookup_finds_rows_by_key(orders: Penstock, tmp_path: Path) -> None:
    keys = tmp_path / "keys.csv"
    keys.write_text("id\n3\n77\n")

    assert lines(orders("lookup", "shop.orders", "id=2")) == [{"id": 2, "city": "Bonn", "amount": 2.25}]
    assert "no row has this key" in orders("lookup", "shop.orders", "id=77", code=3).stderr
    found = orders("lookup", "shop.orders", "--keys", str(keys), "-c", "city").stdout.splitlines()
    assert [json.loads(line) for line in found] == [{"city": "Ulm", "_found": True}, {"city": None, "_found": False}]


def test_key_of_one_column_needs_no_name(orders: Penstock) -> None:
    assert orders("lookup", "shop.orders", "2").stdout == orders("lookup", "shop.orders", "id=2").stdout
    assert "each name once; this is '2'" in orders("lookup", "shop.orders", "2", "3", code=2).stderr


def test_prefix_lookup_finds_all_rows_that_share_it(penstock: Penstock) -> None:
    penstock("table", "create", "t", "city STRING, day DATE, n INT, PRIMARY KEY (city, day)", "--bucket-key", "city")
    given = "city,day,n\nUlm,2026-07-01,1\nUlm,2026-07-02,2\nBonn,2026-07-01,3\n"
    penstock("put", "t", "-", "--format", "csv", given=given)

    found = penstock("lookup", "t", "city=Ulm", "--prefix", "-c", "n").stdout

    assert sorted(found.splitlines()) == ['{"n":1}', '{"n":2}']
    assert (
        penstock("lookup", "t", "city=Ulm", "day=2026-07-02", "-o", "csv").stdout.splitlines()[1]
        == '"Ulm",2026-07-02,2'
    )


def test_sql_joins_groups_and_reads_a_table_twice(orders: Penstock) -> None:
    totals = orders("sql", "SELECT city, sum(amount) AS total FROM shop.orders GROUP BY city ORDER BY city").stdout
    pairs = orders(
        "sql", "SELECT count(*) AS n FROM shop.orders a JOIN shop.orders b USING (city)", "-o", "json"
    ).stdout

    assert [json.loads(line) for line in totals.splitlines()] == [
        {"city": "Bonn", "total": 2.25},
        {"city": "Ulm", "total": 5.5},
    ]
    assert json.loads(pairs) == [{"n": 5}]
    assert json.loads(orders("sql", "SELECT count(*) AS n FROM shop.orders").stdout) == {"n": 3}


def test_sql_reads_log_tables_and_files(penstock: Penstock, tmp_path: Path) -> None:
    penstock("table", "create", "clicks", "page STRING")
    penstock("put", "clicks", "-", "--format", "csv", given="page\na\nb\na\n")
    (tmp_path / "pages.csv").write_text("page,title\na,Home\n")

    query = f"SELECT title, count(*) AS n FROM clicks JOIN '{tmp_path}/pages.csv' USING (page) GROUP BY title"

    assert json.loads(penstock("sql", query).stdout) == {"title": "Home", "n": 2}


@pytest.mark.parametrize(
    ("query", "code", "words"),
    [
        ("SELECT * FROM shop.gone", 3, "no such table"),
        ("SELECT nope FROM shop.orders", 2, "nope"),
        ("SELEKT 1", 2, "syntax error"),
        ("DELETE FROM shop.orders", 2, "one SELECT"),
        ("SELECT 1; SELECT 2", 2, "one SELECT"),
    ],
)
def test_wrong_query_says_what_is_wrong(orders: Penstock, query: str, code: int, words: str) -> None:
    assert words in orders("sql", query, code=code).stderr


def test_bad_row_is_named_and_what_was_written_is_said(orders: Penstock, tmp_path: Path) -> None:
    good = tmp_path / "good.csv"
    good.write_text("id,city,amount\n10,Ulm,1\n11,Ulm,1\n")
    bad = tmp_path / "bad.ndjson"
    bad.write_text('{"id": 12, "city": "Ulm", "amount": 1}\n{"id": null, "city": "Ulm", "amount": 1}\n')

    told = orders("put", "shop.orders", str(good), str(bad), code=1).stderr

    assert "line=2" in told
    assert "column=id" in told
    assert "written before it: 2 rows" in told
    assert {row["id"] for row in lines(orders("scan", "shop.orders"))} == {1, 2, 3, 10, 11}


@pytest.mark.parametrize(("bad", "place"), [("oops", "line=3"), ('{"id": "x", "city": "Ulm", "amount": 1}', "row=3")])
def test_nothing_of_a_bad_array_is_written(orders: Penstock, bad: str, place: str) -> None:
    array = f'[{{"id": 10, "city": "Ulm", "amount": 1}},\n {{"id": 11, "city": "Ulm", "amount": 1}},\n {bad}]'

    told = orders("put", "shop.orders", "-", "--format", "json", given=array, code=1).stderr

    assert place in told
    assert "written before it: 0 rows" in told
    assert len(lines(orders("scan", "shop.orders"))) == 3


def test_missing_file_writes_nothing(orders: Penstock, tmp_path: Path) -> None:
    good = tmp_path / "good.csv"
    good.write_text("id,city,amount\n10,Ulm,1\n")

    orders("put", "shop.orders", str(good), str(tmp_path / "gone.csv"), code=3)

    assert len(lines(orders("scan", "shop.orders"))) == 3


def test_table_is_made_described_altered_listed_and_dropped(penstock: Penstock) -> None:
    ddl = "city STRING, day DATE, revenue DECIMAL(18,2) SUM, PRIMARY KEY (city, day)"
    create = ("table", "create", "shop.revenue", ddl, "--merge-engine", "aggregate", "-p", "log.retention=1d")
    penstock(*create, "--partitioned-by", "day")
    penstock(*create, code=1)
    penstock(*create, "--if-not-exists")
    penstock("table", "alter", "shop.revenue", "--add", "best DECIMAL(18,2) MAX")

    (described,) = lines(penstock("table", "describe", "shop.revenue"))
    page = penstock("table", "describe", "shop.revenue", "-o", "table").stdout
    (listed,) = lines(penstock("table", "list", "shop"))

    assert described["merge_engine"] == "aggregate"
    assert described["partitioned_by"] == ["day"]
    assert described["properties"] == {"log.retention": "1d"}
    assert {column["name"]: column["agg"] for column in described["columns"]} == {
        "city": None,
        "day": None,
        "revenue": "sum",
        "best": "max",
    }
    assert "primary_key     city, day" in page
    assert (listed["table"], listed["columns"], listed["rows"]) == ("shop.revenue", 4, 0)
    assert "not dropped" in penstock("table", "drop", "shop.revenue", code=2, given="n\n").stderr
    penstock("table", "drop", "shop.revenue", "--yes")
    penstock("table", "describe", "shop.revenue", code=3)
    penstock("table", "drop", "shop.revenue", "--yes", "--if-exists")


def test_what_was_done_is_told_to_programs_when_asked(penstock: Penstock) -> None:
    (made,) = lines(penstock("table", "create", "shop.orders", ORDERS, "-o", "ndjson"))
    (put,) = lines(
        penstock(
            "put", "shop.orders", "-", "--format", "csv", "-o", "ndjson", given="id,city,amount\n1,Ulm,1\n2,Bonn,2\n"
        )
    )
    (altered,) = lines(penstock("table", "alter", "shop.orders", "--add", "note STRING", "-o", "ndjson"))
    (dropped,) = lines(penstock("table", "drop", "shop.orders", "--yes", "-o", "ndjson"))

    assert (made["table"], made["columns"]) == ("shop.orders", ["id", "city", "amount"])
    assert (put["table"], put["operation"], put["rows"]) == ("shop.orders", "upsert", 2)
    assert altered["columns"] == ["id", "city", "amount", "note"]
    assert dropped == {"table": "shop.orders"}


def test_top_shows_every_table_once(orders: Penstock) -> None:
    (figures,) = lines(orders("top", "--once"))

    assert (figures["table"], figures["rows"], figures["changes"], figures["scanners"]) == ("shop.orders", 3, 3, 0)


def test_arrow_output_is_a_stream_of_the_tables_types(orders: Penstock) -> None:
    found = pa.ipc.open_stream(io.BytesIO(orders("scan", "shop.orders", "-o", "arrow").stdout_bytes)).read_all()

    assert found.schema.field("amount").type == pa.decimal128(10, 2)
    assert found.num_rows == 3


def test_scanner_that_is_not_there_cannot_be_ended(orders: Penstock) -> None:
    assert orders("scanner", "list").stdout == ""
    orders("scanner", "kill", "nobody", code=3)


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("scan", "shop.gone"), 3),
        (("scan", "gone.orders"), 3),
        (("scan", "shop.orders", "--filter", "amount >"), 2),
        (("scan", "shop.orders", "-c", "nope"), 2),
        (("scan", "shop.orders", "--as-of", "{}"), 2),
        (("tail", "shop.orders", "--from", "soon"), 2),
        (("lookup", "shop.orders", "id=x"), 2),
        (("lookup", "shop.orders", "city=Ulm"), 2),
        (("lookup", "shop.orders"), 2),
        (("put", "shop.orders", "-"), 2),
        (("table", "create", "shop.x", "id NOPE"), 2),
        (("table", "create", "shop.x", "id INT", "-p", "nope"), 2),
        (("sql",), 2),
    ],
)
def test_failure_ends_with_its_code_and_words_without_traceback(
    orders: Penstock, words: tuple[str, ...], code: int
) -> None:
    done = orders(*words, code=code)

    assert done.stdout == ""
    assert done.stderr.startswith("penstock: ")
    assert "Traceback" not in done.stderr


def test_failure_of_a_table_keeps_its_kind_on_the_way_through_duckdb(tmp_path: Path) -> None:
    with connect(tmp_path / "data") as connection, closing(duckdb.connect()) as database:
        connection.create_table("t", "id BIGINT, PRIMARY KEY (id)").upsert([{"id": 1}])
        source = TableAtCut(connection, "t", Query.parse(database, "SELECT id FROM t"))
        connection.drop_table("t")
        database.register("source", source)

        with pytest.raises(duckdb.Error):
            database.sql("SELECT id FROM source").fetchall()

    assert isinstance(source.failure, TableNotFoundError)


def test_a_table_is_altered(orders: Penstock) -> None:
    done = orders(
        *("table", "alter", "shop.orders", "--add", "note STRING", "--add", "day DATE", "--default", "note=none"),
        *("--default", "day=2026-01-02", "--rename", "city=town", "--widen", "amount=DECIMAL(20,2)"),
        *("--set", "log.retention=36h", "--set", "kv.snapshot.num-retained=3"),
    )
    assert "shop.orders: renamed city to town" in done.stderr
    (first, *_) = lines(orders("scan", "shop.orders", "-o", "ndjson"))
    assert first == {"id": 1, "town": "Ulm", "amount": 1.5, "note": "none", "day": "2026-01-02"}

    orders("table", "alter", "shop.orders", "--drop", "note", "--unset", "log.retention")
    (described,) = lines(orders("table", "describe", "shop.orders", "-o", "ndjson"))
    assert [column["name"] for column in described["columns"]] == ["id", "town", "amount", "day"]
    assert dict(described["properties"]) == {"kv.snapshot.num-retained": "3"}
    for wrong in (
        ["--add", "a INT, b INT"],
        ["--add", "a INT NOT NULL"],
        ["--default", "a=1"],
        ["--add", "a INT", "--default", "a=x"],
        ["--drop", "id"],
        ["--widen", "amount=INT"],
        ["--rename", "town"],
        ["--set", "log.retentoin=1d"],
        [],
    ):
        orders("table", "alter", "shop.orders", *wrong, code=2)
