"""Change streams and partitions that go: nothing ends early, and nothing unread goes in silence."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import penstock
from penstock.client.changes import stream as change_stream
from penstock.client.scan.request import ScanSourceLike
from penstock.errors import InvalidError, OffsetOutOfRangeError, PartitionNotFoundError
from penstock.testing.server import ServerProcess

KEYED = "id BIGINT, day STRING, v STRING, PRIMARY KEY (id, day)"
LOG = "id BIGINT, day STRING, v STRING"
MONDAY = {"day": "mon"}
ROWS = 600
LARGE = "x" * 20_000
"""So large that the rows of a partition are several pages."""


@pytest.fixture(params=[KEYED, LOG], ids=["keyed", "log"])
def table(request: pytest.FixtureRequest, connection: penstock.Connection) -> penstock.Table:
    return connection.create_table("shop.t", request.param, buckets=2, partitioned_by=["day"])


def put(table: penstock.Table, ids: Iterable[int], day: str = "mon", v: str = "a") -> None:
    rows = [{"id": number, "day": day, "v": v} for number in ids]
    if table.info.primary_key:
        table.upsert(rows)
    else:
        table.append(rows)


def found(batches: Iterable[pa.RecordBatch]) -> list[tuple[str, int]]:
    return sorted((row["day"], row["id"]) for batch in batches for row in batch.select(["day", "id"]).to_pylist())


def whole(*parts: tuple[str, Iterable[int]]) -> list[tuple[str, int]]:
    return sorted((day, number) for day, ids in parts for number in ids)


def read(stream: penstock.ChangeStream, count: int) -> list[tuple[str, int]]:
    """Return the next rows of a stream that follows, once there are as many."""
    seen: list[tuple[str, int]] = []
    while len(seen) < count:
        seen += found([next(stream)])
    return seen


def half_read(table: penstock.Table) -> tuple[penstock.ChangeStream, list[tuple[str, int]]]:
    """Return a stream over two large partitions of which one page was read."""
    put(table, range(ROWS), "mon", LARGE)
    put(table, range(5), "tue")
    stream = table.changes()
    return stream, found([next(stream)])


@pytest.mark.parametrize("comes_back", [False, True])
def test_an_open_stream_reads_a_dropped_partition_to_its_end(table: penstock.Table, comes_back: bool) -> None:
    stream, seen = half_read(table)
    table.drop_partition(MONDAY)
    if comes_back:
        put(table, range(1000, 1010))

    assert sorted(seen + found(stream)) == whole(("mon", range(ROWS)), ("tue", range(5)))


def test_a_dropped_partition_is_gone_for_everyone_else_while_a_stream_reads_it(table: penstock.Table) -> None:
    stream, _ = half_read(table)
    table.drop_partition(MONDAY)

    assert found(table.changes()) == found(table.scan()) == whole(("tue", range(5)))
    assert {bucket.partition for bucket in table.offsets()} == {"day=tue"}
    stream.close()


def test_a_stream_that_follows_reads_a_dropped_partition_and_goes_on(table: penstock.Table) -> None:
    put(table, range(ROWS), "mon", LARGE)
    with table.changes(follow=True, timeout="20s") as stream:
        seen = found([next(stream)])
        table.drop_partition(MONDAY)
        put(table, range(1000, 1010))
        put(table, range(5), "tue")
        seen += read(stream, ROWS + 15 - len(seen))

    assert sorted(seen) == whole(("mon", [*range(ROWS), *range(1000, 1010)]), ("tue", range(5)))


def test_a_snapshot_and_what_follows_it_have_every_row_of_a_partition_dropped_meanwhile(
    connection: penstock.Connection,
) -> None:
    table = connection.create_table("shop.t", KEYED, buckets=2, partitioned_by=["day"])
    put(table, range(ROWS), "mon", LARGE)
    with table.snapshot_and_follow(follow=True, timeout="20s") as stream:
        put(table, range(ROWS, ROWS + 100), "mon", LARGE)
        seen = found([next(stream)])
        table.drop_partition(MONDAY)
        put(table, range(5), "tue")
        seen += read(stream, ROWS + 105 - len(seen))

    assert sorted(seen) == whole(("mon", range(ROWS + 100)), ("tue", range(5)))


def test_a_partition_born_and_dropped_between_two_pulls_is_read(table: penstock.Table) -> None:
    put(table, range(5), "tue")
    with table.changes(follow=True, timeout="20s") as stream:
        assert len(read(stream, 5)) == 5
        for turn in range(3):
            put(table, range(turn * 10, turn * 10 + 10))
            table.drop_partition(MONDAY)
        put(table, range(5, 10), "tue")
        seen = read(stream, 35)

    assert sorted(seen) == whole(("mon", range(30)), ("tue", range(5, 10)))


def test_a_partition_dropped_before_the_one_of_its_name_that_went_before_was_read_is_read(
    table: penstock.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The stream hears of the second Monday while it still has pages of the first to read.
    monkeypatch.setattr(change_stream, "WAIT_MS", 1)
    put(table, range(ROWS), "mon", LARGE)
    with table.changes(follow=True, timeout="20s") as stream:
        seen = read(stream, 1)
        table.drop_partition(MONDAY)
        put(table, range(1000, 1010))
        births = json.loads(stream.position)["births"]
        while json.loads(stream.position)["births"] == births:
            seen += read(stream, 1)
        assert len(seen) < ROWS
        table.drop_partition(MONDAY)
        put(table, range(2000, 2010))
        seen += read(stream, ROWS + 20 - len(seen))

    assert sorted(seen) == whole(("mon", [*range(ROWS), *range(1000, 1010), *range(2000, 2010)]))


def test_a_position_at_the_end_of_a_dropped_partition_goes_on(table: penstock.Table) -> None:
    put(table, range(20))
    put(table, range(5), "tue")
    stream = table.changes()
    assert len(found(stream)) == 25
    cut = table.cut()
    table.drop_partition(MONDAY)
    put(table, range(5, 7), "tue")

    for start in (stream.position, cut, dict(cut)):
        assert found(table.changes(start=start)) == whole(("tue", range(5, 7)))
    put(table, range(3))
    for start in (stream.position, cut, dict(cut)):
        assert found(table.changes(start=start)) == whole(("mon", range(3)), ("tue", range(5, 7)))


@pytest.mark.parametrize("comes_back", [False, True])
def test_a_position_below_the_end_of_a_dropped_partition_is_refused(table: penstock.Table, comes_back: bool) -> None:
    put(table, range(10))
    with table.changes() as stream:
        found(stream)
        position, cut = stream.position, table.cut()
    put(table, range(10, 20))
    table.drop_partition(MONDAY)
    if comes_back:
        put(table, range(5))

    for start in (position, cut, dict(cut)):
        with pytest.raises(PartitionNotFoundError, match="partition=day=mon") as raised:
            found(table.changes(start=start))
        facts = raised.value.facts
        assert facts["offset"] == cut[facts["bucket"]] < facts["end"]


def test_a_position_that_never_saw_a_partition_with_rows_is_refused_once_that_is_dropped(table: penstock.Table) -> None:
    put(table, range(5), "tue")
    with table.changes() as stream:
        found(stream)
        position = stream.position
    table.create_partition({"day": "empty"})
    table.drop_partition({"day": "empty"})
    assert found(table.changes(start=position)) == []
    put(table, range(10))
    table.drop_partition(MONDAY)

    with pytest.raises(PartitionNotFoundError, match="partition=day=mon"):
        table.changes(start=position)


def test_a_position_does_not_grow_with_the_partitions_that_were_read_and_dropped(table: penstock.Table) -> None:
    put(table, range(5), "tue")
    with table.changes(follow=True, timeout="20s") as stream:
        for turn in range(4):
            put(table, range(10), f"day-{turn}")
            put(table, [turn + 5], "tue")
            read(stream, 11 if turn else 16)
            table.drop_partition({"day": f"day-{turn}"})
        put(table, [100], "tue")
        while "day-3" in stream.position:
            put(table, [101], "tue")
            next(stream)
        position = stream.position

    assert "day-" not in position
    assert {day for day, _ in found(table.changes(start=position))} <= {"tue"}


def test_what_a_position_needs_to_know_survives_a_restart(tmp_path: Path) -> None:
    for ddl in (KEYED, LOG):
        with penstock.connect(tmp_path / "data") as connection:
            table = connection.create_table("t", ddl, buckets=2, partitioned_by=["day"])
            put(table, range(20))
            with table.changes() as stream:
                before = stream.position
                found(stream)
            table.drop_partition(MONDAY)
        with penstock.connect(tmp_path / "data") as connection:
            table = connection.table("t")
            assert found(table.changes(start=stream.position)) == []
            with pytest.raises(PartitionNotFoundError, match="end="):
                table.changes(start=before)
            connection.drop_table("t")


def test_a_stream_reads_a_dropped_partition_on_after_a_restart_of_the_server(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data") as server, penstock.connect(server.url) as connection:
        table = connection.create_table("t", KEYED, buckets=2, partitioned_by=["day"])
        stream, seen = half_read(table)
        table.drop_partition(MONDAY)
        server.restart()

        assert sorted(seen + found(stream)) == whole(("mon", range(ROWS)), ("tue", range(5)))


def test_an_unknown_partition_is_no_start(table: penstock.Table) -> None:
    put(table, range(5))
    start: dict[Any, int] = {penstock.TableBucket("shop.t", "day=never", 0): 0}

    with pytest.raises(PartitionNotFoundError, match="day=never"):
        table.changes(start=start)


@pytest.mark.parametrize("taken_by", ["cut", "scan"])
def test_a_partition_born_after_a_cut_and_dropped_before_it_was_read_is_missed(
    table: penstock.Table, taken_by: str
) -> None:
    put(table, range(3), "sun")
    table.drop_partition({"day": "sun"})  # before the cut: nobody misses it
    put(table, range(5), "mon")
    cut = table.cut() if taken_by == "cut" else table.scan().log_offsets
    assert found(table.changes(start=cut)) == []
    put(table, range(7), "tue")
    assert found(table.changes(start=cut)) == whole(("tue", range(7)))

    table.drop_partition({"day": "tue"})

    with pytest.raises(PartitionNotFoundError, match="day=tue"):
        table.changes(start=cut)
    assert found(table.changes(start=table.cut())) == []


def test_a_cut_that_names_what_is_not_there_is_refused(table: penstock.Table) -> None:
    put(table, range(10))
    put(table, range(5), "tue")
    cut = dict(table.cut())
    never = cut | {penstock.TableBucket("shop.t", "day=never", number): 0 for number in range(2)}
    source: ScanSourceLike = "live" if table.info.primary_key else "log"

    def scan(as_of: dict[penstock.TableBucket, int]) -> list[tuple[str, int]]:
        return found(table.scan(as_of=as_of, source=source))

    with pytest.raises(PartitionNotFoundError, match="day=never"):
        scan(never)
    with pytest.raises(PartitionNotFoundError, match="day=never"):
        table.changes(end=never)
    for bucket in cut:
        with pytest.raises(InvalidError, match="names every bucket"):
            scan({other: at for other, at in cut.items() if other != bucket})
        with pytest.raises(InvalidError, match="names every bucket"):
            table.changes(end={other: at for other, at in cut.items() if other != bucket})
    table.drop_partition(MONDAY)
    with pytest.raises(PartitionNotFoundError, match="day=mon"):
        scan(cut)
    with pytest.raises(PartitionNotFoundError, match="day=mon"):
        table.changes(end=cut)
    gone = [bucket for bucket in cut if bucket.partition == "day=mon"]
    with pytest.raises(PartitionNotFoundError, match="day=mon"):
        found(table.scan(buckets=gone, source=source))
    with pytest.raises(PartitionNotFoundError, match="day=mon"):
        table.changes(buckets=gone)


def test_a_partition_born_after_a_cut_is_empty_at_it_and_an_older_one_must_be_named(table: penstock.Table) -> None:
    put(table, range(10))
    cut = dict(table.cut())
    put(table, range(5), "tue")
    later = dict(table.cut())
    source: ScanSourceLike = "live" if table.info.primary_key else "log"

    assert found(table.scan(as_of=cut, source=source)) == found(table.changes(end=cut)) == whole(("mon", range(10)))
    tuesday = {bucket: at for bucket, at in later.items() if bucket.partition == "day=tue"}
    with pytest.raises(InvalidError, match="names every bucket"):
        found(table.scan(as_of=tuesday, source=source))
    assert found(table.scan(as_of=tuesday, buckets=list(tuesday), source=source)) == whole(("tue", range(5)))


def test_a_cut_of_a_partition_made_again_is_gone_and_asks_for_no_bucket_born_since(table: penstock.Table) -> None:
    put(table, range(10))
    cut = dict(table.cut())
    table.drop_partition(MONDAY)
    put(table, range(5), "tue")
    put(table, range(3))
    source: ScanSourceLike = "live" if table.info.primary_key else "log"

    with pytest.raises(OffsetOutOfRangeError, match="day=mon"):
        found(table.scan(as_of=cut, source=source))


def test_an_end_that_was_not_written_is_refused_unless_it_is_waited_for(table: penstock.Table) -> None:
    put(table, range(10))
    beyond = {bucket: at + 1 for bucket, at in table.cut().items()}

    with pytest.raises(OffsetOutOfRangeError, match="follow=True"):
        table.changes(end=beyond)
    assert len(found(table.changes(end=beyond, follow=True, timeout="20ms"))) == 10
