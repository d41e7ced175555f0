"""Staged rows: durable, invisible, then there all at once and once only."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.kit.owner_rig import MetadataCrashError, OwnerRig, attempt_id

from penstock.engine.commit.group import QueuedWrite, WriteGroup
from penstock.errors import (
    ArithmeticOverflowError,
    ConflictError,
    CorruptionError,
    FencedError,
    InvalidError,
    LockedError,
    PenstockError,
    SchemaMismatchError,
    UnsupportedError,
)
from penstock.model.node.calls import Operation
from penstock.testing.fault_plan import SimulatedCrash

FIRST, SECOND = attempt_id(1), attempt_id(2)
SUMS = "k BIGINT, a BIGINT SUM, PRIMARY KEY (k)"


@pytest.fixture
def rig() -> Iterator[OwnerRig]:
    rig = OwnerRig(SUMS, merge_engine="aggregate", buckets=3)
    yield rig
    rig.close()


@pytest.fixture
def log_rig() -> Iterator[OwnerRig]:
    rig = OwnerRig("k BIGINT, a BIGINT", buckets=3)
    yield rig
    rig.close()


def rows(*keys: int) -> list[dict[str, Any]]:
    return [{"k": k, "a": 1} for k in keys]


def staged_files(rig: OwnerRig) -> list[str]:
    return [path for path in rig.disk.paths() if "/staged/" in path]


def test_staged_rows_appear_at_commit(rig: OwnerRig) -> None:
    owner = rig.acquire("job")
    task = rig.begin(owner, 1)
    rig.stage(rows(1, 2), task, FIRST)
    rig.stage(rows(3), task, FIRST)
    assert rig.rows() == []

    rig.owners.commit(owner, 1, {FIRST: 3})
    rig.owners.commit(owner, 1, {FIRST: 3})

    assert rig.rows() == rows(1, 2, 3)
    assert staged_files(rig) == []


def test_log_tables_take_staged_rows_and_refuse_to_undo(log_rig: OwnerRig) -> None:
    owner = log_rig.acquire("job")
    task = log_rig.begin(owner, 1)

    with pytest.raises(UnsupportedError, match="stage them"):
        log_rig.write(rows(1), owner=task)
    log_rig.stage(rows(1, 2), task, FIRST)
    log_rig.owners.commit(owner, 1, {FIRST: 2})
    log_rig.write(rows(9), owner=task.at(fence=task.fence, epoch=-1))

    assert log_rig.rows() == rows(1, 2, 9)


def test_only_the_accepted_attempts_are_applied(rig: OwnerRig) -> None:
    owner = rig.acquire("job")
    task = rig.begin(owner, 1)
    rig.stage(rows(1, 2), task, FIRST)
    rig.stage(rows(1, 2), task, SECOND)

    rig.owners.commit(owner, 1, {SECOND: 2})

    assert rig.rows() == rows(1, 2)
    assert staged_files(rig) == []


def test_undone_and_older_epochs_leave_nothing_staged(rig: OwnerRig) -> None:
    owner = rig.acquire("job")
    rig.stage(rows(1), rig.begin(owner, 1), FIRST)
    task = rig.begin(owner, 2)
    assert staged_files(rig) == []
    rig.stage(rows(2), task, FIRST)

    rig.owners.undo(owner)

    assert staged_files(rig) == []
    assert rig.rows() == []


def test_staged_rows_must_be_named_and_whole(rig: OwnerRig) -> None:
    owner = rig.acquire("job")
    task = rig.begin(owner, 1)
    rig.stage(rows(1, 2), task, FIRST)

    with pytest.raises(ConflictError, match="name the attempts"):
        rig.owners.commit(owner, 1, None)
    with pytest.raises(ConflictError, match="rows=2 named=3"):
        rig.owners.commit(owner, 1, {FIRST: 3})
    with pytest.raises(ConflictError, match="missing"):
        rig.owners.commit(owner, 1, {FIRST: None, SECOND: None})
    assert rig.rows() == []

    rig.owners.commit(owner, 1, {FIRST: None})
    assert rig.rows() == rows(1, 2)


def test_damaged_staged_rows_fail_the_commit_and_apply_nothing(rig: OwnerRig) -> None:
    owner = rig.acquire("job")
    task = rig.begin(owner, 1)
    rig.stage(rows(1), task, FIRST)
    rig.stage(rows(2), task, FIRST)
    rig.disk.flip_bit(staged_files(rig)[1], 60, 1)

    with pytest.raises(CorruptionError):
        rig.owners.commit(owner, 1, {FIRST: 2})

    assert rig.rows() == []
    assert rig.owners.infos()[0].committed_epoch == -1
    rig.owners.begin(owner, 1)


def test_rows_that_cannot_be_applied_fail_the_commit_and_apply_nothing(rig: OwnerRig) -> None:
    rig.write([{"k": 1, "a": (1 << 63) - 2}])
    owner = rig.acquire("job")
    task = rig.begin(owner, 1)
    rig.stage(rows(1, 2), task, FIRST)
    rig.stage(rows(1, 2), task, FIRST)

    with pytest.raises(ArithmeticOverflowError):
        rig.owners.commit(owner, 1, {FIRST: 4})

    assert rig.rows() == [{"k": 1, "a": (1 << 63) - 2}]
    assert rig.owners.begin(owner, 1).status == "new"


def test_column_added_after_staging_keeps_its_values() -> None:
    rig = OwnerRig("k BIGINT, a BIGINT, PRIMARY KEY (k)")
    owner = rig.acquire("job")
    rig.stage(rows(1), rig.begin(owner, 1), FIRST)
    rig.add_column("y")
    rig.write([{"k": 1, "a": 0, "y": 7}])

    rig.owners.commit(owner, 1, {FIRST: 1})

    assert rig.rows() == [{"k": 1, "a": 1, "y": 7}]
    rig.close()


def test_staged_rows_survive_a_power_loss(rig: OwnerRig) -> None:
    owner = rig.acquire("job")
    task = rig.begin(owner, 1)
    rig.stage(rows(1, 2), task, FIRST)

    rig.crash(3, power_loss=True)

    rig.owners.commit(owner, 1, {FIRST: 2})
    assert rig.rows() == rows(1, 2)


def test_retried_stage_counts_once(rig: OwnerRig) -> None:
    owner = rig.acquire("job")
    task = rig.begin(owner, 1)
    for _ in range(2):
        rig.stage(rows(1), task, FIRST, writer_id=attempt_id(7), sequence=0)

    rig.owners.commit(owner, 1, {FIRST: 1})

    assert rig.rows() == rows(1)


def test_fenced_token_stages_nothing(rig: OwnerRig) -> None:
    owner = rig.acquire("job")
    old = rig.begin(owner, 1)
    rig.begin(owner, 1)

    with pytest.raises(FencedError):
        rig.stage(rows(1), old, FIRST)
    with pytest.raises(ConflictError, match="no epoch open"):
        rig.stage(rows(1), owner, FIRST)
    rig.owners.leave(owner)
    with pytest.raises(InvalidError, match="belong to an epoch"):
        rig.stage(rows(1), owner, FIRST)
    assert staged_files(rig) == []


def test_staging_respects_locks() -> None:
    rig = OwnerRig("k BIGINT, a BIGINT SUM, b BIGINT SUM, PRIMARY KEY (k)", merge_engine="aggregate")
    rig.acquire("other", "b")
    task = rig.begin(rig.acquire("job", "a"), 1)

    with pytest.raises(LockedError):
        rig.stage([{"k": 1, "a": 1, "b": 1}], task, FIRST)
    rig.close()


def test_deletes_may_be_staged() -> None:
    rig = OwnerRig("k BIGINT, a BIGINT, PRIMARY KEY (k)")
    rig.write(rows(1, 2))
    owner = rig.acquire("job")
    task = rig.begin(owner, 1)
    rig.stage([{"k": 1}], task, FIRST, operation=Operation.DELETE)

    rig.owners.commit(owner, 1, {FIRST: 1})

    assert rig.rows() == rows(2)
    rig.close()


def test_staged_calls_of_one_key_are_applied_in_their_order() -> None:
    rig = OwnerRig("k BIGINT, a BIGINT, PRIMARY KEY (k)", buckets=3)
    rig.write(rows(1, 2))
    owner = rig.acquire("job")
    task = rig.begin(owner, 1)
    rig.stage([{"k": k, "a": 10} for k in range(8)], task, FIRST)
    rig.stage([{"k": k, "a": 20} for k in range(4)], task, SECOND)
    rig.stage([{"k": 0}, {"k": 1}, {"k": 7}], task, FIRST, operation=Operation.DELETE)
    rig.stage([{"k": 1, "a": 30}, {"k": 2, "a": 30}], task, SECOND)
    rig.stage([{"k": 2, "a": 40}], task, FIRST)

    rig.owners.commit(owner, 1, {FIRST: 12, SECOND: 6})

    values = {row["k"]: row["a"] for row in rig.rows()}
    assert values == {1: 30, 2: 40, 3: 20, 4: 10, 5: 10, 6: 10}
    rig.crash(0, power_loss=True)
    assert {row["k"]: row["a"] for row in rig.rows()} == values
    rig.close()


def test_commit_that_replaces_takes_all_rows_away_that_are_there_at_that_moment() -> None:
    rig = OwnerRig("k BIGINT, a BIGINT, PRIMARY KEY (k)", buckets=3)
    rig.write(rows(1, 2, 3))
    owner = rig.acquire("job")
    task = rig.begin(owner, 1)
    rig.stage([{"k": 3, "a": 7}, {"k": 9, "a": 7}], task, FIRST)
    rig.write(rows(3, 4, 5))

    with pytest.raises(ConflictError, match="rows=2 named=3"):
        rig.owners.commit(owner, 1, {FIRST: 3}, replaces=True)
    rig.write(rows(6))
    rig.owners.commit(owner, 1, {FIRST: 2}, replaces=True)
    rig.owners.commit(owner, 1, {FIRST: 2}, replaces=True)

    assert rig.rows() == [{"k": 3, "a": 7}, {"k": 9, "a": 7}]
    assert staged_files(rig) == []
    rig.write(rows(1))
    rig.begin(owner, 2)
    rig.owners.commit(owner, 2, None, replaces=True)
    assert rig.rows() == []
    rig.close()


def test_rows_that_others_hold_or_that_may_not_be_deleted_are_not_replaced(log_rig: OwnerRig) -> None:
    log_owner = log_rig.acquire("job")
    log_rig.begin(log_owner, 1)
    rig = OwnerRig(
        "k BIGINT, a BIGINT SUM, b BIGINT SUM, PRIMARY KEY (k)",
        merge_engine="aggregate",
        properties={"delete.behavior": "allow"},
    )
    rig.write([{"k": 1, "a": 1, "b": 1}])
    owner = rig.acquire("job", "a")
    rig.begin(owner, 1)
    rig.acquire("other", "b")

    with pytest.raises(UnsupportedError, match="allows no deletes"):
        log_rig.owners.commit(log_owner, 1, None, replaces=True)
    with pytest.raises(LockedError):
        rig.owners.commit(owner, 1, None, replaces=True)

    assert rig.rows() == [{"k": 1, "a": 1, "b": 1}]
    rig.close()


@pytest.mark.parametrize("power_loss", [False, True])
@pytest.mark.parametrize("operation", range(14))
def test_replacement_that_was_cut_short_is_all_or_nothing(power_loss: bool, operation: int) -> None:
    rig = OwnerRig("k BIGINT, a BIGINT, PRIMARY KEY (k)", buckets=3)
    rig.write(rows(*range(10)))
    owner = rig.acquire("job")
    task = rig.begin(owner, 1)
    rig.stage(rows(*range(5, 20)), task, FIRST)
    rig.disk.crash_at(rig.disk.operations + operation, done=0.5)

    try:
        rig.owners.commit(owner, 1, {FIRST: 15}, replaces=True)
    except (SimulatedCrash, OSError, PenstockError) as error:
        print(f"cut short by {error!r}")
    rig.crash(operation, power_loss=power_loss)

    committed = rig.owners.infos()[0].committed_epoch == 1
    assert rig.rows() == (rows(*range(5, 20)) if committed else rows(*range(10)))
    rig.owners.commit(owner, 1, {FIRST: 15}, replaces=True)
    assert rig.rows() == rows(*range(5, 20))
    rig.close()


@pytest.mark.parametrize("table", ["sums", "log", "rows"])
@pytest.mark.parametrize("power_loss", [False, True])
@pytest.mark.parametrize("operation", range(10))
@pytest.mark.parametrize("together_bytes", [64 << 20, 1_500])
def test_commit_that_was_cut_short_is_all_or_nothing(
    table: str, power_loss: bool, operation: int, together_bytes: int
) -> None:
    options = {"merge_engine": "aggregate"} if table == "sums" else {}
    columns = {"sums": SUMS, "log": "k BIGINT, a BIGINT", "rows": "k BIGINT, a BIGINT, PRIMARY KEY (k)"}
    rig = OwnerRig(columns[table], buckets=3, together_bytes_max=together_bytes, **options)
    owner = rig.acquire("job")
    task = rig.begin(owner, 1)
    rig.stage(rows(*range(10)), task, FIRST)
    rig.stage(rows(*range(10, 20)), task, FIRST)
    rig.stage(rows(*range(100, 110)), task, SECOND)
    rig.disk.crash_at(rig.disk.operations + operation, done=0.5)

    try:
        rig.owners.commit(owner, 1, {FIRST: 20})
    except (SimulatedCrash, OSError, PenstockError) as error:
        print(f"cut short by {error!r}")
    rig.crash(operation, power_loss=power_loss)

    committed = rig.owners.infos()[0].committed_epoch == 1
    assert rig.rows() == (rows(*range(20)) if committed else [])
    rig.owners.commit(owner, 1, {FIRST: 20})
    assert rig.rows() == rows(*range(20))
    rig.crash(operation, power_loss=power_loss)
    assert rig.rows() == rows(*range(20))
    rig.close()


@pytest.mark.parametrize("engine", ["aggregate", "last_row"])
def test_epoch_larger_than_memory_may_hold_is_applied_some_buckets_at_a_time(
    engine: str,
) -> None:
    columns = SUMS if engine == "aggregate" else "k BIGINT, a BIGINT, PRIMARY KEY (k)"
    rig = OwnerRig(columns, merge_engine=engine, buckets=16, together_bytes_max=4_000)
    owner = rig.acquire("job")
    task = rig.begin(owner, 1)
    for start in range(0, 2_000, 500):
        rig.stage(rows(*range(start, start + 500)), task, FIRST)

    rig.owners.commit(owner, 1, {FIRST: 2_000})

    assert rig.rows() == rows(*range(2_000))
    assert staged_files(rig) == []
    rig.close()


def test_overflow_in_a_large_epoch_is_found_before_it_is_decided() -> None:
    rig = OwnerRig(SUMS, merge_engine="aggregate", buckets=3, together_bytes_max=1_500)
    rig.write([{"k": 7, "a": (1 << 63) - 1}])
    owner = rig.acquire("job")
    task = rig.begin(owner, 1)
    rig.stage(rows(*range(20)), task, FIRST)
    rig.stage(rows(*range(20)), task, FIRST)

    with pytest.raises(ArithmeticOverflowError, match=r"key=\{'k': 7\}"):
        rig.owners.commit(owner, 1, {FIRST: 40})

    assert rig.rows() == [{"k": 7, "a": (1 << 63) - 1}]
    assert rig.owners.infos()[0].committed_epoch == -1
    rig.close()


def test_row_without_a_required_value_in_a_large_epoch_is_found_before_it_is_decided() -> None:
    rig = OwnerRig("k BIGINT, a BIGINT, c BIGINT NOT NULL, PRIMARY KEY (k)", together_bytes_max=1_500)
    rig.write([{"k": k, "a": 0, "c": 0} for k in range(19)])
    owner = rig.acquire("job")
    task = rig.begin(owner, 1)
    rig.stage(rows(*range(20)), task, FIRST, columns=["a"])
    rig.stage(rows(*range(20)), task, FIRST, columns=["a"])

    with pytest.raises(SchemaMismatchError, match=r"declared not null.* key=\{'k': 19\}"):
        rig.owners.commit(owner, 1, {FIRST: 40})

    assert len(rig.rows()) == 19
    assert rig.owners.infos()[0].committed_epoch == -1
    rig.close()


def test_whole_rows_of_a_large_epoch_are_planned_once_also_where_a_column_is_required(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rig = OwnerRig("k BIGINT, a BIGINT, c BIGINT NOT NULL, PRIMARY KEY (k)", together_bytes_max=1_500)
    owner = rig.acquire("job")
    task = rig.begin(owner, 1)
    whole = [row | {"c": 0} for row in rows(*range(20))]
    rig.stage(whole, task, FIRST)
    rig.stage(whole, task, FIRST)
    plans: list[int] = []
    plan = rig.table.committer.plan

    def counted(writes: list[QueuedWrite]) -> WriteGroup:
        plans.append(len(writes))
        return plan(writes)

    monkeypatch.setattr(rig.table.committer, "plan", counted)

    rig.owners.commit(owner, 1, {FIRST: 40})

    assert rig.rows() == whole
    assert plans == [2]
    rig.close()


@pytest.mark.parametrize("commits", [0, 1])
@pytest.mark.parametrize("applies", [False, True])
def test_decision_is_one_metadata_write(rig: OwnerRig, commits: int, applies: bool) -> None:
    owner = rig.acquire("job")
    task = rig.begin(owner, 1)
    rig.stage(rows(1, 2, 3), task, FIRST)
    rig.metadata.crash_in(commits, applies=applies)

    with pytest.raises(MetadataCrashError):
        rig.owners.commit(owner, 1, {FIRST: 3})
    rig.crash(0, power_loss=True)

    decided = commits > 0 or applies
    assert rig.rows() == (rows(1, 2, 3) if decided else [])
    assert rig.owners.infos()[0].committed_epoch == (1 if decided else -1)
