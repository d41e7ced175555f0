"""A disk that fills up: writes stop before its end, and what makes room works at its end; embedded and served."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest
from tests.kit.faulty_node import FaultyNode, faulty_node, without_patience

import penstock
from penstock import errors
from penstock.engine.home.disk_room import RESERVE, DiskRoom
from penstock.engine.settings import Settings
from penstock.runtime.disk import Space
from penstock.testing.faulty_disk import FaultyDisk

CAPACITY = 4 << 20


@pytest.fixture(params=["embedded", "served"])
def node(request: pytest.FixtureRequest) -> Iterator[FaultyNode]:
    settings = Settings(segment_bytes=1 << 16)
    with faulty_node(served=request.param == "served", settings=settings) as node:
        node.disk.capacity_bytes = CAPACITY
        without_patience(node.connection)
        yield node


def rows(start: int, count: int = 2_000) -> pa.RecordBatch:
    return pa.record_batch({"id": list(range(start, start + count)), "v": [start] * count})


def fill(table: penstock.Table) -> int:
    """Write until the disk takes no more; return how many rows were acknowledged."""
    acknowledged = 0
    while True:
        try:
            table.upsert(rows(acknowledged))
        except errors.DiskFullError:
            return acknowledged
        acknowledged += 2_000


def take_the_rest(disk: FaultyDisk) -> None:
    """Let another program fill the disk."""
    file = disk.create("other")
    file.append(bytes(disk.space().free))
    file.close()


def test_writes_stop_before_the_end_of_the_disk_and_go_on_after_a_drop(node: FaultyNode) -> None:
    other = node.connection.create_table("other", "id BIGINT, v BIGINT, PRIMARY KEY (id)")
    other.upsert(rows(0))
    table = node.connection.create_table("t", "id BIGINT, v BIGINT, PRIMARY KEY (id)", buckets=2)

    acknowledged = fill(table)

    assert acknowledged > 0
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == list(range(acknowledged))
    node.connection.drop_table("t")
    assert other.upsert(rows(0, 20_000)).changes == 20_000


def test_reserve_is_given_up_for_a_drop_and_made_again_when_there_is_room(node: FaultyNode) -> None:
    table = node.connection.create_table("t", "id BIGINT, v BIGINT, PRIMARY KEY (id)")
    node.engine._storage.tidy()
    reserved = node.disk.size(RESERVE)
    table.upsert(rows(0))
    take_the_rest(node.disk)

    node.connection.drop_table("t")

    assert reserved == CAPACITY // 32
    assert not node.disk.exists(RESERVE)
    assert node.disk.space().free > reserved
    node.disk.remove("other")
    node.engine._storage.tidy()
    assert node.disk.size(RESERVE) == reserved


@pytest.mark.parametrize("drop", ["partition", "log", "lease"])
def test_what_makes_room_is_given_the_reserve(node: FaultyNode, drop: str) -> None:
    parts = node.connection.create_table(
        "p", "d STRING, id BIGINT, PRIMARY KEY (d, id)", partitioned_by=["d"], properties={"log.retention": "1ms"}
    )
    parts.upsert([{"d": name, "id": number} for name in "ab" for number in range(50)])
    log = node.connection.create_table("l", "id BIGINT, v BIGINT")
    log.append(rows(0))
    lease = node.connection.acquire_lease("held", parts.latest_snapshots)
    node.engine._storage.tidy()
    take_the_rest(node.disk)

    if drop == "partition":
        parts.drop_partition({"d": "a"})
        assert parts.scan().to_arrow().num_rows == 50
    elif drop == "log":
        assert log.truncate().rows == 2_000
        assert log.scan().to_arrow().num_rows == 0
    else:
        lease.drop()

    assert not node.disk.exists(RESERVE)


def test_drop_lets_go_of_the_files_that_were_read(node: FaultyNode) -> None:
    table = node.connection.create_table("t", "id BIGINT, v BIGINT, PRIMARY KEY (id)")
    table.upsert(rows(0))
    node.seal("t")
    assert table.scan().to_arrow().num_rows == 2_000
    storage = node.engine._storage
    assert storage._pool.open_count > 0

    node.connection.drop_table("t")

    # A file that is open takes its space also after it was removed.
    assert (storage._pool.open_count, storage._cache.count) == (0, 0)


def test_disk_without_room_for_a_reserve_has_none() -> None:
    disk = FaultyDisk(capacity_bytes=1000)
    disk.create("a").append(bytes(990))
    room = DiskRoom(disk)

    room.keep()
    room.give_up()

    assert disk.paths() == ["a"]
    with pytest.raises(errors.DiskFullError):
        room.check(1)


def test_floor_and_reserve_of_a_large_disk_are_small() -> None:
    class Large(FaultyDisk):
        def space(self) -> Space:
            return Space(65 << 20, 1 << 40)

    disk = Large()
    room = DiskRoom(disk)
    room.check(1 << 20)
    with pytest.raises(errors.DiskFullError, match="free=65MB kept_free=64MB"):
        room.check(2 << 20)
    room.keep()
    assert disk.paths() == []
