"""A partition that is dropped and created again: nothing that names an offset of the first is taken for the second."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import penstock
from penstock.errors import OffsetOutOfRangeError, PartitionNotFoundError
from penstock.testing.server import ServerProcess

KEYED = "id BIGINT, day STRING, v STRING, PRIMARY KEY (id, day)"
LOG = "id BIGINT, day STRING, v STRING"
MONDAY = {"day": "mon"}


@pytest.fixture(params=[KEYED, LOG], ids=["keyed", "log"])
def table(request: pytest.FixtureRequest, connection: penstock.Connection) -> penstock.Table:
    return connection.create_table("shop.t", request.param, buckets=2, partitioned_by=["day"])


def put(table: penstock.Table, ids: Iterable[int], v: str, day: str = "mon") -> None:
    rows = [{"id": number, "day": day, "v": v} for number in ids]
    if table.info.primary_key:
        table.upsert(rows)
    else:
        table.append(rows)


def again(table: penstock.Table, ids: Iterable[int], v: str = "new") -> None:
    """Drop the partition and write into one of the same name."""
    table.drop_partition(MONDAY)
    put(table, ids, v)


def rows(batches: Iterable[pa.RecordBatch]) -> list[dict[str, Any]]:
    return [row for batch in batches for row in batch.to_pylist()]


def found(batches: Iterable[pa.RecordBatch]) -> list[tuple[int, str]]:
    return sorted((row["id"], row["v"]) for row in rows(batches))


def all_new(ids: Iterable[int]) -> list[tuple[int, str]]:
    return [(number, "new") for number in ids]


def test_no_offset_of_a_partition_comes_twice(table: penstock.Table) -> None:
    seen: set[tuple[str, int, int]] = set()
    for turn in range(3):
        put(table, range(20), f"{turn}")
        for row in rows(table.changes()):
            change = (row["_partition"], row["_bucket"], row["_offset"])
            assert change not in seen
            seen.add(change)
        table.drop_partition(MONDAY)


def test_partitions_begin_at_0_while_none_was_dropped(table: penstock.Table) -> None:
    put(table, range(20), "a", "mon")
    put(table, range(20), "a", "tue")

    assert {offsets.base for offsets in table.offsets().values()} == {0}


def test_a_stored_position_goes_on_with_every_change_of_the_new_partition(table: penstock.Table) -> None:
    put(table, range(20), "old")
    stream = table.changes()
    assert len(rows(stream)) == 20
    again(table, range(30))

    assert found(table.changes(start=stream.position)) == all_new(range(30))


def test_a_stored_cut_goes_on_with_every_change_of_the_new_partition(table: penstock.Table) -> None:
    put(table, range(20), "old")
    cut = table.cut()
    again(table, range(30))

    assert found(table.changes(start=cut)) == all_new(range(30))
    # What the cut ends is gone with the partition, and nothing stands in for it.
    with pytest.raises(PartitionNotFoundError, match="day=mon"):
        table.changes(end=cut)
    assert found(table.changes(start=cut, end=cut)) == []


def test_a_stream_that_follows_goes_on_with_the_new_partition(table: penstock.Table) -> None:
    put(table, range(20), "old")
    with table.changes(follow=True, timeout="20s") as stream:
        seen: list[dict[str, Any]] = []
        while len(seen) < 20:
            seen += next(stream).to_pylist()
        again(table, range(30))
        while len(seen) < 50:
            seen += next(stream).to_pylist()
        position = stream.position
    put(table, range(30, 35), "new")

    assert sorted((row["id"], row["v"]) for row in seen[20:]) == all_new(range(30))
    assert found(table.changes(start=position)) == all_new(range(30, 35))


def test_a_new_partition_without_rows_keeps_a_stream_following(table: penstock.Table) -> None:
    put(table, range(20), "old")
    with table.changes(start=penstock.LATEST, follow=True, timeout="20s") as stream:
        table.drop_partition(MONDAY)
        table.create_partition(MONDAY)
        put(table, range(5), "a", "tue")
        seen: list[dict[str, Any]] = []
        while len(seen) < 5:
            seen += next(stream).to_pylist()
        put(table, range(7), "new")
        while len(seen) < 12:
            seen += next(stream).to_pylist()

    assert sorted((row["id"], row["v"]) for row in seen[5:]) == all_new(range(7))


def test_a_cut_of_the_old_partition_is_refused(table: penstock.Table) -> None:
    put(table, range(20), "old")
    cut = table.cut()
    again(table, range(30))

    with pytest.raises(OffsetOutOfRangeError, match="dropped with its partition"):
        table.scan(as_of=cut).to_arrow()
    assert found(table.scan().to_arrow().to_batches()) == all_new(range(30))


def test_a_resume_token_of_the_old_partition_is_refused(table: penstock.Table, connection: penstock.Connection) -> None:
    put(table, range(20), "old")
    with table.scan() as scan:
        next(scan)
        token = scan.resume_token
    again(table, range(30))

    with pytest.raises(OffsetOutOfRangeError):
        connection.resume_scan(token).to_arrow()


def test_a_lease_on_a_cut_of_the_old_partition_is_refused(
    table: penstock.Table, connection: penstock.Connection
) -> None:
    put(table, range(20), "old")
    cut = table.cut()
    again(table, range(30))

    with connection.acquire_lease("job", cut) as lease:
        assert lease.unavailable.keys() == cut.keys()


def test_a_lease_on_a_snapshot_of_the_old_partition_is_refused(connection: penstock.Connection) -> None:
    table = connection.create_table("shop.t", KEYED, partitioned_by=["day"])
    put(table, range(10), "old")
    old = table.create_snapshot()
    again(table, range(10))
    new = table.create_snapshot()

    with connection.acquire_lease("job", old) as lease:
        assert lease.unavailable.keys() == old.keys()
    with connection.acquire_lease("other job", new) as lease:
        assert found(table.scan(lease=lease).to_arrow().to_batches()) == all_new(range(10))


def test_a_lease_reads_the_old_partition_beside_the_new_one(
    table: penstock.Table, connection: penstock.Connection
) -> None:
    put(table, range(20), "old")
    with connection.acquire_lease("job", table.cut()) as lease:
        again(table, range(30))
        held = table.scan(lease=lease).to_arrow()

    assert found(held.to_batches()) == [(number, "old") for number in range(20)]
    assert found(table.scan().to_arrow().to_batches()) == all_new(range(30))


def test_the_new_partition_reads_and_writes_on_after_a_restart(tmp_path: Path) -> None:
    for ddl in (KEYED, LOG):
        with penstock.connect(tmp_path / "data") as connection:
            table = connection.create_table("t", ddl, buckets=2, partitioned_by=["day"])
            put(table, range(20), "old")
            cut = table.cut()
            table.drop_partition(MONDAY)
        with penstock.connect(tmp_path / "data") as connection:
            # Created after the restart: what was dropped before counts all the same.
            put(connection.table("t"), range(10), "new")
        with penstock.connect(tmp_path / "data") as connection:
            table = connection.table("t")
            put(table, range(10, 30), "new")
            table.create_partition({"day": "empty"})
        with penstock.connect(tmp_path / "data") as connection:
            table = connection.table("t")

            assert found(table.scan().to_arrow().to_batches()) == all_new(range(30))
            assert found(table.changes(start=cut)) == all_new(range(30))
            connection.drop_table("t")


def test_a_server_killed_between_drop_and_creation_gives_no_offset_twice(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data") as server, penstock.connect(server.url) as connection:
        table = connection.create_table("t", KEYED, partitioned_by=["day"])
        put(table, range(20), "old")
        with table.changes() as stream:
            assert len(rows(stream)) == 20
        for turn in range(3):
            table.drop_partition(MONDAY)
            server.restart()
            put(table, range(30), f"{turn}")
            server.restart()
            put(table, range(30, 40), f"{turn}")

            assert found(table.changes(start=stream.position)) == [(number, f"{turn}") for number in range(40)]
            with table.changes() as stream:
                assert len(rows(stream)) == 40
