"""The committer: groups, failures of one call, failures of the disk."""

from __future__ import annotations

import errno
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from penstock.engine.live_table import LiveTable
from penstock.errors import BucketFailedError, DiskFullError, SequenceError
from penstock.model.bucket import BucketId, TableBucket
from penstock.model.calls import Operation, WriteCall, WriteResult
from penstock.testing.fault_gate import Operation as DiskOperation
from penstock.testing.live_table import LiveTableRig, live_tables, write

DDL = "id BIGINT, v BIGINT, PRIMARY KEY (id)"
WRITER = bytes(15) + b"w"


@pytest.fixture
def rig() -> Iterator[LiveTableRig]:
    with live_tables() as made:
        yield made


def is_segment_sync(operation: DiskOperation) -> bool:
    return operation.kind == "sync" and "segment" in operation.path


def rows_of(table: LiveTable) -> dict[int, int]:
    found: dict[int, int] = {}
    for view in table.view.values():
        for block in view.scan(view.visible, table.schema.user_columns):
            found.update(zip(block.batch.column("0").to_pylist(), block.batch.column("1").to_pylist(), strict=True))
    return found


def numbered(table: LiveTable, rows: list[dict[str, int]], sequence: int, writer: bytes = WRITER) -> WriteResult:
    batch = table.info.schema.arrow_schema.empty_table().from_pylist(rows, schema=table.info.schema.arrow_schema)
    (only,) = batch.combine_chunks().to_batches()
    info = table.info
    return table.write(
        WriteCall(info.table_id, info.schema_id, Operation.UPSERT, only, writer_id=writer, sequence=sequence)
    )


def held_back(table: LiveTable, pool: ThreadPoolExecutor) -> threading.Event:
    """Stop the committer in a step; it goes on when the event is set."""
    inside, go_on = threading.Event(), threading.Event()

    def step() -> None:
        inside.set()
        assert go_on.wait(30)

    pool.submit(table.committer.run, step)
    assert inside.wait(30)
    return go_on


def wait_for_queue(table: LiveTable, length: int) -> None:
    ready = threading.Event()
    while len(table.committer._queue) < length:
        ready.wait(0.001)


def test_writes_that_wait_share_one_sync(rig: LiveTableRig) -> None:
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


def test_a_stale_sequence_fails_its_own_call_only(rig: LiveTableRig) -> None:
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


def test_a_full_disk_writes_nothing_and_the_next_write_goes_on(rig: LiveTableRig) -> None:
    table = rig.create("default.t", DDL, buckets=2)
    write(table, [{"id": number, "v": 1} for number in range(8)])
    before = rows_of(table)
    rig.disk.fail_when(lambda operation: operation.kind == "append", errno.ENOSPC, done=0.5, times=1)
    with pytest.raises(DiskFullError, match="free some"):
        write(table, [{"id": number, "v": 2} for number in range(8)])
    assert rows_of(table) == before
    write(table, [{"id": number, "v": 3} for number in range(8)])
    assert rows_of(table) == dict.fromkeys(range(8), 3)


def test_a_failed_sync_names_what_was_applied_and_a_retry_completes_it(rig: LiveTableRig) -> None:
    table = rig.create("default.t", DDL, buckets=2)
    rows = [{"id": number, "v": 1} for number in range(8)]
    numbered(table, rows, 0)
    failing = BucketId(table.info.table_id, 0, 1)
    rig.disk.fail_when(
        lambda operation: is_segment_sync(operation) and operation.path.startswith(failing.directory()),
        errno.EIO,
        times=1,
    )
    changed = [{"id": number, "v": 2} for number in range(8)]
    with pytest.raises(BucketFailedError, match="only in part") as raised:
        numbered(table, changed, 1)
    assert set(raised.value.applied) == {TableBucket("default.t", None, 0)}  # type: ignore[attr-defined]
    assert sorted(set(rows_of(table).values())) == [1, 2]
    with pytest.raises(BucketFailedError, match="reopen"):
        numbered(table, changed, 1)
    table.reopen(failing)
    assert sorted(set(rows_of(table).values())) == [1, 2]
    numbered(table, changed, 1)
    assert rows_of(table) == dict.fromkeys(range(8), 2)
    assert sum(view.visible for view in table.view.values()) == 16
