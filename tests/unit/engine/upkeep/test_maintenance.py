"""Background work: what is due is done, what is kept is kept, and `stats` shows it."""

from __future__ import annotations

import errno

import pyarrow as pa
import pytest
from tests.kit.memory_key_index import MemoryKeyIndex

from penstock.engine.engine import Engine
from penstock.engine.home.storage import Storage
from penstock.engine.metadata.memory_store import MemoryMetadataStore
from penstock.engine.settings import Settings
from penstock.errors import OffsetOutOfRangeError
from penstock.log.settings import LogSettings
from penstock.model.node.calls import BucketStats, Operation, WriteCall
from penstock.model.node.principal import LOCAL
from penstock.model.place.bucket import TableBucket
from penstock.model.table.spec import make_spec
from penstock.model.table.table import TableInfo
from penstock.runtime.tasks import TaskGroup
from penstock.tablet.settings import FsyncMode
from penstock.tablet.tablet import Tablet
from penstock.testing.fault_plan import Operation as DiskOperation
from penstock.testing.faulty_disk import FaultyDisk
from penstock.testing.manual_clock import ManualClock

HOUR_MS = 3_600_000


class Node:
    """An engine in memory, whose clock and background work the test moves by hand."""

    def __init__(self, **settings: int | FsyncMode) -> None:
        self.clock = ManualClock()
        self.disk = FaultyDisk()
        self._settings = Settings(**settings)  # type: ignore[arg-type]
        self._metadata = MemoryMetadataStore()
        self.open()

    def open(self) -> None:
        self.tasks = TaskGroup(self.clock, manual=True)
        storage = Storage(self.disk, MemoryKeyIndex(), self._settings, LogSettings(block_rows=64))
        self.engine = Engine(
            storage=storage, metadata=self._metadata, settings=self._settings, clock=self.clock, tasks=self.tasks
        )

    def table(self, ddl: str = "id BIGINT, v BIGINT, PRIMARY KEY (id)", **options: object) -> TableInfo:
        return self.engine.catalog.create_table("default.t", make_spec(ddl, **options))  # type: ignore[arg-type]

    def upsert(self, info: TableInfo, ids: range, value: int) -> None:
        batch = pa.RecordBatch.from_pydict({"id": list(ids), "v": [value] * len(ids)}, schema=info.schema.arrow_schema)
        self.engine.tables.write(WriteCall(info.table_id, info.schema_id, Operation.UPSERT, batch))

    def pass_time(self, ms: int) -> None:
        self.clock.advance(ms)
        self.tasks.run_due()

    def bucket(self, info: TableInfo) -> BucketStats:
        (only,) = self.engine.tables.stats(info.table_id).buckets
        return only


def test_a_checkpoint_is_taken_after_the_interval_and_not_before() -> None:
    node = Node(checkpoint_interval_ms=60_000)
    info = node.table()
    node.upsert(info, range(10), 1)
    node.pass_time(1_000)
    node.pass_time(30_000)
    assert node.bucket(info).checkpoint == 0
    node.pass_time(31_000)
    assert node.bucket(info).checkpoint == 10
    assert node.engine.tables.stats(info.table_id).background["checkpoints"] == 1


@pytest.mark.parametrize("interval_ms", [200, 5_000])
def test_log_is_synced_on_the_interval_that_is_set_and_not_before(interval_ms: int) -> None:
    node = Node(fsync=FsyncMode.INTERVAL, fsync_interval_ms=interval_ms)
    info = node.table()
    synced: list[str] = []

    def note(operation: DiskOperation) -> bool:
        if operation.kind == "sync":
            synced.append(operation.path)
        return False

    node.upsert(info, range(10), 1)
    node.disk.fail_when(note, errno.EIO)
    node.upsert(info, range(10), 2)
    node.pass_time(interval_ms - 1)
    assert synced == []
    node.pass_time(1)
    assert len(synced) == 1
    assert "segment" in synced[0]


def test_a_checkpoint_is_taken_after_many_changes() -> None:
    node = Node(checkpoint_changes=100)
    info = node.table()
    node.upsert(info, range(150), 1)
    node.pass_time(1_000)
    assert node.bucket(info).checkpoint == 150


def test_an_idle_bucket_is_left_alone() -> None:
    node = Node()
    info = node.table()
    node.upsert(info, range(10), 1)
    node.pass_time(1_000)
    node.pass_time(61_000)
    # Its segment gives back what it reserved.
    node.pass_time(11_000)
    before = node.disk.operations
    node.pass_time(61_000)
    node.pass_time(61_000)
    assert node.disk.operations == before


def test_segments_that_are_full_are_sealed_into_files() -> None:
    node = Node(segment_bytes=8_192)
    info = node.table()
    for value in range(20):
        node.upsert(info, range(100), value)
    node.pass_time(1_000)
    assert node.bucket(info).files > 0
    assert node.engine.tables.stats(info.table_id).background["rows_sealed"] > 0


def test_history_older_than_retention_goes_and_live_rows_stay() -> None:
    node = Node(segment_bytes=4_096)
    info = node.table(properties={"log.retention": "1h"})
    for value in range(10):
        node.upsert(info, range(50), value)
    node.pass_time(1_000)
    node.pass_time(2 * HOUR_MS)
    node.pass_time(61_000)
    node.upsert(info, range(50), 99)
    node.pass_time(1_000)
    node.pass_time(61_000)
    bucket = node.bucket(info)
    assert bucket.base == 500
    assert bucket.live_rows == 50
    assert bucket.rows < 200
    with pytest.raises(OffsetOutOfRangeError):
        node.engine.scan.open_cut(info.table_id, as_of={TableBucket("default.t", None, 0): 100})


def test_a_pinned_cut_holds_retention_back_until_it_is_released() -> None:
    node = Node(segment_bytes=4_096, scanner_ttl_ms=24 * HOUR_MS)
    info = node.table(properties={"log.retention": "1h"})
    for value in range(5):
        node.upsert(info, range(50), value)
    cut = node.engine.scan.open_cut(info.table_id)
    for value in range(5, 10):
        node.upsert(info, range(50), value)
    node.pass_time(1_000)
    node.pass_time(2 * HOUR_MS)
    node.pass_time(61_000)
    assert node.bucket(info).base <= 250
    node.engine.scan.release_cut(cut.cut_id)
    node.pass_time(61_000)
    node.pass_time(61_000)
    assert node.bucket(info).base == 500


def test_a_log_larger_than_its_limit_loses_its_oldest_history() -> None:
    node = Node(segment_bytes=4_096)
    info = node.table(properties={"log.retention-bytes": "20KB"})
    for value in range(40):
        node.upsert(info, range(100), value)
    node.pass_time(1_000)
    node.pass_time(61_000)
    node.pass_time(61_000)
    bucket = node.bucket(info)
    assert bucket.base > 0
    assert bucket.live_rows == 100


def days(node: Node) -> tuple[TableInfo, WriteCall]:
    """Return a table whose partitions live for an hour, and a write of one row into one of them."""
    info = node.table(
        "day STRING, id BIGINT, v BIGINT, PRIMARY KEY (day, id)",
        partitioned_by=["day"],
        properties={"partition.retention": "1h"},
    )
    batch = pa.RecordBatch.from_pydict({"day": ["mon"], "id": [1], "v": [1]}, schema=info.schema.arrow_schema)
    return info, WriteCall(info.table_id, info.schema_id, Operation.UPSERT, batch)


def test_write_is_told_also_if_its_partition_is_dropped_right_after() -> None:
    node = Node()
    info, call = days(node)
    table = node.engine._tables.get(info.table_id)

    def drop(tablet: Tablet) -> None:
        node.engine.catalog.drop_partition(info.table_id, {"day": "mon"})
        node.engine.maintenance.relieve(tablet, table)

    assert table.write(call, LOCAL, drop).rows == 1
    assert node.engine.catalog.list_partitions(info.table_id) == []


def test_partition_that_is_dropped_while_its_bucket_is_worked_on_is_no_damage() -> None:
    node = Node(checkpoint_interval_ms=1_000)
    info, call = days(node)
    node.engine.tables.write(call)
    dropped: list[str] = []

    def drop(_: DiskOperation) -> bool:
        if not dropped:
            dropped.append("mon")
            node.engine.catalog.drop_partition(info.table_id, {"day": "mon"})
        return False

    node.disk.fail_reads_when(drop, errno.EIO)
    node.pass_time(2_000)
    node.pass_time(61_000)

    assert dropped
    assert node.tasks.failures() == {}


def test_partitions_older_than_their_retention_are_dropped() -> None:
    node = Node()
    info, call = days(node)
    node.engine.tables.write(call)
    assert node.engine.catalog.list_partitions(info.table_id) == ["day=mon"]
    node.pass_time(2 * HOUR_MS)
    assert node.engine.catalog.list_partitions(info.table_id) == []
    assert node.engine.tables.stats(info.table_id).background["partitions_expired"] == 1


def test_late_rows_of_an_expired_partition_get_offsets_that_it_never_had() -> None:
    node = Node()
    info, call = days(node)
    ((bucket, old),) = node.engine.tables.write(call).offsets.items()
    node.pass_time(2 * HOUR_MS)

    ((again, new),) = node.engine.tables.write(call).offsets.items()

    assert again == bucket
    assert new[0] > old[1]
    with pytest.raises(OffsetOutOfRangeError):
        node.engine.scan.open_cut(info.table_id, as_of={bucket: old[1]})


def stamps(node: Node, info: TableInfo) -> list[int]:
    """Return the timestamps of all batches of a table, in order."""
    (tablet,) = node.engine._tables.get(info.table_id).committer.tablets.values()
    directory = tablet.view.directory(0, tablet.view.visible)
    return [directory.facts(number).timestamp_ms for number in range(len(directory))]


@pytest.mark.parametrize("jump_ms", [400 * 24 * HOUR_MS, -400 * 24 * HOUR_MS])
def test_partitions_expire_in_their_time_although_the_clock_jumps(jump_ms: int) -> None:
    node = Node()
    info, call = days(node)
    node.engine.tables.write(call)
    node.clock.jump_wall(jump_ms)
    node.pass_time(HOUR_MS // 2)
    assert node.engine.catalog.list_partitions(info.table_id) == ["day=mon"]

    node.clock.jump_wall(-jump_ms)
    node.pass_time(HOUR_MS)
    assert node.engine.catalog.list_partitions(info.table_id) == []


def test_partition_born_while_the_clock_is_behind_lives_its_time() -> None:
    node = Node()
    info, call = days(node)
    node.clock.jump_wall(-10 * HOUR_MS)
    node.engine.tables.write(call)
    node.clock.jump_wall(10 * HOUR_MS)
    node.pass_time(HOUR_MS // 2)

    assert node.engine.catalog.list_partitions(info.table_id) == ["day=mon"]


def test_start_that_finds_every_partition_expired_waits_for_the_clock_to_be_set() -> None:
    node = Node()
    info, call = days(node)
    node.engine.tables.write(call)
    node.engine._tables.close()
    node.clock.jump_wall(400 * 24 * HOUR_MS)
    node.open()
    node.engine.catalog.list_partitions(info.table_id)
    node.engine.tables.stats(info.table_id)

    node.pass_time(9 * 60_000)
    assert node.engine.catalog.list_partitions(info.table_id) == ["day=mon"]
    node.pass_time(2 * 60_000)
    assert node.engine.catalog.list_partitions(info.table_id) == []


def test_partitions_expire_soon_after_a_start_that_finds_younger_ones() -> None:
    node = Node()
    info, call = days(node)
    node.engine.tables.write(call)
    node.engine._tables.close()
    node.clock.advance(HOUR_MS // 2)
    node.open()
    node.engine.tables.write(call)
    for _ in range(40):
        node.pass_time(60_000)
    assert node.engine.catalog.list_partitions(info.table_id) == []


def test_timestamps_do_not_follow_a_jump_nor_stand_still_after_one() -> None:
    node = Node()
    info = node.table()
    begin = node.clock.wall_ms()
    for jump_ms in (400 * 24 * HOUR_MS, -800 * 24 * HOUR_MS, 400 * 24 * HOUR_MS):
        node.upsert(info, range(1), 1)
        node.clock.jump_wall(jump_ms)
        node.clock.advance(1000)
    node.upsert(info, range(1), 1)
    assert stamps(node, info) == [begin, begin + 1000, begin + 2000, begin + 3000]

    node.engine._tables.close()
    node.clock.jump_wall(-400 * 24 * HOUR_MS)
    node.open()
    node.engine.tables.stats(info.table_id)
    node.clock.advance(1000)
    node.upsert(info, range(1), 1)
    assert stamps(node, info)[-1] == begin + 4000
