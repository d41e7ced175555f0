"""The changelog, as users meet it: every change once, from any position on."""

from __future__ import annotations

import datetime as dt
import threading
from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pytest

import penstock
from penstock.errors import InvalidError, OffsetOutOfRangeError, TableNotFoundError

DDL = "id BIGINT, v STRING, PRIMARY KEY (id)"


@pytest.fixture
def table(connection: penstock.Connection) -> penstock.Table:
    return connection.create_table("shop.t", DDL, buckets=2)


def rows(batches: Iterable[pa.RecordBatch]) -> list[dict[str, Any]]:
    return [row for batch in batches for row in batch.to_pylist()]


def replay(changes: Iterable[dict[str, Any]], state: dict[int, Any] | None = None) -> dict[int, Any]:
    state = dict(state or {})
    for change in changes:
        if change["_change_type"] in ("-U", "-D"):
            assert state.pop(change["id"]) == change["v"]
        else:
            assert change["id"] not in state
            state[change["id"]] = change["v"]
    return state


def contents(table: penstock.Table, **options: Any) -> dict[int, Any]:
    return {row["id"]: row["v"] for row in table.scan(**options).to_arrow().to_pylist()}


def churn(table: penstock.Table, rounds: int = 10) -> None:
    for turn in range(rounds):
        table.upsert([{"id": n, "v": f"{turn}"} for n in range(turn, turn + 20)])
        table.delete([turn, turn + 3])


def test_a_change_tells_type_offset_time_and_bucket(connection: penstock.Connection) -> None:
    table = connection.create_table("shop.one", DDL)
    before = dt.datetime.now(dt.UTC) - dt.timedelta(seconds=1)
    table.upsert([{"id": 1, "v": "a"}])
    table.upsert([{"id": 1, "v": "b"}])
    table.delete([1])

    found = rows(table.changes())

    assert [(row["_change_type"], row["v"], row["_offset"]) for row in found] == [
        ("+I", "a", 0),
        ("-U", "a", 1),
        ("+U", "b", 1),
        ("-D", "b", 2),
    ]
    assert all(before < row["_timestamp"] < before + dt.timedelta(minutes=1) for row in found)
    schema = table.changes().schema
    assert schema.field("_timestamp").type == pa.timestamp("us", tz="UTC")
    assert schema.field("_offset").type == pa.int64()
    assert schema.field("_bucket").type == pa.int32()


def test_after_images_are_half_of_it(table: penstock.Table) -> None:
    table.upsert([{"id": 1, "v": "a"}])
    table.upsert([{"id": 1, "v": "b"}])
    table.delete([1])

    found = rows(table.changes(images="after"))

    assert [(row["_change_type"], row["id"], row["v"]) for row in found] == [
        ("+I", 1, "a"),
        ("+U", 1, "b"),
        ("-D", 1, None),
    ]


def test_replaying_all_changes_gives_the_table(table: penstock.Table) -> None:
    churn(table)

    assert replay(rows(table.changes())) == contents(table)


def test_a_snapshot_and_the_changes_to_another_give_that_other(table: penstock.Table) -> None:
    churn(table, 3)
    first = table.cut()
    churn(table, 3)
    second = table.cut()
    churn(table, 1)

    state = replay(rows(table.changes(start=first, end=second)), contents(table, as_of=first))

    assert state == contents(table, as_of=second)


def test_every_position_goes_on_exactly_there(table: penstock.Table) -> None:
    churn(table, 3)
    stream = table.changes()
    seen: list[dict[str, Any]] = []

    while (batch := next(stream, None)) is not None:
        seen += batch.to_pylist()
        assert replay(seen + rows(table.changes(start=stream.position))) == contents(table)
    assert rows(table.changes(start=stream.position)) == []


def test_offsets_name_what_can_be_read(table: penstock.Table) -> None:
    churn(table, 1)
    offsets = table.offsets()

    assert {bucket: end for bucket, (_, end) in offsets.items()} == table.cut()
    assert {found.base for found in offsets.values()} == {0}
    with pytest.raises(OffsetOutOfRangeError, match="beyond the bucket's end"):
        table.changes(start={0: 10_000})


def test_a_stream_starts_at_a_moment(table: penstock.Table) -> None:
    churn(table, 1)
    later = dt.datetime.now(dt.UTC) + dt.timedelta(hours=1)

    assert len(rows(table.changes(start=dt.datetime(2000, 1, 1, tzinfo=dt.UTC)))) == len(rows(table.changes()))
    assert rows(table.changes(start=later)) == []


def test_followers_see_changes_as_they_come(table: penstock.Table) -> None:
    stream = table.changes(start=penstock.LATEST, follow=True)
    seen: list[dict[str, Any]] = []

    def follow() -> None:
        for batch in stream:
            seen.extend(batch.to_pylist())
            if len(seen) >= 50:
                stream.close()

    follower = threading.Thread(target=follow)
    follower.start()
    for n in range(50):
        table.upsert([{"id": n, "v": "x"}])
    follower.join(60)

    assert not follower.is_alive()
    assert sorted(row["id"] for row in seen) == list(range(50))
    assert rows(table.changes(start=stream.position)) == []


def test_followers_end_when_nothing_comes(table: penstock.Table) -> None:
    churn(table, 1)
    assert rows(table.changes(start=penstock.LATEST, follow=True, timeout="100ms")) == []
    assert replay(rows(table.changes(follow=True, timeout=0.1))) == contents(table)


def test_a_snapshot_followed_under_fire_has_no_gap_and_no_double(connection: penstock.Connection) -> None:
    table = connection.create_table("shop.fire", DDL, buckets=4)
    table.upsert([{"id": n, "v": "start"} for n in range(2_000)])
    writing = threading.Thread(target=churn, args=(table, 30))

    writing.start()
    stream = table.snapshot_and_follow(timeout="2s")
    state: dict[int, Any] = {}
    for batch in stream:
        state = replay(batch.to_pylist(), state)
        if not writing.is_alive() and state == contents(table):
            stream.close()
    writing.join()

    assert state == contents(table)


def test_a_snapshot_stream_resumes_in_both_phases(table: penstock.Table) -> None:
    table.upsert([{"id": n, "v": "start"} for n in range(100)])
    stream = table.snapshot_and_follow(timeout="50ms")
    churn(table, 3)
    seen: list[dict[str, Any]] = []
    resumed = 0

    while (batch := next(stream, None)) is not None:
        seen += batch.to_pylist()
        assert replay(seen + rows(table.snapshot_and_follow(start=stream.position, follow=False))) == contents(table)
        resumed += 1

    assert resumed >= 3
    cut = {row["_offset"] for row in seen[:100]}
    assert len(cut) <= 2
    assert {row["_change_type"] for row in seen[:100]} == {"+I"}


def test_a_position_inside_a_snapshot_goes_on_with_the_buckets_of_that_snapshot_only(table: penstock.Table) -> None:
    table.upsert([{"id": n, "v": "start"} for n in range(100)])
    for asked in (None, [0], [1]):
        stream = table.snapshot_and_follow(follow=False, buckets=asked)
        position = stream.position
        stream.close()

        rest = rows(table.snapshot_and_follow(start=position, follow=False, buckets=asked))
        assert {row["_bucket"] for row in rest} == set(asked or [0, 1])
        # Else the rows of a bucket came that nobody had asked for.
        with pytest.raises(InvalidError, match="inside a snapshot of more buckets"):
            table.changes(start=position, buckets=[0] if asked == [1] else [1])


def test_partitions_born_while_following_are_read_whole(connection: penstock.Connection) -> None:
    table = connection.create_table("shop.p", "p STRING, id INT, PRIMARY KEY (p, id)", partitioned_by=["p"])
    table.upsert([{"p": "a", "id": 1}])
    stream = table.changes(start=penstock.LATEST, follow=True, timeout="10s")
    table.upsert([{"p": "b", "id": 2}])

    (row,) = next(stream).to_pylist()

    assert (row["_partition"], row["id"], row["_offset"]) == ("p=b", 2, 0)
    stream.close()


def test_log_tables_stream_what_is_appended(connection: penstock.Connection) -> None:
    log = connection.create_table("shop.log", "a INT")
    log.append([{"a": 1}, {"a": 2}])

    found = rows(log.changes())

    assert [(row["a"], row["_change_type"], row["_offset"]) for row in found] == [(1, "+A", 0), (2, "+A", 1)]
    assert len(rows(log.snapshot_and_follow(timeout="10ms"))) == 2


def test_columns_added_since_show_only_to_streams_opened_since(table: penstock.Table) -> None:
    table.upsert([{"id": 1, "v": "a"}])
    before = table.changes(follow=True, timeout="100ms")
    grown = table.add_column("more", pa.int32())
    grown.upsert([{"id": 1, "v": "b", "more": 5}])

    assert "more" not in before.schema.names
    assert [row["v"] for row in rows(before)] == ["a", "a", "b"]
    assert [row["more"] for row in rows(table.changes())] == [None, None, 5]
    assert [row["v"] for row in rows(table.changes(columns=["v"]))] == ["a", "a", "b"]


def test_requests_that_are_wrong_are_refused(connection: penstock.Connection, table: penstock.Table) -> None:
    other = connection.create_table("shop.other", DDL)
    with pytest.raises(InvalidError, match="the position is of another table"):
        other.changes(start=table.changes().position)
    with pytest.raises(InvalidError, match="images are one of full, after"):
        table.changes(images="both")  # type: ignore[arg-type]
    stream = table.changes(follow=True, timeout="5s")
    connection.drop_table("shop.t")
    with pytest.raises(TableNotFoundError):
        list(stream)


def test_threads_that_share_a_stream_share_out_its_changes(connection: penstock.Connection) -> None:
    table = connection.create_table("shop.shared", "id INT, PRIMARY KEY (id)", buckets=2)
    for first in range(0, 500, 50):
        table.upsert({"id": list(range(first, first + 50))})
    received: list[list[int]] = [[] for _ in range(4)]
    together = threading.Barrier(len(received))

    with table.changes() as stream:

        def read(mine: list[int]) -> None:
            together.wait()
            for batch in stream:
                mine.extend(batch["id"].to_pylist())

        threads = [threading.Thread(target=read, args=(mine,), daemon=True) for mine in received]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)

    assert sorted(id for mine in received for id in mine) == list(range(500))
