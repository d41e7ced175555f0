"""The committer: groups, failures of one call, failures of the disk."""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest
from tests.kit.open_table import OpenTableRig, open_tables, write
from tests.kit.waiting import wait_until

from penstock.engine.table.open_table import OpenTable
from penstock.errors import BucketFailedError, DiskFullError, SequenceError, UnavailableError
from penstock.model.node.calls import Operation, WriteCall, WriteResult
from penstock.model.node.principal import LOCAL
from penstock.model.place.bucket import BucketId
from penstock.testing.fault_plan import Operation as DiskOperation

DDL = "id BIGINT, v BIGINT, PRIMARY KEY (id)"
WRITER = bytes(15) + b"w"


@pytest.fixture
def rig() -> Iterator[OpenTableRig]:
    with open_tables() as made:
        yield made


def is_segment_sync(operation: DiskOperation) -> bool:
    return operation.kind == "sync" and "segment" in operation.path


def rows_of(table: OpenTable) -> dict[int, int]:
    found: dict[int, int] = {}
    for view in table.view.values():
        for block in view.scan(view.visible, table.schema.user_columns):
            found.update(zip(block.batch.column("0").to_pylist(), block.batch.column("1").to_pylist(), strict=True))
    return found


def numbered(table: OpenTable, rows: list[dict[str, int]], sequence: int, writer: bytes = WRITER) -> WriteResult:
    batch = table.info.schema.arrow_schema.empty_table().from_pylist(rows, schema=table.info.schema.arrow_schema)
    (only,) = batch.combine_chunks().to_batches()
    info = table.info
    return table.write(
        WriteCall(info.table_id, info.schema_id, Operation.UPSERT, only, writer_id=writer, sequence=sequence),
        principal=LOCAL,
    )


def held_back(table: OpenTable, pool: ThreadPoolExecutor) -> threading.Event:
    """Stop the committer in a step; it goes on when the event is set."""
    inside, go_on = threading.Event(), threading.Event()

    def step() -> None:
        inside.set()
        assert go_on.wait(30)

    pool.submit(table.committer.run, step)
    assert inside.wait(30)
    return go_on


def wait_for_queue(table: OpenTable, length: int) -> None:
    wait_until(lambda: len(table.committer._queue) >= length)


def test_writes_that_wait_share_one_sync(rig: OpenTableRig) -> None:
    table = rig.create("default.t", DDL)
    write(table, [{"id": 0, "v": 0}])
    syncs: list[DiskOperation] = []

    def count(operation: DiskOperation) -> bool:
        if is_segment_sync(operation):
            syncs.append(operation)
        return False

    rig.disk.skip_syncs(count)
    with ThreadPoolExecutor(20) as pool:
        go_on = held_back(table, pool)
        waiting = [pool.submit(write, table, [{"id": number, "v": number}]) for number in range(1, 17)]
        wait_for_queue(table, 16)
        go_on.set()
        results = [future.result() for future in waiting]
    assert len(syncs) == 1
    assert sorted(next(iter(result.offsets.values())) for result in results) == [(n, n + 1) for n in range(1, 17)]
    assert rows_of(table) == {number: number for number in range(17)}


def test_a_stale_sequence_fails_its_own_call_only(rig: OpenTableRig) -> None:
    table = rig.create("default.t", DDL)
    for sequence in range(10):
        numbered(table, [{"id": sequence, "v": 1}], sequence)
    with ThreadPoolExecutor(4) as pool:
        go_on = held_back(table, pool)
        stale = pool.submit(numbered, table, [{"id": 1, "v": 99}], 2)
        wait_for_queue(table, 1)
        fine = pool.submit(numbered, table, [{"id": 50, "v": 5}], 0, bytes(15) + b"x")
        wait_for_queue(table, 2)
        go_on.set()
        assert fine.result().changes == 1
        with pytest.raises(SequenceError, match="new writer"):
            stale.result()
    assert rows_of(table)[1] == 1
    assert rows_of(table)[50] == 5


def test_a_full_disk_writes_nothing_and_the_next_write_goes_on(rig: OpenTableRig) -> None:
    table = rig.create("default.t", DDL, buckets=2)
    write(table, [{"id": number, "v": 1} for number in range(8)])
    before = rows_of(table)
    rig.disk.fail_when(lambda operation: operation.kind == "append", errno.ENOSPC, done=0.5, times=1)
    with pytest.raises(DiskFullError, match="free some"):
        write(table, [{"id": number, "v": 2} for number in range(8)])
    assert rows_of(table) == before
    write(table, [{"id": number, "v": 3} for number in range(8)])
    assert rows_of(table) == dict.fromkeys(range(8), 3)


def fails_in(failing: BucketId, *kinds: str) -> Callable[[DiskOperation], bool]:
    return lambda operation: operation.kind in kinds and operation.path.startswith(failing.directory() + "/")


def test_a_failed_sync_takes_the_write_back_in_all_buckets_and_a_retry_completes_it(rig: OpenTableRig) -> None:
    table = rig.create("default.t", DDL, buckets=2)
    rows = [{"id": number, "v": 1} for number in range(8)]
    numbered(table, rows, 0)
    failing = BucketId(table.info.table_id, 0, 1)
    rig.disk.fail_when(fails_in(failing, "sync"), errno.EIO, times=1)
    changed = [{"id": number, "v": 2} for number in range(8)]
    with pytest.raises(BucketFailedError, match="nothing was written") as raised:
        numbered(table, changed, 1)
    assert raised.value.applied == {}
    assert rows_of(table) == dict.fromkeys(range(8), 1)
    with pytest.raises(BucketFailedError, match="reopen"):
        numbered(table, changed, 1)
    table.reopen(failing)
    assert rows_of(table) == dict.fromkeys(range(8), 1)
    numbered(table, changed, 1)
    assert rows_of(table) == dict.fromkeys(range(8), 2)
    assert sum(view.visible for view in table.view.values()) == 16


def test_buckets_that_did_not_fail_take_writes_when_the_write_is_taken_back(rig: OpenTableRig) -> None:
    table = rig.create("default.t", DDL, buckets=2)
    write(table, [{"id": number, "v": 1} for number in range(8)])
    failing = BucketId(table.info.table_id, 0, 1)
    sound = next(n for n in range(8) if failing not in table.route(upsert_call(table, [{"id": n, "v": 2}])).parts)
    rig.disk.fail_when(fails_in(failing, "sync"), errno.EIO, times=1)
    with pytest.raises(BucketFailedError):
        write(table, [{"id": number, "v": 2} for number in range(8)])

    write(table, [{"id": sound, "v": 3}])

    assert rows_of(table) == {**dict.fromkeys(range(8), 1), sound: 3}


def test_a_table_takes_no_writes_while_a_failed_one_cannot_be_taken_back(rig: OpenTableRig) -> None:
    table = rig.create("default.t", DDL, buckets=2)
    write(table, [{"id": number, "v": 1} for number in range(8)])
    failing = BucketId(table.info.table_id, 0, 1)
    sound = next(n for n in range(8) if failing not in table.route(upsert_call(table, [{"id": n, "v": 2}])).parts)
    rig.disk.fail_when(fails_in(failing, "sync", "create"), errno.EIO)

    with pytest.raises(BucketFailedError, match="whole or not at all") as raised:
        write(table, [{"id": number, "v": 2} for number in range(8)])

    assert raised.value.applied == {}
    with pytest.raises(BucketFailedError, match="table takes no writes"):
        write(table, [{"id": sound, "v": 3}])
    with pytest.raises(BucketFailedError, match="table takes no writes"):
        table.reopen(failing)
    assert rows_of(table) == dict.fromkeys(range(8), 1)
    rig.disk.clear_faults()
    table.reopen(failing)
    write(table, [{"id": sound, "v": 3}])
    assert rows_of(table) == {**dict.fromkeys(range(8), 1), sound: 3}


def test_a_write_beside_a_failed_one_is_told_to_try_again(rig: OpenTableRig) -> None:
    table = rig.create("default.t", DDL, buckets=2)
    write(table, [{"id": number, "v": 1} for number in range(8)])
    failing = BucketId(table.info.table_id, 0, 1)
    parts = [set(table.route(upsert_call(table, [{"id": n, "v": 2}])).parts) for n in range(8)]
    hit, beside = parts.index({failing}), parts.index({failing._replace(bucket=0)})
    rig.disk.fail_when(fails_in(failing, "sync"), errno.EIO, times=1)
    with ThreadPoolExecutor(4) as pool:
        go_on = held_back(table, pool)
        failed = pool.submit(write, table, [{"id": hit, "v": 2}])
        other = pool.submit(write, table, [{"id": beside, "v": 2}])
        wait_for_queue(table, 2)
        go_on.set()
        with pytest.raises(BucketFailedError, match="nothing was written"):
            failed.result()
        with pytest.raises(UnavailableError, match="a write beside this one failed; nothing was written, try again"):
            other.result()
    write(table, [{"id": beside, "v": 3}])
    assert rows_of(table) == {**dict.fromkeys(range(8), 1), beside: 3}


def upsert_call(table: OpenTable, rows: list[dict[str, int]]) -> WriteCall:
    (batch,) = pa.Table.from_pylist(rows, schema=table.info.schema.arrow_schema).combine_chunks().to_batches()
    return WriteCall(table.info.table_id, table.info.schema_id, Operation.UPSERT, batch)
