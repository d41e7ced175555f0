"""What users see when the disk under a table fills up, fails or rots; embedded and served."""

from __future__ import annotations

import errno
import threading
from collections.abc import Iterator

import pyarrow as pa
import pytest
from tests.kit.faulty_node import FaultyNode, faulty_node, without_patience

import penstock
from penstock import errors
from penstock.engine.settings import Settings
from penstock.testing.fault_plan import Operation

ROWS = 400


@pytest.fixture(params=["embedded", "served"])
def node(request: pytest.FixtureRequest) -> Iterator[FaultyNode]:
    with faulty_node(served=request.param == "served") as node:
        yield node


@pytest.fixture
def table(node: FaultyNode) -> penstock.Table:
    return node.connection.create_table("t", "id BIGINT, v BIGINT, PRIMARY KEY (id)", buckets=2)


def rows(value: int) -> pa.RecordBatch:
    return pa.record_batch({"id": list(range(ROWS)), "v": [value] * ROWS})


def values(table: penstock.Table) -> dict[int, int]:
    return {row["id"]: row["v"] for row in table.scan().to_arrow().to_pylist()}


def test_full_disk_is_told_at_once_and_nothing_is_written_until_there_is_room(
    node: FaultyNode, table: penstock.Table
) -> None:
    table.upsert(rows(1))
    before = table.cut()
    node.disk.capacity_bytes = 0

    # More than the room that segments take beforehand.
    many = pa.record_batch({"id": list(range(200_000)), "v": [2] * 200_000})
    with pytest.raises(errors.DiskFullError, match=r"no space left .*; free some and write") as caught:
        table.upsert(many)

    assert (caught.value.code, caught.value.retriable) == ("disk_full", True)
    assert (table.cut(), values(table)) == (before, dict.fromkeys(range(ROWS), 1))
    node.disk.capacity_bytes = None
    table.upsert(rows(3))
    assert values(table) == dict.fromkeys(range(ROWS), 3)


def test_full_disk_is_the_first_cause_that_a_pipelined_writer_tells(node: FaultyNode, table: penstock.Table) -> None:
    node.disk.capacity_bytes = 0
    writer = table.writer(batch_rows=10)

    for value in range(3):
        writer.upsert({"id": value, "v": value})
    with pytest.raises(errors.DiskFullError, match="no space left"):
        writer.flush()
    with pytest.raises(errors.DiskFullError, match="no space left"):
        writer.close()

    assert values(table) == {}


def test_disk_that_refuses_once_costs_no_more_than_a_retry(node: FaultyNode, table: penstock.Table) -> None:
    table.upsert(rows(1))
    node.disk.fail_when(lambda operation: operation.kind == "append", errno.EIO, times=1)

    result = table.upsert(rows(2))

    assert result.changes == ROWS
    assert values(table) == dict.fromkeys(range(ROWS), 2)


def test_disk_that_goes_on_refusing_is_told_with_its_reason(node: FaultyNode, table: penstock.Table) -> None:
    without_patience(node.connection)
    node.disk.fail_when(lambda operation: operation.kind == "append", errno.EIO)

    with pytest.raises(errors.UnavailableError, match=r"disk refused the write; nothing was written bucket=.* error="):
        table.upsert(rows(1))

    assert values(table) == {}


def test_failed_sync_fails_the_bucket_until_it_is_reopened_and_readers_go_on(
    node: FaultyNode, table: penstock.Table
) -> None:
    table.upsert(rows(1))
    node.disk.fail_when(lambda operation: operation.kind == "sync", errno.EIO)

    with pytest.raises(errors.BucketFailedError, match="the bucket failed"):
        table.upsert(rows(2))
    node.disk.clear_faults()
    with pytest.raises(errors.BucketFailedError, match=r"takes no writes.*; reopen it bucket="):
        table.upsert(rows(3))
    assert values(table) == dict.fromkeys(range(ROWS), 1)

    for bucket in table.cut():
        node.engine.reopen(bucket)
    table.upsert(rows(4))
    assert values(table) == dict.fromkeys(range(ROWS), 4)


def test_write_that_one_bucket_refuses_is_in_no_bucket(node: FaultyNode, table: penstock.Table) -> None:
    table.upsert(rows(1))
    failing, _ = table.cut()
    part = node.path_part(failing)

    def hits(operation: Operation) -> bool:
        return operation.kind == "sync" and part in f"/{operation.path}"

    node.disk.fail_when(hits, errno.EIO, times=1)
    with pytest.raises(errors.BucketFailedError, match="the bucket failed; nothing was written") as caught:
        table.upsert(rows(2))

    assert caught.value.applied == {}
    assert values(table) == dict.fromkeys(range(ROWS), 1)
    node.engine.reopen(failing)
    table.upsert(rows(2))
    assert values(table) == dict.fromkeys(range(ROWS), 2)


def test_rotten_file_is_corruption_and_never_wrong_rows(node: FaultyNode, table: penstock.Table) -> None:
    table.upsert(rows(7))
    node.seal("t")
    other = node.connection.create_table("sound", "id BIGINT, PRIMARY KEY (id)")
    other.upsert([{"id": 1}])
    files = [path for path in node.disk.paths() if "/data" in path]
    for path in files:
        for position in range(0, node.disk.size(path), 64):
            node.disk.flip_bit(path, position, 3)

    with pytest.raises(errors.CorruptionError) as caught:
        table.scan().to_arrow()

    assert (caught.value.code, caught.value.retriable) == ("corruption", False)
    assert any(path.rpartition("/")[2] in str(caught.value) for path in files), caught.value
    assert other.get(id=1) == {"id": 1}


def test_read_that_the_disk_refuses_is_tried_again(node: FaultyNode, table: penstock.Table) -> None:
    table.upsert(rows(7))
    node.seal("t")
    node.disk.fail_reads_when(lambda operation: True, errno.EIO, times=1)

    assert values(table) == dict.fromkeys(range(ROWS), 7)


def test_other_writers_are_served_while_one_bucket_is_down(node: FaultyNode, table: penstock.Table) -> None:
    other = node.connection.create_table("other", "id BIGINT, v BIGINT, PRIMARY KEY (id)")
    table.upsert(rows(0))
    part = node.path_part(next(iter(table.cut())))
    node.disk.fail_when(lambda operation: operation.kind == "sync" and part in f"/{operation.path}", errno.EIO)
    refused: list[BaseException] = []

    def write() -> None:
        try:
            table.upsert(rows(1))
        except errors.BucketFailedError as error:
            refused.append(error)

    writer = threading.Thread(target=write)
    writer.start()
    for value in range(20):
        other.upsert(rows(value))
    writer.join()

    assert len(refused) == 1
    assert values(other) == dict.fromkeys(range(ROWS), 19)


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO])
@pytest.mark.parametrize("served", [False, True])
def test_write_is_told_as_written_although_its_rows_cannot_be_moved_to_a_file(served: bool, error: int) -> None:
    with faulty_node(served=served, settings=Settings(segment_bytes=4096)) as node:
        without_patience(node.connection)
        columns = "id BIGINT, v BIGINT SUM, PRIMARY KEY (id)"
        sums = node.connection.create_table("sums", columns, merge_engine="aggregate")
        node.disk.fail_when(lambda operation: operation.kind == "create" and "/data-" in operation.path, error)
        told = 0
        refused = errors.DiskFullError if error == errno.ENOSPC else errors.UnavailableError

        with pytest.raises(refused, match=r"bucket=default\.sums#0"):  # noqa: PT012
            for _ in range(120):
                sums.upsert({"id": 1, "v": 1})
                told += 1

        assert sums.get(id=1) == {"id": 1, "v": told}
        assert 10 < told < 120
        assert node.engine.tables.stats(sums.info.table_id).background["seals_failed"] > 0
        node.disk.clear_faults()
        node.engine.maintenance.run()
        sums.upsert({"id": 1, "v": 1})
        assert sums.get(id=1) == {"id": 1, "v": told + 1}


def test_bucket_that_cannot_be_sealed_keeps_no_other_from_it(node: FaultyNode) -> None:
    tables = [node.connection.create_table(name, "id BIGINT, v BIGINT, PRIMARY KEY (id)") for name in "ab"]
    failing = f"tables/{tables[0].info.table_id}/"
    node.disk.fail_when(lambda o: o.kind == "create" and "/data-" in o.path and o.path.startswith(failing), errno.EIO)
    for table in tables:
        table.upsert(rows(1))
        live = node.engine._tables.get(table.info.table_id)
        for tablet in live.committer.tablets.values():
            live.committer.run(tablet.roll)

    with pytest.raises(OSError, match="data-"):
        node.engine.maintenance.run()

    assert [node.engine.tables.stats(table.info.table_id).background.get("seals", 0) for table in tables] == [0, 1]
