"""Servers that end while they are used: every call fails with an error of ours that says what happened."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock.client.link.retry import Retry
from penstock.errors import UnavailableError
from penstock.testing.server import ServerProcess

SAID = ("the server is stopping", "the connection broke", "no server answers", "the server ended the stream")


def verbs_of(connection: penstock.Connection) -> dict[str, Callable[[], Any]]:
    t = connection.create_table("t", "id BIGINT PRIMARY KEY, n INT", buckets=2)
    p = connection.create_table("p", "day INT, id INT, PRIMARY KEY (day, id)", partitioned_by=["day"])
    t.upsert([{"id": number, "n": 1} for number in range(100)])
    number = itertools.count()
    return {
        "create_table": lambda: connection.create_table(f"x{next(number)}", "id BIGINT PRIMARY KEY"),
        "create_database": lambda: connection.create_database(f"d{next(number)}"),
        "create_partition": lambda: p.create_partition({"day": next(number)}),
        "upsert": lambda: t.upsert([{"id": 1, "n": 2}]),
        "delete_where": lambda: t.delete_where("id = 5"),
        "scan": lambda: t.scan().to_arrow(),
        "lookup": lambda: t.lookup([{"id": 1}]),
        "changes": lambda: list(t.changes()),
        "snapshot": t.create_snapshot,
        "lease": lambda: connection.acquire_lease("l", t.cut(), duration="1min"),
        "owner": lambda: t.acquire_owner("o").release(),
        "stats": t.stats,
    }


def fails_while_it_ends(url: str, end: Callable[[], object]) -> dict[str, BaseException]:
    """Call every verb over and over until it fails, and end the server meanwhile; return the failures."""
    failures: dict[str, BaseException] = {}
    with penstock.connect(url) as connection:
        verbs = verbs_of(connection)
        connection._link.retry = Retry(deadline_ms=0)
        under_way = threading.Barrier(len(verbs) + 1)

        def call(name: str, verb: Callable[[], Any]) -> None:
            try:
                verb()
                under_way.wait()
                while True:
                    verb()
            except BaseException as failure:  # noqa: BLE001 - what it is is what the test is about
                failures[name] = failure

        threads = [threading.Thread(target=call, args=verb) for verb in verbs.items()]
        for thread in threads:
            thread.start()
        under_way.wait()
        end()
        for thread in threads:
            thread.join()
    assert failures.keys() == verbs.keys()
    return failures


@pytest.mark.parametrize("crashes", [False, True])
def test_every_call_to_a_server_that_ends_says_so(tmp_path: Path, crashes: bool) -> None:
    if crashes:
        with ServerProcess(tmp_path / "data") as process:
            failures = fails_while_it_ends(process.url, process.kill)
    else:
        server = penstock.serve(tmp_path / "data")
        failures = fails_while_it_ends(server.url, server.close)

    odd = {
        name: failure
        for name, failure in failures.items()
        if not isinstance(failure, UnavailableError) or not failure.message.startswith(SAID)
    }
    assert odd == {}


def test_connection_goes_on_after_its_server_came_back(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data") as process, penstock.connect(process.url) as connection:
        t = connection.create_table("t", "id BIGINT PRIMARY KEY")
        t.upsert([{"id": 1}])
        process.kill()
        starting = threading.Thread(target=process.start)
        starting.start()
        # None of these may be made twice; each waits until the server is back.
        made = connection.create_table("u", "id BIGINT PRIMARY KEY")
        starting.join()

        made.upsert([{"id": 2}])
        assert (t.get(id=1), made.get(id=2)) == ({"id": 1}, {"id": 2})
