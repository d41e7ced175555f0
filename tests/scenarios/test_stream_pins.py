"""What a change stream holds, and for how long: nothing once it ended, however that was."""

from __future__ import annotations

import gc
from collections.abc import Callable

import pytest

import penstock
from penstock.client.pages.change_pull import ChangePull
from penstock.errors import ClosedError
from penstock.model.node.calls import ChangePage


@pytest.fixture(params=["id BIGINT, v STRING, PRIMARY KEY (id)", "id BIGINT, v STRING"], ids=["keyed", "log"])
def table(request: pytest.FixtureRequest, connection: penstock.Connection) -> penstock.Table:
    made = connection.create_table("shop.t", request.param, buckets=2)
    put(made, range(600))
    return made


def put(table: penstock.Table, ids: range) -> None:
    rows = [{"id": number, "v": "x" * 20_000} for number in ids]
    if table.info.primary_key:
        table.upsert(rows)
    else:
        table.append(rows)


def pins(table: penstock.Table) -> set[str]:
    return {name for bucket in table.stats().buckets for name in bucket.pins if name != "grace"}


def drain(table: penstock.Table) -> None:
    assert sum(batch.num_rows for batch in table.changes()) == 600


def drain_a_follower(table: penstock.Table) -> None:
    with table.changes(follow=True, timeout="20ms") as stream:
        assert sum(batch.num_rows for batch in stream) == 600
        assert not pins(table)


def drain_a_snapshot(table: penstock.Table) -> None:
    stream = table.snapshot_and_follow(timeout="20ms")
    assert sum(batch.num_rows for batch in stream) == 600
    assert not pins(table)


def close_early(table: penstock.Table) -> None:
    stream = table.changes()
    next(stream)
    assert pins(table)
    stream.close()


def forget(table: penstock.Table) -> None:
    stream = table.snapshot_and_follow()
    next(stream)
    assert pins(table)
    del stream
    gc.collect()


def leave_a_loop(table: penstock.Table) -> None:
    for _ in table.changes():
        break
    gc.collect()


@pytest.mark.parametrize("end", [drain, drain_a_follower, drain_a_snapshot, close_early, forget, leave_a_loop])
def test_a_stream_that_ended_holds_nothing(table: penstock.Table, end: Callable[[penstock.Table], None]) -> None:
    end(table)

    assert not pins(table)


def test_a_stream_that_failed_holds_nothing(table: penstock.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = table.changes()
    next(stream)

    def fail(*_: object, **__: object) -> list[ChangePage]:
        raise ClosedError("as it would be")

    with monkeypatch.context() as broken:
        broken.setattr(ChangePull, "pull", fail)
        with pytest.raises(ClosedError):
            list(stream)

    assert not pins(table)


@pytest.mark.parametrize("filter", [None, "id >= 0"])
def test_a_limit_over_the_log_moves_about_what_it_needs(
    table: penstock.Table, filter: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    moved: list[int] = []
    shown = ChangePull.shown

    def counted(pull: ChangePull, page: ChangePage) -> object:
        moved.append(page.batch.num_rows)
        return shown(pull, page)

    monkeypatch.setattr(ChangePull, "shown", counted)

    assert table.scan(source="log", limit=5, filter=filter).to_arrow().num_rows == 5
    assert sum(moved) <= 20
    assert table.scan(source="log", limit=599, filter=filter).to_arrow().num_rows == 599
    assert table.scan(source="log", limit=5, filter="id = 599").to_arrow()["id"].to_pylist() == [599]
