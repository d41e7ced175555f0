"""Errors as users meet them: they say what is wrong, with which value, and what to do."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyarrow import flight

import penstock
from penstock import errors
from penstock.wire.fault import from_flight

ORDERS = "id BIGINT, city STRING, amount DOUBLE, PRIMARY KEY (id)"
ROW = {"id": 1, "city": "Ulm", "amount": 1.0}


@pytest.fixture(scope="module")
def conn(tmp_path_factory: pytest.TempPathFactory) -> Iterator[penstock.Connection]:
    with penstock.connect(tmp_path_factory.mktemp("messages") / "data") as opened:
        opened.create_table("orders", ORDERS)
        opened.create_table("sums", "city STRING, n BIGINT SUM, PRIMARY KEY (city)")
        yield opened


MISTAKES: dict[str, tuple[Callable[[Any], object], type[errors.PenstockError], str]] = {
    "misspelt column": (
        lambda conn: conn.table("orders").upsert([ROW | {"citty": "x"}]),
        errors.SchemaMismatchError,
        "the table has no such column; did you mean city? it has id, city, amount; leave it out, or add it with "
        "add_column and open the table again column=citty",
    ),
    "misspelt column in a filter": (
        lambda conn: conn.table("orders").scan(filter="cty = 'Ulm'"),
        errors.InvalidError,
        "no such column; did you mean city? there are id, city, amount; texts stand in 'single quotes' column=cty",
    ),
    "text in double quotes": (
        lambda conn: conn.table("orders").scan(filter='city = "Ulm"'),
        errors.InvalidError,
        "no such column; there are id, city, amount; texts stand in 'single quotes' column=Ulm",
    ),
    "text beside a number in a filter": (
        lambda conn: conn.table("orders").scan(filter="id = 'x'"),
        errors.InvalidError,
        "expected a whole number column=id type=int64 value='x'",
    ),
    "wrong type in a row": (
        lambda conn: conn.table("orders").upsert([ROW, ROW | {"amount": "much"}]),
        errors.SchemaMismatchError,
        "a value does not fit its column (str is no double) column=amount row=1 value='much' wanted=double",
    ),
    "number in a column of text": (
        lambda conn: conn.table("orders").upsert([ROW, ROW | {"city": 7}]),
        errors.SchemaMismatchError,
        "a value does not fit its column (int is no string) column=city row=1 value=7 wanted=string",
    ),
    "key left out": (
        lambda conn: conn.table("orders").upsert([{"city": "Ulm", "amount": 1.0}]),
        errors.SchemaMismatchError,
        "a key column is missing from the data; add it column=id found=city, amount",
    ),
    "null key": (
        lambda conn: conn.table("orders").upsert([ROW | {"id": None}]),
        errors.SchemaMismatchError,
        "a key column is never null; fill it or leave the row out column=id row=0",
    ),
    "other key in get": (
        lambda conn: conn.table("orders").get(idd=1),
        errors.InvalidError,
        "get takes every key column and no other primary_key=['id'] given=['idd']",
    ),
    "misspelt table": (
        lambda conn: conn.table("order"),
        errors.TableNotFoundError,
        "no such table; did you mean default.orders? create it, or look at list_tables table=default.order",
    ),
    "table without its database": (
        lambda conn: (conn.create_database("other"), conn.table("other.orders")),
        errors.TableNotFoundError,
        "no such table; did you mean default.orders? create it, or look at list_tables table=other.orders",
    ),
    "misspelt property": (
        lambda conn: conn.create_table("t", ORDERS, properties={"log.retenton": "1d"}),
        errors.InvalidError,
        "no such table property; did you mean log.retention? there are delete.behavior, ",
    ),
    "cut that is none": (
        lambda conn: conn.table("orders").scan(as_of=3),
        errors.InvalidError,
        "a cut is offsets by bucket, as t.cut() returns them found=int",
    ),
    "cut that is a word": (
        lambda conn: conn.table("orders").scan(as_of="yesterday"),
        errors.InvalidError,
        "not a moment; say it as 2026-11-18T10:00:00Z, or pass a cut as_of=yesterday",
    ),
    "end that is a word": (
        lambda conn: conn.table("orders").changes(end="latest"),
        errors.InvalidError,
        "a cut is t.cut(), the text of its to_json(), or offsets by bucket found='latest'",
    ),
    "start that is none": (
        lambda conn: list(conn.table("orders").changes(start="yesterday")),
        errors.InvalidError,
        "a start is penstock.EARLIEST, penstock.LATEST, a cut, a datetime or a stream's position start='yesterday'",
    ),
    "lease of a table": (
        lambda conn: conn.acquire_lease("l", conn.table("orders")),
        errors.InvalidError,
        "a lease takes t.latest_snapshots, t.cut(), {TableBucket: snapshot id}, or a list of these found=Table",
    ),
    "lease that is too long": (
        lambda conn: conn.acquire_lease("l", conn.table("orders").cut(), duration="30d"),
        errors.LimitError,
        "a lease lasts at most kv.lease.max-duration; renew it while you need it duration=30d max=7d",
    ),
    "owner that is not there": (
        lambda conn: conn.drop_owner("nobody", "sums"),
        errors.OwnerNotFoundError,
        "no such owner on this table; list_owners shows those there are owner=nobody",
    ),
    "server without its scheme": (
        lambda _: penstock.connect("localhost:9123"),
        errors.InvalidError,
        "that looks like a server; its url is penstock://localhost:9123 target=localhost:9123",
    ),
    "nothing to connect to": (
        lambda _: penstock.connect(None),  # type: ignore[arg-type]
        errors.InvalidError,
        "connect to a directory or a penstock:// url target=None",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistake_is_told_with_its_value_and_what_to_do(mistake: str, conn: penstock.Connection) -> None:
    make, kind, said = MISTAKES[mistake]

    with pytest.raises(kind) as caught:
        make(conn)

    assert str(caught.value).startswith(said)
    assert type(caught.value) is kind


def test_file_is_no_data_directory(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()

    with pytest.raises(errors.InvalidError, match="the data directory is a file, or below one; name a directory"):
        penstock.connect(file)


def test_directory_that_the_disk_refuses_is_named() -> None:
    with pytest.raises(errors.PenstockError, match=re.escape("directory=/proc/nowhere")) as caught:
        penstock.connect("/proc/nowhere")

    assert isinstance(caught.value, errors.UnavailableError | errors.PermissionDeniedError)


def test_forked_child_is_told_how_to_be_started(conn: penstock.Connection) -> None:
    table, (reads, writes) = conn.table("orders"), os.pipe()
    child = os.fork()
    if child == 0:
        try:
            table.get(id=1)
        except errors.ClosedError as error:
            os.write(writes, str(error).encode())
        os._exit(0)
    os.waitpid(child, 0)

    assert os.read(reads, 4096).decode().startswith("an open data directory does not survive a fork; start the process")


@pytest.mark.parametrize(
    ("cause", "kind", "said"),
    [
        ("Failed parsing HTTP/2 (Expected SETTINGS frame)", errors.UnsupportedError, "is this its http port?"),
        ("SSL routines::wrong version number", errors.UnsupportedError, "does not speak tls; use penstock://"),
        ("certificate verify failed: self-signed", errors.PermissionDeniedError, "pass its ca by tls="),
        ("CERTIFICATE_VERIFY_FAILED: self signed", errors.PermissionDeniedError, "is not trusted; pass its ca by tls="),
        ("Failed to connect to remote host: Connection refused", errors.UnavailableError, "nothing listens there"),
        ("hostname lookup error: x", errors.UnavailableError, "no server answers; check the host"),
        ("missing selected ALPN property", errors.UnsupportedError, "is this its http port?"),
        ("timed out before SETTINGS frame", errors.UnavailableError, "no server answers; check that it runs"),
    ],
)
def test_connection_that_fails_says_why(cause: str, kind: type[errors.PenstockError], said: str) -> None:
    told = f"Flight returned unavailable error, with message: failed to connect to all addresses; last error: {cause}"

    error = from_flight(flight.FlightUnavailableError(told))

    assert type(error) is kind
    assert said in error.message
    assert error.facts == {"cause": cause}
    assert not error.reached


def test_connection_that_breaks_in_a_call_does_not_say_that_nobody_is_there() -> None:
    error = from_flight(flight.FlightUnavailableError("Flight returned unavailable error, with message: Socket closed"))

    assert type(error) is errors.UnavailableError
    assert (error.message, error.reached) == ("the connection broke; the call may have been done", True)
