from __future__ import annotations

import datetime as dt
import json
import threading
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from tests.kit.client_node import ClientNode

from penstock.client.changes.range import EARLIEST, LATEST
from penstock.client.table import Table
from penstock.errors import (
    InvalidError,
    NotLeaderError,
    OffsetOutOfRangeError,
    PartitionNotFoundError,
    TableNotFoundError,
    UnavailableError,
)
from penstock.model.place.bucket import TableBucket

MakeTable = Callable[..., Table]
READER_TTL_MS = 60_000
PARTITIONED = "day STRING, id BIGINT, v STRING, PRIMARY KEY (day, id)"


def rows(batches: Iterable[pa.RecordBatch]) -> list[dict[str, Any]]:
    return [row for batch in batches for row in batch.to_pylist()]


def state(changes: Iterable[dict[str, Any]]) -> dict[int, str]:
    found: dict[int, str] = {}
    for change in changes:
        if change["_change_type"] in ("-D", "-U"):
            assert found.pop(change["id"], None) is not None
        else:
            found[change["id"]] = change["v"]
    return found


@pytest.fixture
def table(make_table: MakeTable) -> Table:
    table = make_table(buckets=2)
    table.upsert([{"id": n, "v": "a"} for n in range(6)])
    table.upsert([{"id": n, "v": "b"} for n in range(3)])
    table.delete([5])
    return table


def test_changes_say_what_they_are(make_table: MakeTable) -> None:
    table = make_table()
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
    assert found[0]["_timestamp"] == dt.datetime(2023, 11, 14, 22, 13, 20, tzinfo=dt.UTC)
    assert {row["_bucket"] for row in found} == {0}
    assert "_partition" not in found[0]


def test_after_images_leave_out_what_was_before(table: Table) -> None:
    found = rows(table.changes(images="after"))

    assert "-U" not in {row["_change_type"] for row in found}
    assert next(row for row in found if row["_change_type"] == "-D")["v"] is None


def test_columns_are_chosen_and_what_a_change_adds_stays(table: Table) -> None:
    stream = table.changes(columns=["v", "_offset"])

    assert stream.schema.names == ["v", "_change_type", "_offset", "_timestamp", "_bucket"]
    assert next(stream).schema == stream.schema


def test_changes_end_where_they_ended_when_opened(table: Table) -> None:
    stream = table.changes()
    table.upsert([{"id": 99, "v": "late"}])

    assert 99 not in state(rows(stream))


def test_latest_gives_nothing_that_was_there(table: Table) -> None:
    assert rows(table.changes(start=LATEST)) == []


def test_a_cut_and_the_changes_up_to_another_give_that_other(table: Table) -> None:
    before = table.cut()
    table.upsert([{"id": n, "v": "c"} for n in range(4, 9)])
    after = table.cut()
    table.upsert([{"id": 77, "v": "later"}])

    base = {row["id"]: row["v"] for row in rows(table.scan(as_of=before))}
    for change in rows(table.changes(start=before, end=after, images="after")):
        if change["_change_type"] == "-D":
            del base[change["id"]]
        else:
            base[change["id"]] = change["v"]

    assert base == {row["id"]: row["v"] for row in rows(table.scan(as_of=after))}


def test_a_moment_starts_at_the_first_change_since(make_table: MakeTable, node: ClientNode) -> None:
    table = make_table()
    first_ms = node.engine.clock.wall_ms()
    for number in (1, 2, 3):
        table.upsert([{"id": number, "v": "x"}])
        node.engine.clock.advance(1_000)

    start = dt.datetime.fromtimestamp(first_ms / 1_000, dt.UTC) + dt.timedelta(microseconds=1)

    assert [row["id"] for row in rows(table.changes(start=start))] == [2, 3]
    assert [row["id"] for row in rows(table.changes(start=start.astimezone().replace(tzinfo=None)))] == [2, 3]


def test_every_position_goes_on_exactly_there(table: Table) -> None:
    whole = rows(table.changes())
    stream = table.changes()
    first: list[dict[str, Any]] = []

    while True:
        rest = rows(table.changes(start=stream.position))
        key = ["_bucket", "_offset", "_change_type"]
        assert sorted(([row[name] for name in key]) for row in first + rest) == sorted(
            [row[name] for name in key] for row in whole
        )
        batch = next(stream, None)
        if batch is None:
            break
        first += batch.to_pylist()


def test_following_waits_for_changes_and_ends_by_timeout(table: Table) -> None:
    stream = table.changes(start=LATEST, follow=True, timeout="50ms")
    assert rows(stream) == []
    late = threading.Thread(target=lambda: table.upsert([{"id": 42, "v": "late"}]))

    following = table.changes(start=LATEST, follow=True)
    late.start()
    assert next(following).column("id").to_pylist() == [42]
    late.join()
    following.close()
    assert next(following, None) is None

    # A stream that ran out of patience goes on when asked again.
    assert [row["id"] for row in rows(stream)] == [42]


def test_close_from_another_thread_ends_a_waiting_stream(table: Table) -> None:
    stream = table.changes(start=LATEST, follow=True)
    seen: list[Any] = []
    reader = threading.Thread(target=lambda: seen.extend(stream), daemon=True)
    reader.start()

    stream.close()
    reader.join(30)

    assert not reader.is_alive()
    assert seen == []


def test_following_up_to_an_end_waits_for_it(table: Table) -> None:
    end = {bucket: at + 1 for bucket, at in table.cut().items()}
    stream = table.changes(start=LATEST, end=end, follow=True)
    writer = threading.Thread(target=lambda: table.upsert([{"id": n, "v": "x"} for n in range(100, 130)]))
    writer.start()

    found = rows(stream)
    writer.join()

    assert len(found) == 2


def test_buckets_born_while_following_are_read_from_their_start(make_table: MakeTable) -> None:
    table = make_table(PARTITIONED, partitioned_by=["day"])
    table.upsert([{"day": "mon", "id": 1, "v": "x"}])
    stream = table.changes(start=LATEST, follow=True, timeout="5s")
    table.upsert([{"day": "tue", "id": n, "v": "x"} for n in range(3)])

    found: list[dict[str, Any]] = []
    while len(found) < 3:
        found += next(stream).to_pylist()

    assert [(row["_partition"], row["id"]) for row in found] == [("day=tue", 0), ("day=tue", 1), ("day=tue", 2)]


def test_following_a_table_without_partitions_yet_waits_for_the_first(make_table: MakeTable) -> None:
    table = make_table(PARTITIONED, partitioned_by=["day"])
    assert rows(table.changes(follow=True, timeout="20ms")) == []
    stream = table.changes(follow=True, timeout="5s")
    table.upsert([{"day": "tue", "id": 1, "v": "x"}])

    assert next(stream).column("id").to_pylist() == [1]


def test_changes_that_went_with_their_partition_end_a_stream_with_an_error(
    make_table: MakeTable, node: ClientNode
) -> None:
    table = make_table(PARTITIONED, partitioned_by=["day"])
    table.upsert([{"day": day, "id": n, "v": "x"} for day in ("mon", "tue") for n in range(3)])
    stream = table.changes()
    table.drop_partition({"day": "mon"})
    # The node protects what a stream has before it for one TTL, and the stream did not ask in it.
    for _ in range(3):
        node.engine.pass_time(READER_TTL_MS + 1)

    with pytest.raises(PartitionNotFoundError):
        rows(stream)


def test_a_bucket_that_is_not_led_just_now_is_not_taken_for_dropped(make_table: MakeTable, node: ClientNode) -> None:
    table = make_table(PARTITIONED, partitioned_by=["day"])
    table.upsert([{"day": "tue", "id": n, "v": "x"} for n in range(3)])
    stream = table.changes(follow=True, timeout="600ms")
    node.rules.answer("changes.log_state", lambda state: replace(state, offsets={}, away=tuple(state.offsets)))

    assert [row["_partition"] for row in rows(stream)] == ["day=tue"] * 3
    assert "tue" in stream.position


def test_a_stream_is_opened_when_all_of_its_buckets_are_led(make_table: MakeTable, node: ClientNode) -> None:
    table = make_table(PARTITIONED, partitioned_by=["day"])
    table.upsert([{"day": "tue", "id": n, "v": "x"} for n in range(3)])
    for bucket in table.cut():
        node.engine.step_down(bucket)

    with pytest.raises(NotLeaderError):
        table.changes()


def test_a_mapping_is_a_cut_in_which_other_buckets_did_not_exist(make_table: MakeTable) -> None:
    table = make_table(PARTITIONED, partitioned_by=["day"])
    table.upsert([{"day": "mon", "id": 1, "v": "x"}])
    monday = table.cut()
    table.upsert([{"day": "tue", "id": 2, "v": "x"}])

    assert [row["id"] for row in rows(table.changes(start=monday))] == [2]
    assert [row["id"] for row in rows(table.changes(end=monday))] == [1]


def test_only_the_buckets_asked_for_are_streamed(table: Table) -> None:
    assert {row["_bucket"] for row in rows(table.changes(buckets=[1]))} == {1}


def test_snapshot_rows_carry_the_cuts_offset_and_changes_go_on_from_it(table: Table) -> None:
    stream = table.snapshot_and_follow(timeout="20ms")
    cut = table.cut()
    table.upsert([{"id": n, "v": "c"} for n in range(4, 9)])
    table.delete([0])

    found = rows(stream)

    snapshot = [row for row in found if row["_offset"] == cut[TableBucket("shop.orders", None, row["_bucket"])]][:5]
    assert {row["_change_type"] for row in found[:5]} == {"+I"}
    assert [row["id"] for row in snapshot] == [row["id"] for row in found[:5]]
    assert len({row["_timestamp"] for row in found[:5]}) == 1
    assert state(found) == {row["id"]: row["v"] for row in rows(table.scan())}


def test_a_snapshot_and_its_changes_go_on_from_every_position(table: Table) -> None:
    stream = table.snapshot_and_follow(timeout="1ms")
    table.upsert([{"id": n, "v": "c"} for n in range(4, 9)])
    table.delete([0])
    expected = {row["id"]: row["v"] for row in rows(table.scan())}
    first: list[dict[str, Any]] = []
    phases = set()

    while True:
        position = stream.position
        phases.add(json.loads(position)["snapshot"] is None)
        for again in (table.snapshot_and_follow(start=position, timeout="1ms"), table.changes(start=position)):
            assert state(first + rows(again)) == expected
        batch = next(stream, None)
        if batch is None:
            break
        first += batch.to_pylist()

    assert phases == {True, False}


def test_closing_inside_the_snapshot_keeps_it_in_the_position(table: Table) -> None:
    with table.snapshot_and_follow() as stream:
        first = next(stream).to_pylist()
    assert next(stream, None) is None

    rest = rows(table.snapshot_and_follow(start=stream.position, timeout="1ms"))

    assert state(first + rest) == {row["id"]: row["v"] for row in rows(table.scan())}


def test_a_log_table_is_followed_from_its_start(make_table: MakeTable) -> None:
    table = make_table("a INT, b STRING")
    table.append([{"a": 1, "b": "x"}])

    assert [row["_change_type"] for row in rows(table.snapshot_and_follow(timeout="1ms"))] == ["+A"]


def test_lost_replies_are_asked_for_again_without_loss(table: Table, node: ClientNode) -> None:
    expected = rows(table.changes())
    stream = table.changes()
    node.rules.lose("changes.pull", UnavailableError("lost"), UnavailableError("lost"))

    assert rows(stream) == expected


def test_starts_that_cannot_be_read_are_refused(table: Table, node: ClientNode) -> None:
    with pytest.raises(OffsetOutOfRangeError, match=r"beyond the bucket's end.* offset=1000 end="):
        table.changes(start={0: 1_000})
    node.engine.forget_before(TableBucket("shop.orders", None, 0), 2)
    with pytest.raises(OffsetOutOfRangeError, match=r"no longer kept; .* start at EARLIEST .* offset=1 base=2"):
        table.changes(start={0: 1})
    assert rows(table.changes(start=EARLIEST, buckets=[0]))[0]["_offset"] == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"start": 5}, "a start is penstock.EARLIEST"),
        ({"start": "soon"}, "a start is penstock.EARLIEST, .* start='soon'"),
        ({"start": "{}"}, "not a position of a change stream"),
        ({"images": "before"}, "images are one of full, after images=before"),
        ({"columns": ["nope"]}, "no such column"),
        ({"timeout": -1}, "a timeout is a duration such as 5s"),
        ({"timeout": "soon"}, "a duration is a number with a unit"),
        ({"end": {7: 1}}, "the table has fewer buckets"),
    ],
)
def test_requests_that_are_wrong_are_refused(table: Table, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidError, match=message):
        table.changes(**options)


def test_a_position_of_another_table_is_refused(table: Table, make_table: MakeTable) -> None:
    other = make_table()
    with pytest.raises(InvalidError, match=r"the position is of another table, .* table_id=2 found=1"):
        other.changes(start=table.changes().position)


def test_a_position_made_with_fewer_columns_is_refused(table: Table) -> None:
    position = table.snapshot_and_follow(columns=["id"]).position
    with pytest.raises(InvalidError, match="made with fewer columns"):
        table.snapshot_and_follow(start=position)
    with pytest.raises(InvalidError, match="starts with a snapshot, or goes on at a position start=latest"):
        table.snapshot_and_follow(start=LATEST)


def test_a_dropped_table_ends_a_stream_with_an_error(table: Table, node: ClientNode) -> None:
    stream = table.changes()
    node.engine.catalog.drop_table("shop.orders")

    with pytest.raises(TableNotFoundError):
        next(stream)


def test_unknown_arguments_are_refused(table: Table) -> None:
    with pytest.raises(TypeError, match="from_offset"):
        table.changes(from_offset=5)  # type: ignore[call-arg]
