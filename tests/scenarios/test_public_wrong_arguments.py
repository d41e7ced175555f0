"""Arguments of a wrong kind: told as InvalidError, the same embedded and against a server, and nothing is done."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import date, datetime
from typing import Any

import pyarrow as pa
import pytest

import penstock
from penstock.errors import InvalidError, SchemaMismatchError

ROW = {"id": 1, "city": "Ulm", "at": None}
OFTEN = 2**70


@pytest.fixture(scope="module", params=["embedded", "server"])
def conn(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with ExitStack() as stack:
        target = tmp_path_factory.mktemp("arguments") / "data"
        if request.param == "server":
            target = stack.enter_context(penstock.serve(target)).url  # type: ignore[assignment]
        opened = stack.enter_context(penstock.connect(target))
        opened.create_table("orders", "id BIGINT, city STRING, at TIMESTAMP, PRIMARY KEY (id)", buckets=2)
        opened.create_table("sums", "city STRING, n BIGINT SUM, PRIMARY KEY (city)")
        opened.create_table("days", "day DATE, n INT, id INT, PRIMARY KEY (day, n, id)", partitioned_by=["day", "n"])
        yield opened


def orders(conn: Any) -> Any:
    return conn.table("orders")


def owned(conn: Any, use: Callable[[Any, Any], object]) -> object:
    with conn.table("sums").acquire_owner("job") as owner:
        owner.begin(1 + owner.committed_epoch)
        return use(conn.table("sums"), owner)


MISTAKES: dict[str, tuple[Callable[[Any], object], str]] = {
    "database that is no text": (lambda conn: conn.create_database(None), "database|text"),
    "table that is no text": (lambda conn: conn.table(None), "path|text"),
    "database to drop": (lambda conn: conn.drop_database(["d"]), "a database is a string"),
    "database to list": (lambda conn: conn.list_tables({}), "a database is a string"),
    "scanner to kill": (lambda conn: conn.kill_scanner([]), "a scanner id is a string"),
    "lease to find": (lambda conn: conn.lease([]), "a lease id is a string"),
    "owner to drop": (lambda conn: conn.drop_owner([], "sums"), "an owner is a string"),
    "key that is a number": (
        lambda conn: conn.create_table("t", "id INT", primary_key=5),
        "primary_key takes a list of column names",
    ),
    "key of numbers": (
        lambda conn: conn.create_table("t", "id INT", primary_key=[[5]]),
        "a column of primary_key is a string",
    ),
    "functions that are no dict": (
        lambda conn: conn.create_table("t", "id INT, n INT, PRIMARY KEY (id)", aggregates=iter([])),
        "aggregates is a dict",
    ),
    "version that is a list": (
        lambda conn: conn.create_table("t", "id INT, n INT, PRIMARY KEY (id)", version_column=["n"]),
        "version_column is a string",
    ),
    "buckets to read": (lambda conn: orders(conn).scan(buckets=1.5), "buckets= takes a list"),
    "linger that never ends": (lambda conn: orders(conn).writer(linger_ms=OFTEN), "bounds are positive numbers"),
    "properties that are a list": (
        lambda conn: conn.create_table("t", "id INT", properties=[1]),
        "properties are a dict",
    ),
    "columns to write": (lambda conn: orders(conn).upsert([ROW], columns=5), "columns= takes a list of names"),
    "columns to read": (lambda conn: orders(conn).scan(columns=5), "columns= takes a list of names"),
    "columns of changes": (lambda conn: orders(conn).changes(columns=5), "columns= takes a list of names"),
    "columns to own": (
        lambda conn: conn.table("sums").acquire_owner("job", columns=5),
        "columns= takes a list of names",
    ),
    "attempt without an owner": (
        lambda conn: orders(conn).upsert([ROW], attempt=uuid.uuid4()),
        "an attempt belongs to an owner's epoch; pass owner=",
    ),
    "start before all time": (
        lambda conn: orders(conn).changes(start=datetime.fromisoformat("0001-01-01T00:00+14:00")),
        "the start is outside the years 1 to 9999",
    ),
    "bounds of a writer": (lambda conn: orders(conn).writer(batch_rows="x"), "bounds are positive numbers"),
    "linger that is no number": (lambda conn: orders(conn).writer(linger_ms=float("nan")), "bounds are positive"),
    "call that is no number": (lambda conn: opened_scanner(conn).next("1"), "call number|whole number"),
    "partition that is no dict": (lambda conn: conn.table("days").create_partition(None), "named by its values"),
    "day that is a number": (
        lambda conn: conn.table("days").create_partition({"day": 5, "n": 1}),
        "a partition value does not fit its column column=day",
    ),
    "number that is cut": (
        lambda conn: conn.table("days").create_partition({"day": "2024-01-01", "n": 1.5}),
        "a partition value does not fit its column column=n",
    ),
    "buckets to release": (
        lambda conn: conn.acquire_lease("l", orders(conn).cut()).release([1]),
        "a lease gives back penstock.TableBucket",
    ),
    "no buckets to release": (
        lambda conn: conn.acquire_lease("l", orders(conn).cut()).release(None),
        "a lease gives back penstock.TableBucket",
    ),
    "owner that is no text": (lambda conn: conn.table("sums").acquire_owner(7), "owner and incarnation are strings"),
    "incarnation that is no text": (
        lambda conn: conn.table("sums").acquire_owner("job", incarnation=5),
        "owner and incarnation are strings",
    ),
    "epoch that is text": (lambda conn: owned(conn, lambda _, owner: owner.begin("8")), "an epoch is a whole number"),
    "epoch with a fraction": (lambda conn: owned(conn, lambda _, owner: owner.begin(1.5)), "an epoch is"),
    "epoch beyond 64 bits": (lambda conn: owned(conn, lambda _, owner: owner.begin(OFTEN)), "an epoch is"),
    "negative epoch to commit": (lambda conn: owned(conn, lambda _, owner: owner.commit(-1)), "an epoch is"),
    "attempt that is no uuid": (
        lambda conn: owned(conn, lambda t, o: t.upsert([{"city": "x", "n": 1}], owner=o.token(), attempt=5)),
        "an attempt is a uuid attempt=5",
    ),
    "attempts that are no list": (
        lambda conn: owned(conn, lambda _, o: o.commit(o.epoch, attempts=5)),
        "attempts= takes a list of uuids",
    ),
    "attempt that is none": (
        lambda conn: owned(conn, lambda _, o: o.commit(o.epoch, attempts=[None])),
        "an attempt is a uuid",
    ),
    "rows of an attempt": (
        lambda conn: owned(conn, lambda t, o: t.end_attempt(owner=o, attempt=uuid.uuid4(), rows="x")),
        "an attempt wrote a number of rows",
    ),
}


def opened_scanner(conn: Any) -> Any:
    table = conn.create_table("pages", "id INT, PRIMARY KEY (id)", if_not_exists=True)
    table.upsert([{"id": id} for id in range(10)])
    scanner = conn.scanner(table, 0, page_bytes=1)
    scanner.open()
    return scanner


@pytest.mark.parametrize("mistake", MISTAKES)
def test_argument_of_a_wrong_kind_is_told(mistake: str, conn: Any) -> None:
    make, said = MISTAKES[mistake]

    with pytest.raises(InvalidError, match=said):
        make(conn)

    assert "None" not in conn.list_databases()
    assert conn.table("days").list_partitions() == []


def test_key_columns_in_one_list_are_told() -> None:
    with pytest.raises(InvalidError, match="one by one"):
        penstock.Schema.builder().column("a", pa.int64()).primary_key(["a"])  # type: ignore[arg-type]


def test_limit_beyond_every_number_of_rows_is_no_limit(conn: Any) -> None:
    table = conn.create_table("limits", "id INT, PRIMARY KEY (id)")
    table.upsert([{"id": 1}, {"id": 2}])

    assert table.scan(limit=OFTEN).to_arrow().num_rows == 2


def test_moment_that_no_python_type_reaches_is_refused_with_its_row(conn: Any) -> None:
    moments = pa.array([0, 2**62], pa.timestamp("s", "UTC"))

    with pytest.raises(SchemaMismatchError, match="column=at row=1"):
        orders(conn).upsert(pa.table({"id": [1, 2], "at": moments}), columns=["at"])


def test_partition_of_a_year_that_has_no_name_is_refused(conn: Any) -> None:
    days = pa.array([10**7], pa.int32()).cast(pa.date32())

    with pytest.raises(InvalidError, match="outside the years 1 to 9999"):
        conn.table("days").upsert(pa.table({"day": days, "n": [1], "id": [1]}))

    assert conn.table("days").list_partitions() == []


def test_day_may_be_a_date_or_its_text(conn: Any) -> None:
    table = conn.create_table("calendar", "day DATE, id INT, PRIMARY KEY (day, id)", partitioned_by=["day"])

    assert table.create_partition({"day": date(2024, 1, 1)}) == "day=2024-01-01"
    assert table.create_partition({"day": "2024-01-02"}) == "day=2024-01-02"


def test_runs_of_equal_values_are_written_as_the_values_they_stand_for(conn: Any) -> None:
    table = conn.create_table("runs", "id INT, city STRING, PRIMARY KEY (id)")
    runs = pa.RunEndEncodedArray.from_arrays([2, 3], ["Ulm", "Bonn"])

    table.upsert(pa.table({"id": pa.array([1, 2, 3], pa.int32()), "city": runs}).slice(1))

    assert table.scan().to_arrow().to_pylist() == [{"id": 2, "city": "Ulm"}, {"id": 3, "city": "Bonn"}]


@pytest.mark.parametrize("source", ["live", "snapshot"])
def test_lease_of_some_buckets_is_not_passed_off_as_the_table(source: str, conn: Any) -> None:
    table = conn.create_table(f"part_{source}", "id INT, PRIMARY KEY (id)", buckets=2)
    table.upsert([{"id": id} for id in range(10)])
    first, second = sorted(table.cut())
    lease = conn.acquire_lease(f"part-{source}", table.cut())
    assert table.scan(source=source, lease=lease).to_arrow().num_rows == 10
    lease.release([second])

    with pytest.raises(InvalidError, match=r"only some buckets of the table; .* missing=default\.part_\w+#1"):
        table.scan(source=source, lease=lease)

    rows = table.scan(source=source, lease=lease, buckets=[first]).to_arrow().num_rows
    assert 0 < rows < 10


@pytest.mark.parametrize(
    ("target", "wrong"),
    [
        ("a\0b", {}),
        ("data", {"settings": [1]}),
        ("penstock://127.0.0.1:1", {"token": 5}),
        ("penstock+tls://127.0.0.1:1", {"tls": "ca.pem"}),
        ("penstock://somebody@127.0.0.1:1", {}),
        ("penstock://127.0.0.1:1", {"token": "secret\n"}),
        ("penstock://127.0.0.1:1", {"token": "schlüssel"}),
    ],
)
def test_connection_that_cannot_be_meant_is_told(target: str, wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidError):
        penstock.connect(target, **wrong)
