"""Calls whose answer is lost: done once, and answered all the same, or the error says that nobody knows."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.kit.faulty_node import without_patience
from tests.kit.lossy_node import LossyNode

import penstock
from penstock.errors import (
    AlreadyExistsError,
    InvalidError,
    LeaseNotFoundError,
    NotFoundError,
    TableNotFoundError,
    UnavailableError,
)
from penstock.model.node.principal import LOCAL
from penstock.server.calls.kept_results import KEPT_MS, RESULTS_MAX, KeptResults
from penstock.testing.manual_clock import ManualClock

DDL = "day STRING, id BIGINT, v BIGINT SUM, PRIMARY KEY (day, id)"


class House:
    """A server on one port that can be started anew, and a connection to it that loses answers."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._stack = ExitStack()
        self.server = self._stack.enter_context(penstock.serve(directory))
        self.node = LossyNode(self.server.url)
        self.connection = self._stack.enter_context(self.node.connection())

    def restart(self) -> None:
        port = int(self.server.url.rpartition(":")[2])
        self.server.close()
        self.server = self._stack.enter_context(penstock.serve(self._directory, port=port))

    def close(self) -> None:
        self._stack.close()


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    house = House(tmp_path / "data")
    yield house
    house.close()


@pytest.fixture
def table(house: House) -> penstock.Table:
    table = house.connection.create_table("t", DDL, merge_engine="aggregate", partitioned_by=["day"], buckets=2)
    table.upsert([{"day": day, "id": i, "v": 1} for day in ("mon", "tue") for i in range(10)])
    return table


def calls(connection: penstock.Connection, table: penstock.Table) -> dict[str, Callable[[], Any]]:
    """Return every call that may not be done twice, so that each can be made now."""
    connection.create_database("old")
    connection.create_table("gone", "id BIGINT, PRIMARY KEY (id)")
    altered = connection.create_table("altered", "id BIGINT, a INT, b INT, PRIMARY KEY (id)")
    lease = connection.acquire_lease("job", table.cut())
    owner = table.acquire_owner("job-7", columns=["v"], ttl="1h")
    owner.begin(epoch=1)
    table.upsert([{"day": "mon", "id": 1, "v": 5}], owner=owner)
    page = connection.scanner(table, penstock.TableBucket("default.t", "day=mon", 0), page_bytes=1).open()
    return {
        "create_database": lambda: connection.create_database("shop"),
        "drop_database": lambda: connection.drop_database("old"),
        "create_table": lambda: connection.create_table("fresh", "id BIGINT, PRIMARY KEY (id)").path,
        "drop_table": lambda: connection.drop_table("gone"),
        "add_column": lambda: table.add_column("n", pa.int64(), agg="sum").schema.names[-1],
        "rename_column": lambda: altered.rename_column("a", "c").schema.names,
        "widen_column": lambda: str(altered.widen_column("c", pa.int64()).schema.field("c").type),
        "drop_column": lambda: altered.drop_column("b").schema.names,
        "set_properties": lambda: altered.set_properties({"row.ttl": "1h"}).info.properties,
        "create_partition": lambda: table.create_partition({"day": "wed"}),
        "drop_partition": lambda: table.drop_partition({"day": "tue"}),
        "kill_scanner": lambda: connection.kill_scanner(page.scanner_id or ""),
        "undo_owner": lambda: owner.undo().keys,
        "drop_owner": lambda: connection.drop_owner("job-7", "t").keys,
        "drop_lease": lease.drop,
    }


def test_call_whose_answer_is_lost_is_answered_as_if_nothing_had_happened(house: House, table: penstock.Table) -> None:
    expected = {
        "create_table": "default.fresh",
        "add_column": "n",
        "rename_column": ["id", "c", "b"],
        "widen_column": "int64",
        "drop_column": ["id", "c"],
        "set_properties": {"row.ttl": "1h"},
        "create_partition": "day=wed",
        "undo_owner": 1,
        "drop_owner": 0,
    }
    for name, call in calls(house.connection, table).items():
        house.node.lose(name)
        assert (name, call()) == (name, expected.get(name))

    assert house.connection.list_databases() == ["default", "shop"]
    assert house.connection.list_tables("default") == ["altered", "fresh", "t"]
    assert house.connection.table("t").list_partitions() == ["day=mon", "day=wed"]
    assert house.connection.list_leases() == []
    # Made once more they are other calls: what is there is there, and what is gone is gone.
    with pytest.raises(AlreadyExistsError) as refused:
        house.connection.create_table("fresh", "id BIGINT, PRIMARY KEY (id)")
    assert "earlier try" not in str(refused.value)
    with pytest.raises(TableNotFoundError):
        house.connection.drop_table("gone")


def test_rows_written_after_a_truncate_are_not_deleted_by_its_retry(house: House) -> None:
    table = house.connection.create_table("plain", "id BIGINT, PRIMARY KEY (id)")
    table.upsert([{"id": i} for i in range(10)])
    with penstock.connect(house.server.url) as other:
        house.node.lose("truncate", then=lambda: other.table("plain").upsert([{"id": 77}]))

        assert table.truncate().rows == 10

        assert other.table("plain").scan().to_arrow()["id"].to_pylist() == [77]


def test_call_that_a_server_may_have_done_before_it_was_started_anew_says_so(house: House) -> None:
    connection = house.connection
    connection.create_table("gone", "id BIGINT, PRIMARY KEY (id)")
    lease = connection.acquire_lease("job", connection.table("gone").cut())

    house.node.lose("create_table", then=house.restart)
    with pytest.raises(AlreadyExistsError, match="an earlier try of this call got no answer, and may have been done"):
        connection.create_table("fresh", "id BIGINT, PRIMARY KEY (id)")
    house.node.lose("drop_table", then=house.restart)
    with pytest.raises(TableNotFoundError, match="an earlier try of this call got no answer, and may have been done"):
        connection.drop_table("gone")
    house.node.lose("drop_table", then=house.restart)
    connection.drop_table("fresh", if_exists=True)
    altered = connection.create_table("altered", "id BIGINT, a INT, PRIMARY KEY (id)")
    house.node.lose("rename_column", then=house.restart)
    with pytest.raises(InvalidError, match=r"no such column.*may have been done"):
        altered.rename_column("a", "b")
    assert connection.table("altered").schema.names == ["id", "b"]
    connection.drop_table("altered")
    house.node.lose("drop_lease", then=house.restart)
    with pytest.raises(LeaseNotFoundError, match="may have been done"):
        lease.drop()
    assert connection.list_tables("default") == []


def test_call_without_an_answer_says_that_it_may_have_been_done(house: House) -> None:
    without_patience(house.connection)
    house.node.lose("create_table")

    with pytest.raises(UnavailableError, match="may have been done"):
        house.connection.create_table("t", "id BIGINT, PRIMARY KEY (id)")


def test_refusal_is_remembered_and_what_may_succeed_later_is_not() -> None:
    answers = KeptResults(ManualClock())
    outcomes: list[Any] = [UnavailableError("not now"), 7, NotFoundError("no"), 8]

    def perform() -> int:
        outcome = outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return int(outcome)

    with pytest.raises(UnavailableError):
        answers.once(LOCAL, "a", "drop_table", perform)
    assert [answers.once(LOCAL, "a", "drop_table", perform) for _ in range(2)] == [7, 7]
    for _ in range(2):
        with pytest.raises(NotFoundError):
            answers.once(LOCAL, "b", "drop_table", perform)
    assert answers.once(LOCAL, "c", "drop_table", perform) == 8


def test_request_that_comes_again_while_it_is_being_done_waits_for_it() -> None:
    answers = KeptResults(ManualClock())
    entered, leave, found = threading.Event(), threading.Event(), []

    def slow() -> str:
        entered.set()
        leave.wait(30)
        return "first"

    first = threading.Thread(target=lambda: found.append(answers.once(LOCAL, "a", "truncate", slow)))
    first.start()
    entered.wait(30)
    second = threading.Thread(target=lambda: found.append(answers.once(LOCAL, "a", "truncate", lambda: "second")))
    second.start()
    leave.set()
    first.join()
    second.join()

    assert found == ["first", "first"]


def test_only_the_newest_answers_are_kept_and_not_for_ever() -> None:
    clock = ManualClock()
    answers = KeptResults(clock)
    for number in range(RESULTS_MAX + 10):
        answers.once(LOCAL, str(number), "drop_table", lambda: "first")

    assert answers.once(LOCAL, str(RESULTS_MAX + 9), "drop_table", lambda: "again") == "first"
    assert answers.once(LOCAL, "10", "drop_table", lambda: "again") == "first"
    assert answers.once(LOCAL, "9", "drop_table", lambda: "again") == "again"
    clock.advance(KEPT_MS)
    answers.once(LOCAL, "new", "drop_table", lambda: "new")
    assert answers.once(LOCAL, "11", "drop_table", lambda: "again") == "again"


def test_answers_of_one_caller_do_not_make_those_of_another_go() -> None:
    answers = KeptResults(ManualClock())
    answers.once("bob", "b", "drop_table", lambda: "first")
    for number in range(2 * RESULTS_MAX):
        answers.once("ann", str(number), "drop_table", lambda: "first")

    assert answers.once("bob", "b", "drop_table", lambda: "again") == "first"
