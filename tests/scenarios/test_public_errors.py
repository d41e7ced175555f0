"""Every kind of error that a user can meet, and what its message says."""

from __future__ import annotations

import pickle

import pyarrow as pa
import pytest

import penstock
from penstock import errors

PATH = "shop.t"


@pytest.fixture
def table(connection: penstock.Connection) -> penstock.Table:
    table = connection.create_table(PATH, "id BIGINT, v STRING, PRIMARY KEY (id)", buckets=2)
    table.upsert([{"id": n, "v": "x"} for n in range(10)])
    return table


def test_errors_tell_their_kind_their_facts_and_whether_to_try_again(table: penstock.Table) -> None:
    with pytest.raises(errors.SchemaMismatchError) as caught:
        table.upsert([{"id": 1, "v": "x"}, {"id": None, "v": "x"}])

    error = caught.value
    assert isinstance(error, errors.InvalidError | ValueError)
    assert (error.code, error.retriable) == ("schema_mismatch", False)
    assert error.facts == {"column": "id", "row": 1}
    assert (error.column, error.row) == ("id", 1)
    assert str(error) == "a key column is never null; fill it or leave the row out column=id row=1"
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_names_that_are_not_there(connection: penstock.Connection, table: penstock.Table) -> None:
    with pytest.raises(errors.DatabaseNotFoundError, match="no such database; create it with create_database"):
        connection.list_tables("nowhere")
    with pytest.raises(errors.TableNotFoundError, match=r"no such table; .*table=shop\.nothing"):
        connection.table("shop.nothing")
    with pytest.raises(errors.PartitionNotFoundError):
        connection.create_table("shop.p", "p INT, id INT, PRIMARY KEY (p, id)", partitioned_by=["p"]).drop_partition(
            {"p": 5}
        )
    assert issubclass(errors.TableNotFoundError, LookupError)


def test_names_that_are_taken(connection: penstock.Connection, table: penstock.Table) -> None:
    with pytest.raises(errors.AlreadyExistsError, match=r"table=shop\.t"):
        connection.create_table(PATH, "id INT")


def test_offsets_that_cannot_be_read(table: penstock.Table) -> None:
    beyond = {bucket: end + 5 for bucket, end in table.cut().items()}
    with pytest.raises(errors.OffsetOutOfRangeError, match="beyond the end"):
        table.scan(as_of=beyond)
    with pytest.raises(errors.OffsetOutOfRangeError, match="beyond the bucket's end"):
        table.changes(start=beyond)


def test_sessions_that_are_gone(connection: penstock.Connection, table: penstock.Table) -> None:
    scanner = connection.scanner(table, 0, page_bytes=1)
    page = scanner.open()
    assert page.scanner_id is not None
    connection.kill_scanner(page.scanner_id)
    with pytest.raises(errors.UnknownOrExpiredScannerError):
        scanner.next(1)
    with pytest.raises(errors.UnknownOrExpiredScannerError):
        connection.kill_scanner("nonsense")


def test_requests_out_of_order(connection: penstock.Connection, table: penstock.Table) -> None:
    with connection.scanner(table, 0, page_bytes=1) as scanner:
        scanner.open()
        with pytest.raises(errors.InvalidScanRequestError):
            scanner.next(7)
        assert scanner.next(1).batch.num_rows == 1


def test_requests_that_are_too_large(connection: penstock.Connection, table: penstock.Table) -> None:
    with pytest.raises(errors.LimitError, match="max="):
        connection.scanner(table, 0, page_bytes="1GB").open()
    with pytest.raises(errors.LimitError, match="a schema has at most 2000 columns columns=2001"):
        connection.create_table("shop.wide", pa.schema([(f"c{n}", pa.int32()) for n in range(2_001)]))
    with pytest.raises(errors.LimitError, match="a filter has at most"):
        table.scan(filter=" OR ".join(["id = 1"] * 200_000))


def test_operations_that_a_table_does_not_offer(connection: penstock.Connection, table: penstock.Table) -> None:
    with pytest.raises(errors.UnsupportedError, match=r"only log tables take appends; use upsert table=shop\.t"):
        table.append([{"id": 1, "v": "x"}])
    with pytest.raises(errors.UnsupportedError, match="the table is not partitioned"):
        table.create_partition({"id": 1})
    with pytest.raises(errors.InvalidError, match="agg_mode is for aggregating tables only"):
        table.upsert([{"id": 1, "v": "x"}], agg_mode="replace")
    with pytest.raises(errors.InvalidError, match="no such agg_mode; there are accumulate, replace, merge_state"):
        table.upsert([{"id": 1, "v": "x"}], agg_mode="sum")  # type: ignore[arg-type]


def test_filters_that_are_none(table: penstock.Table) -> None:
    for wrong in ("id =", "nope = 1", "v LIKE 'x'", "id = 'x'", "sum(id) > 1", "", "id = 1; DROP TABLE t"):
        with pytest.raises(errors.InvalidError):
            table.scan(filter=wrong)
    with pytest.raises(errors.InvalidError, match=r"a filter is a string or a penstock\.col expression filter=int"):
        table.scan(filter=5)


def test_a_closed_connection(connection: penstock.Connection, table: penstock.Table) -> None:
    scan = table.scan(limit=5)
    stream = table.changes(follow=True)
    writer = table.writer()
    connection.close()
    connection.close()

    for call in (
        connection.list_databases,
        lambda: table.upsert([{"id": 1, "v": "x"}]),
        lambda: table.get(id=1),
        table.scan,
        table.stats,
        lambda: next(scan),
        lambda: next(stream),
        lambda: writer.upsert({"id": 1, "v": "x"}),
        writer.flush,
    ):
        with pytest.raises(errors.ClosedError, match="the connection is closed; connect again"):
            call()
    scan.close()
    stream.close()
    assert repr(connection).endswith(", closed>")
