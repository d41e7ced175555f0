"""Exactly once, as jobs use it, embedded and against a server."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.kit.waiting import wait_until

import penstock
from penstock.errors import (
    ConflictError,
    FencedError,
    InvalidError,
    LockedError,
    OwnerNotFoundError,
    PermissionDeniedError,
    UnsupportedError,
)
from penstock.testing.server import ServerProcess

Connect = Callable[..., penstock.Connection]
DDL = "city STRING, revenue BIGINT SUM, visits BIGINT SUM, PRIMARY KEY (city)"


@pytest.fixture
def table(connection: penstock.Connection) -> penstock.Table:
    return connection.create_table("shop.revenue", DDL, merge_engine="aggregate", buckets=3)


def revenue(table: penstock.Table) -> dict[str, Any]:
    return {row["city"]: row["revenue"] for row in table.scan().to_arrow().to_pylist()}


def sales(*cities: str) -> list[dict[str, Any]]:
    return [{"city": city, "revenue": 10} for city in cities]


def wait_for_renewal(connection: penstock.Connection) -> None:
    lefts_ms = [1 << 30]

    def is_renewed() -> bool:
        lefts_ms.append(connection.list_owners()[0].expires_in_ms)
        return lefts_ms[-1] > lefts_ms[-2]

    wait_until(is_renewed)


def test_job_that_crashed_writes_its_epoch_again_and_counts_once(table: penstock.Table) -> None:
    for epoch in range(3):
        # A driver that dies after writing: its handle is just forgotten.
        lost = table.acquire_owner("job-7", columns=["revenue"], incarnation="query")
        if lost.begin(epoch) == "new":
            table.upsert(sales("Ulm", "Bonn"), owner=lost)
        owner = table.acquire_owner("job-7", columns=["revenue"], incarnation="query")
        assert owner.begin(epoch=epoch) == "new"
        table.upsert(sales("Ulm", "Bonn"), columns=["revenue"], owner=owner)
        owner.commit(epoch=epoch)
        assert owner.begin(epoch) == "committed"
        with pytest.raises(FencedError):
            table.upsert(sales("Ulm"), owner=lost)

    assert revenue(table) == {"Ulm": 30, "Bonn": 30}


def test_owner_locks_its_columns_until_it_is_released(table: penstock.Table) -> None:
    with table.acquire_owner("job-7", columns=["revenue"], ttl="60s") as owner:
        table.upsert([{"city": "Ulm", "visits": 1}])
        with pytest.raises(LockedError) as refused:
            table.upsert(sales("Ulm"))
        with pytest.raises(LockedError):
            table.acquire_owner("job-8", columns=["revenue", "visits"])
        assert (refused.value.holder, refused.value.columns) == ("job-7", ["revenue"])
        table.upsert(sales("Ulm"), owner=owner)
        assert owner.epoch is None

    table.upsert(sales("Ulm"))
    assert revenue(table) == {"Ulm": 20}


def test_uncommitted_work_is_undone_when_its_block_fails(table: penstock.Table) -> None:
    def fail() -> None:
        with table.acquire_owner("job-7", columns=["revenue"]) as owner:
            owner.begin(1)
            table.upsert(sales("Ulm"), owner=owner)
            assert revenue(table) == {"Ulm": 10}
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()

    assert revenue(table) == {}


def test_undo_says_what_it_did(table: penstock.Table) -> None:
    owner = table.acquire_owner("job-7", columns=["revenue"])
    owner.begin(1)
    table.upsert(sales("Ulm", "Bonn", "Kiel"), owner=owner)

    result = owner.undo()

    assert (result.keys, result.rows_removed, result.superseded) == (3, 3, 0)
    assert sum(bucket.keys for bucket in result.buckets.values()) == 3
    assert owner.undo() == penstock.UndoResult()


def test_undo_is_changes_that_a_reader_follows(connection: penstock.Connection) -> None:
    table = connection.create_table("shop.orders", "id BIGINT, v BIGINT, PRIMARY KEY (id)")
    table.upsert([{"id": 1, "v": 1}])
    owner = table.acquire_owner("job-7")
    owner.begin(1)
    table.upsert([{"id": 1, "v": 2}, {"id": 2, "v": 2}], owner=owner)
    owner.undo()

    rows = pa.Table.from_batches(list(table.changes())).to_pylist()

    kinds = [(row["_change_type"], row["id"], row["v"]) for row in rows]
    assert kinds[:4] == [("+I", 1, 1), ("-U", 1, 1), ("+U", 1, 2), ("+I", 2, 2)]
    assert sorted(kinds[4:]) == [("+U", 1, 1), ("-D", 2, 2), ("-U", 1, 2)]


def test_tasks_write_with_a_token_and_late_twins_are_dropped(table: penstock.Table) -> None:
    owner = table.acquire_owner("job-7", columns=["revenue"])
    owner.begin(1)
    token = owner.token(1)
    first, twin = uuid.uuid4(), uuid.uuid4()
    with table.writer(owner=token, attempt=first) as writer:
        for city in ("Ulm", "Bonn"):
            writer.upsert({"city": city, "revenue": 10})
    assert writer.attempt_end is not None
    assert writer.attempt_end.rows == 2

    late = table.upsert(sales("Ulm", "Bonn"), owner=token, attempt=twin)
    lost = table.end_attempt(owner=token, attempt=twin, rows=2)

    assert late.done
    assert (lost.done, lost.attempt) == (True, first.bytes)
    with pytest.raises(ConflictError, match="missing"):
        owner.commit(1, attempts={first: 3})
    owner.commit(1, attempts={first: 2})
    owner.commit(1, attempts=[first])
    assert revenue(table) == {"Ulm": 10, "Bonn": 10}
    with pytest.raises(FencedError):
        table.upsert(sales("Ulm"), owner=token, attempt=first)


def test_writer_whose_block_failed_has_not_ended(table: penstock.Table) -> None:
    owner = table.acquire_owner("job-7", columns=["revenue"])
    owner.begin(1)
    attempt = uuid.uuid4()

    def fail() -> None:
        with table.writer(owner=owner, attempt=attempt) as writer:
            writer.upsert(sales("Ulm"))
            writer.flush()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()

    with pytest.raises(ConflictError, match="has not ended"):
        owner.commit(1, attempts=[attempt])


def test_staged_rows_appear_at_commit_also_in_a_log_table(connection: penstock.Connection) -> None:
    clicks = connection.create_table("shop.clicks", "id BIGINT, url STRING", buckets=2)
    owner = clicks.acquire_owner("job-7")
    owner.begin(1)
    kept, dropped = uuid.uuid4(), uuid.uuid4()
    with pytest.raises(UnsupportedError, match="stage"):
        clicks.append([{"id": 1, "url": "/"}], owner=owner, attempt=kept)
    clicks.stage([{"id": 1, "url": "/"}, {"id": 2, "url": "/a"}], owner=owner.token(1), attempt=kept)
    clicks.stage([{"id": 1, "url": "/"}], owner=owner.token(1), attempt=str(dropped))
    assert clicks.scan().to_arrow().num_rows == 0

    owner.commit(1, attempts=[(kept, 2)])

    assert sorted(clicks.scan().to_arrow()["id"].to_pylist()) == [1, 2]


def test_staged_changes_delete_too(connection: penstock.Connection) -> None:
    table = connection.create_table("shop.orders", "id BIGINT, v BIGINT, PRIMARY KEY (id)")
    table.upsert([{"id": 1, "v": 1}, {"id": 2, "v": 2}])
    owner = table.acquire_owner("job-7")
    owner.begin(1)
    attempt = uuid.uuid4()
    rows = [{"_change_type": "-D", "id": 1, "v": None}, {"_change_type": "+U", "id": 2, "v": 5}]
    table.stage(rows, owner=owner, attempt=attempt, changes=True)

    owner.commit(1, attempts=[attempt])

    assert table.scan().to_arrow().to_pylist() == [{"id": 2, "v": 5}]


def test_fresh_checkpoint_neither_skips_nor_doubles(connection: penstock.Connection, table: penstock.Table) -> None:
    owner = table.acquire_owner("job-7", columns=["revenue"], incarnation="query-1")
    owner.begin(4)
    table.upsert(sales("Ulm"), owner=owner)
    owner.commit(4)

    with pytest.raises(ConflictError, match="query-1"):
        table.acquire_owner("job-7", columns=["revenue"], incarnation="query-2")
    with pytest.raises(ConflictError, match="drop_owner"):
        owner.begin(0)

    owner.begin(5)
    table.upsert(sales("Bonn"), owner=owner)
    assert connection.drop_owner("job-7", "shop.revenue").rows_removed == 1
    assert revenue(table) == {"Ulm": 10}
    assert table.acquire_owner("job-7", columns=["revenue"], incarnation="query-2").begin(0) == "new"


def test_owners_are_listed(connection: penstock.Connection, table: penstock.Table) -> None:
    owner = table.acquire_owner("job-7", columns=["revenue"], ttl="10min")
    owner.begin(3)
    table.upsert(sales("Ulm", "Bonn"), owner=owner)

    (info,) = connection.list_owners()

    assert (info.table, info.owner, info.columns) == ("shop.revenue", "job-7", ("revenue",))
    assert (info.committed_epoch, info.open_epoch, info.rows_pending) == (-1, 3, 2)
    assert info.held
    assert 590_000 < info.expires_in_ms <= 600_000
    assert repr(owner).startswith("<Owner job-7 of shop.revenue (revenue), fence 1, epoch 3 open")
    with pytest.raises(OwnerNotFoundError):
        connection.drop_owner("job-8", "shop.revenue")


def test_owner_is_renewed_in_the_background(connection: penstock.Connection, table: penstock.Table) -> None:
    owner = table.acquire_owner("job-7", columns=["revenue"], ttl="300ms")

    wait_for_renewal(connection)

    with pytest.raises(LockedError):
        table.upsert(sales("Ulm"))
    owner.release()
    with pytest.raises(FencedError):
        owner.renew()


def test_wrong_arguments_are_named(table: penstock.Table) -> None:
    owner = table.acquire_owner("job-7", columns=["revenue"])

    with pytest.raises(InvalidError, match="begin the epoch"):
        owner.token(5)
    with pytest.raises(InvalidError, match="uuid"):
        table.upsert(sales("Ulm"), owner=owner, attempt="seven")
    with pytest.raises(InvalidError, match="no owner token"):
        table.upsert(sales("Ulm"), owner=b"junk")
    with pytest.raises(InvalidError, match="owner= takes"):
        table.upsert(sales("Ulm"), owner="job-7")  # type: ignore[arg-type]
    for name in ("", "a\0b", "\u202e7-boj", "\x1b[2J", "x" * 201):
        with pytest.raises(InvalidError, match="an owner id has 1 to 200 printable characters"):
            table.acquire_owner(name, columns=["visits"])


def test_open_epoch_survives_a_restart_and_is_undone_or_committed(tmp_path: Path) -> None:
    with penstock.connect(tmp_path) as connection:
        connection.create_database("shop")
        table = connection.create_table("shop.revenue", DDL, merge_engine="aggregate", buckets=2)
        owner = table.acquire_owner("job-7", columns=["revenue"])
        owner.begin(1)
        table.upsert(sales("Ulm", "Bonn"), owner=owner)
        owner.commit(1)
        owner.begin(2)
        table.upsert(sales("Ulm", "Kiel"), owner=owner)

    with penstock.connect(tmp_path) as connection:
        table = connection.table("shop.revenue")
        (info,) = connection.list_owners()
        assert (info.committed_epoch, info.open_epoch, info.rows_pending) == (1, 2, 2)
        again = table.acquire_owner("job-7", columns=["revenue"])
        assert again.committed_epoch == 1
        assert again.begin(2) == "new"
        assert revenue(table) == {"Ulm": 10, "Bonn": 10}
        connection.drop_table("shop.revenue")
        assert connection.list_owners() == []


def test_job_counts_once_while_its_server_is_killed(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data") as process, penstock.connect(process.url) as connection:
        connection.create_database("shop")
        table = connection.create_table("shop.revenue", DDL, merge_engine="aggregate", buckets=3)
        owner = table.acquire_owner("job-7", columns=["revenue"])
        for epoch in range(2):
            owner.begin(epoch)
            attempt = uuid.uuid4()
            table.upsert(sales("Ulm", "Bonn"), owner=owner)
            if epoch % 2:
                process.restart()
                owner.begin(epoch)
                table.upsert(sales("Ulm", "Bonn"), owner=owner)
            table.stage(sales("Kiel"), owner=owner, attempt=attempt)
            process.restart()
            owner.commit(epoch, attempts={attempt: 1})
            process.restart()
            assert owner.begin(epoch) == "committed"

        assert revenue(table) == {"Ulm": 20, "Bonn": 20, "Kiel": 20}


def test_owner_of_one_principal_is_of_no_use_to_another(tmp_path: Path) -> None:
    words = {name: name * 20 for name in ("ann", "bob")}
    tokens = tmp_path / "tokens"
    tokens.write_text("".join(f"{name}:{hashlib.sha256(word.encode()).hexdigest()}\n" for name, word in words.items()))
    tokens.chmod(0o600)
    with (
        penstock.serve(tmp_path / "data", token_file=tokens) as server,
        penstock.connect(server.url, token=words["ann"]) as ann,
        penstock.connect(server.url, token=words["bob"]) as bob,
    ):
        mine = ann.create_table("revenue", DDL, merge_engine="aggregate")
        owner = mine.acquire_owner("job-7", columns=["revenue"])
        owner.begin(1)
        mine.upsert(sales("Ulm"), owner=owner)

        theirs = bob.table("revenue")
        for steal in (
            lambda: theirs.acquire_owner("job-7", columns=["revenue"]),
            lambda: theirs.upsert(sales("Ulm"), owner=owner.token(1)),
            lambda: theirs.stage(sales("Ulm"), owner=owner.token(1), attempt=uuid.uuid4()),
            lambda: bob.drop_owner("job-7", "revenue"),
        ):
            with pytest.raises(PermissionDeniedError, match="another principal's"):
                steal()

        owner.commit(1)
        assert revenue(mine) == {"Ulm": 10}


def test_end_of_a_fenced_attempt_names_the_bucket_as_users_do(connection: penstock.Connection) -> None:
    table = connection.create_table("shop.sums", "id INT, n BIGINT SUM, PRIMARY KEY (id)")
    first, second = uuid.uuid4(), uuid.uuid4()
    with table.acquire_owner("job") as owner:
        owner.begin(1)
        table.upsert([{"id": 1, "n": 1}], owner=owner.token(), attempt=first)
        table.upsert([{"id": 1, "n": 1}], owner=owner.token(), attempt=second)

        with pytest.raises(FencedError, match=r"bucket=shop\.sums#0"):
            table.end_attempt(owner=owner, attempt=first, rows=1)


@pytest.mark.parametrize("commits", [False, True])
@pytest.mark.parametrize("engine", ["last_row", "aggregate"])
def test_delete_in_a_partition_that_is_not_there_is_nothing_to_commit_or_undo(
    engine: Any, commits: bool, connection: penstock.Connection
) -> None:
    function = "SUM" if engine == "aggregate" else ""
    ddl = f"day STRING, id INT, n BIGINT {function}, PRIMARY KEY (day, id)"
    properties = {"column-lock.enabled": "true", "delete.behavior": "allow"}
    table = connection.create_table(
        "shop.days", ddl, partitioned_by=["day"], merge_engine=engine, properties=properties
    )
    table.upsert([{"day": "mon", "id": 1, "n": 1}, {"day": "mon", "id": 2, "n": 2}])
    with table.acquire_owner("job") as owner:
        owner.begin(1)
        assert table.delete([{"day": "tue", "id": 1}], owner=owner).ignored == 1
        assert table.delete([{"day": "tue", "id": 1}], columns=["n"], owner=owner).ignored == 1
        both = table.delete([{"day": "tue", "id": 1}, {"day": "mon", "id": 1}], owner=owner)
        assert (both.changes, both.ignored) == (1, 1)
        if commits:
            owner.commit(1)

    assert table.list_partitions() == ["day=mon"]
    left = [row["id"] for row in table.scan().to_arrow().to_pylist()]
    assert sorted(left) == ([2] if commits else [1, 2])


def test_task_whose_deletes_all_went_nowhere_keeps_no_epoch_from_its_commit(connection: penstock.Connection) -> None:
    ddl = "day STRING, id INT, n BIGINT, PRIMARY KEY (day, id)"
    table = connection.create_table("shop.days", ddl, partitioned_by=["day"])
    with table.acquire_owner("job") as owner:
        owner.begin(1)
        staged, ends = uuid.uuid4(), []
        for _ in range(2):
            with table.writer(owner=owner.token(1), attempt=uuid.uuid4()) as writer:
                writer.delete([{"day": "tue", "id": 1}])
            ends.append(writer.attempt_end)
        table.stage([{"_change_type": "-D", "day": "tue", "id": 1, "n": 1}], owner=owner, attempt=staged, changes=True)

        owner.commit(1, attempts={end.attempt: end.rows for end in ends if end is not None} | {staged.bytes: 1})

        assert owner.begin(1) == "committed"
    assert table.list_partitions() == []
