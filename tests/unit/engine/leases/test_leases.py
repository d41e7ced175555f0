"""Leases in one node under a manual clock: how long they last, whose they are, what a restart leaves of them."""

from __future__ import annotations

import json
import logging
import struct
import threading
import time
import zlib
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.kit.memory_key_index import MemoryKeyIndex

from penstock.client.connection import Connection
from penstock.client.table import Table
from penstock.codec.stored.framed import frame
from penstock.codec.stored.lease_record import Hold, LeaseRecord, decode_lease, encode_lease, hold_rows
from penstock.engine.engine import Engine
from penstock.engine.home.storage import Storage
from penstock.engine.leases.store import LeaseStore
from penstock.engine.metadata.memory_store import MemoryMetadataStore
from penstock.engine.metadata.sqlite_store import SqliteMetadataStore
from penstock.engine.metadata.store import Delete, MetadataStore, Put
from penstock.engine.settings import Settings
from penstock.errors import (
    CorruptionError,
    LeaseNotFoundError,
    LimitError,
    PartitionNotFoundError,
    PermissionDeniedError,
    TableNotFoundError,
    UnavailableError,
)
from penstock.model.node.lease import AcquireLease, CutOffsets
from penstock.model.node.principal import ANONYMOUS, LOCAL
from penstock.model.place.bucket import BucketId, TableBucket
from penstock.runtime.tasks import TaskGroup
from penstock.tablet.settings import FsyncMode
from penstock.testing.fault_plan import Operation
from penstock.testing.faulty_disk import FaultyDisk
from penstock.testing.manual_clock import ManualClock

HOUR_MS = 3_600_000
SETTINGS = Settings(scanner_ttl_ms=60_000, snapshot_interval_ms=600_000)


class Rig:
    """A node in memory that can be killed and opened again."""

    def __init__(self, settings: Settings = SETTINGS) -> None:
        self.settings = settings
        self.clock = ManualClock()
        self.disk = FaultyDisk()
        self.metadata = MemoryMetadataStore()
        self.killed: list[Connection] = []
        self.open()
        self.table = self.connection.create_table(
            "t", "id BIGINT, v BIGINT, PRIMARY KEY (id)", buckets=2, properties={"log.retention": "1s"}
        )
        self.fill(1)

    def open(self) -> None:
        self.tasks = TaskGroup(self.clock, manual=True)
        storage = Storage(self.disk, MemoryKeyIndex(), self.settings)
        self.engine = Engine(
            storage=storage, metadata=self.metadata, settings=self.settings, clock=self.clock, tasks=self.tasks
        )
        self.connection = Connection(self.engine, "rig")

    def kill(self, disk: FaultyDisk | None = None) -> None:
        for table in self.engine._tables.all():
            table.committer.close(UnavailableError("killed"))
        # Kept: a connection that is forgotten closes its node, and with it the metadata that outlives it.
        self.killed.append(self.connection)
        self.disk = disk or self.disk.after_kill()
        self.open()
        self.table = Table(self.connection._link, self.engine.catalog.table("default.t"))

    def fill(self, value: int) -> None:
        self.table.upsert([{"id": i, "v": value} for i in range(40)])

    def churn(self, *values: int) -> None:
        """Write over everything, with a snapshot each time, and let the node clean up behind."""
        for value in values:
            self.fill(value)
            self.table.create_snapshot()
        self.pass_time(2_000)
        self.pass_time(40_000)

    def pass_time(self, ms: int) -> None:
        self.clock.advance(ms)
        self.tasks.run_due()

    def lease(self, lease_id: str = "job", duration_ms: int = HOUR_MS, *, who: str = LOCAL) -> Any:
        return self.engine.acting_as(who).leases.acquire(
            AcquireLease(lease_id, duration_ms, (self.table.info.table_id,))
        )

    def leased_values(self, lease_id: str = "job") -> set[int]:
        return set(self.table.scan(lease=lease_id).to_arrow()["v"].to_pylist())

    def snapshot_files(self) -> set[str]:
        return {path for path in self.disk.paths() if "/snapshot-" in path}


@pytest.fixture
def rig() -> Iterator[Rig]:
    rig = Rig()
    yield rig
    rig.engine.close()


def test_lease_ends_to_the_millisecond_without_a_reaper(rig: Rig) -> None:
    rig.lease(duration_ms=5_000)
    rig.clock.advance(4_999)
    assert rig.engine.leases.get("job").lease_id == "job"

    rig.clock.advance(1)

    with pytest.raises(LeaseNotFoundError, match=r"unknown or has expired.*acquire it again and start anew"):
        rig.engine.leases.renew("job", 5_000)
    assert rig.engine.leases.list() == []


def test_time_counts_from_the_last_acquire_or_renewal(rig: Rig) -> None:
    rig.lease(duration_ms=5_000)
    rig.clock.advance(4_000)
    rig.engine.leases.renew("job", None)
    rig.clock.advance(4_000)
    rig.lease(duration_ms=6_000)
    rig.clock.advance(5_999)

    info = rig.engine.leases.get("job")

    assert info.expires_ms == rig.clock.wall_ms() + 1


def test_unknown_lease_cannot_be_renewed_released_or_dropped(rig: Rig) -> None:
    for attempt in (
        lambda: rig.engine.leases.renew("none", 1),
        lambda: rig.engine.leases.release("none", []),
        lambda: rig.engine.leases.drop("none"),
        lambda: rig.engine.leases.get("none"),
    ):
        with pytest.raises(LeaseNotFoundError):
            attempt()


def test_duration_above_the_limit_is_refused_and_changes_nothing(rig: Rig) -> None:
    rig.lease()
    with pytest.raises(LimitError, match=r"kv\.lease\.max-duration"):
        rig.engine.leases.renew("job", 8 * 24 * HOUR_MS)
    with pytest.raises(LimitError):
        rig.lease(duration_ms=8 * 24 * HOUR_MS)
    assert rig.engine.leases.get("job").duration_ms == HOUR_MS


def test_others_may_look_at_a_lease_but_not_change_it(rig: Rig) -> None:
    rig.lease(who="ann")
    leases = rig.engine.acting_as("bob").leases
    assert [(info.lease_id, info.owner) for info in leases.list()] == [("job", "ann")]
    assert leases.get("job").owner == "ann"
    for attempt in (
        lambda: leases.renew("job", 1_000),
        lambda: leases.release("job", [TableBucket("default.t", None, 0)]),
        lambda: leases.drop("job"),
        lambda: rig.lease(who="bob"),
    ):
        with pytest.raises(PermissionDeniedError, match="choose another id"):
            attempt()
    rig.clock.advance(HOUR_MS)
    assert rig.lease(who="bob").owner == "bob"


@pytest.mark.parametrize(("owner", "other"), [("ann", LOCAL), (LOCAL, ANONYMOUS), (LOCAL, "ann"), (ANONYMOUS, "ann")])
def test_lease_of_nobody_in_particular_is_anybodys_and_who_has_the_files_may_change_all(
    rig: Rig, owner: str, other: str
) -> None:
    rig.lease(who=owner)

    rig.engine.acting_as(other).leases.renew("job", 1_000)
    rig.engine.acting_as(other).leases.drop("job")

    assert rig.engine.leases.list() == []


def test_lease_of_nobody_in_particular_is_of_whoever_acquires_it_again(rig: Rig) -> None:
    rig.lease()

    assert rig.lease(who="ann").owner == "ann"
    assert rig.lease().owner == "ann"

    with pytest.raises(PermissionDeniedError, match="owner=ann"):
        rig.engine.acting_as("bob").leases.drop("job")


def test_wall_clock_set_back_or_forward_ends_no_lease_early_or_late(rig: Rig) -> None:
    rig.lease(duration_ms=100_000)

    rig.clock.jump_wall(-10 * HOUR_MS)
    rig.pass_time(99_999)
    rig.clock.jump_wall(20 * HOUR_MS)
    rig.tasks.run_due()
    assert rig.engine.leases.get("job").lease_id == "job"
    rig.pass_time(1)

    assert rig.engine.leases.list() == []


@pytest.mark.parametrize(
    ("down_ms", "jump_ms", "remaining_ms"),
    [
        (1_000, 0, HOUR_MS - 1_000),
        (10 * HOUR_MS, 0, 60_000),
        (HOUR_MS - 1_000, 0, 60_000),
        (1_000, -10 * HOUR_MS, HOUR_MS),
        (1_000, 10 * HOUR_MS, 60_000),
    ],
    ids=["short", "long", "almost over", "set back", "set forward"],
)
def test_restart_leaves_what_remains_by_wall_time_and_at_least_a_minute(
    rig: Rig, down_ms: int, jump_ms: int, remaining_ms: int
) -> None:
    rig.lease()

    rig.clock.advance(down_ms)
    rig.clock.jump_wall(jump_ms)
    rig.kill()

    rig.clock.advance(remaining_ms - 1)
    assert rig.leased_values() == {1}
    rig.pass_time(1)
    assert rig.engine.leases.list() == []


def test_leases_are_there_before_anything_is_compacted_or_expires(rig: Rig) -> None:
    rig.lease()
    cut = rig.engine.leases.acquire(
        AcquireLease("cut", HOUR_MS, cuts=(CutOffsets(rig.table.info.table_id, dict(rig.table.cut())),))
    )
    rig.churn(2, 3, 4, 5)

    rig.kill()
    rig.churn(6, 7, 8)
    rig.pass_time(120_000)

    assert rig.leased_values() == {1}
    assert rig.leased_values("cut") == {1}
    assert rig.engine.leases.get("cut").leased == cut.leased
    assert rig.tasks.failures() == {}


def test_given_back_lease_frees_files_and_base_on_an_idle_table(rig: Rig) -> None:
    rig.lease()
    rig.churn(2, 3, 4, 5)
    held = rig.snapshot_files()
    before = rig.engine.leases.kept_bytes("job")
    assert before > 0
    assert all(o.base <= rig.engine.leases.get("job").snapshots[b].offset for b, o in rig.table.offsets().items())

    rig.engine.leases.drop("job")
    assert rig.tasks.run_due() > 0

    assert len(held - rig.snapshot_files()) == 2
    retained = {s.bucket: s.offset for s in reversed(rig.table.list_snapshots())}
    assert {b: o.base for b, o in rig.table.offsets().items()} == retained
    assert rig.metadata.list("lease/") == []


def test_released_bucket_is_freed_and_the_other_stays(rig: Rig) -> None:
    rig.lease()
    rig.churn(2, 3, 4, 5)
    gone, kept = sorted(rig.engine.leases.get("job").snapshots)

    info = rig.engine.leases.release("job", [gone])
    rig.tasks.run_due()

    assert set(info.snapshots) == {kept}
    assert {s.bucket for s in rig.table.list_snapshots() if s.id == 1} == {kept}


def test_expired_lease_is_freed_like_one_given_back(rig: Rig) -> None:
    rig.lease(duration_ms=100_000)
    rig.churn(2, 3, 4, 5)

    rig.pass_time(100_000)
    rig.pass_time(1_000)

    assert {s.id for s in rig.table.list_snapshots()} == {4, 5}


def test_bytes_count_only_what_one_lease_alone_keeps(rig: Rig) -> None:
    rig.lease("one")
    assert rig.engine.leases.kept_bytes("one") == 0
    rig.churn(2, 3, 4, 5)
    alone = rig.engine.leases.kept_bytes("one")
    assert alone == sum(s.bytes for s in rig.engine.leases.get("one").snapshots.values())

    numbers = dict.fromkeys(rig.engine.leases.get("one").snapshots, 1)
    rig.engine.leases.acquire(AcquireLease("two", HOUR_MS, snapshots=numbers))

    assert rig.engine.leases.kept_bytes("one") == rig.engine.leases.kept_bytes("two") == 0
    assert {s.leased_by for s in rig.table.list_snapshots() if s.id == 1} == {("one", "two")}


def test_acquiring_again_moves_the_pin_and_frees_what_it_left(rig: Rig) -> None:
    rig.lease()
    rig.churn(2, 3, 4, 5)

    rig.lease()
    rig.tasks.run_due()

    assert rig.leased_values() == {5}
    assert {s.id for s in rig.table.list_snapshots()} == {4, 5}


def test_what_cannot_be_had_is_said_and_the_rest_is_leased(rig: Rig) -> None:
    rig.table.create_snapshot()
    (old,) = set(rig.table.cut().values())
    rig.churn(2, 3, 4)
    one, two = rig.engine.catalog.buckets(rig.table.info.table_id)
    table_id = rig.table.info.table_id

    info = rig.engine.leases.acquire(
        AcquireLease("job", HOUR_MS, snapshots={one: 1}, cuts=(CutOffsets(table_id, {two: old}),))
    )
    later = rig.engine.leases.acquire(
        AcquireLease("more", HOUR_MS, snapshots={one: 4}, cuts=(CutOffsets(table_id, {two: 10_000}),))
    )

    assert info.leased == []
    assert "no such snapshot" in info.unavailable[one]
    assert "below the base" in info.unavailable[two]
    assert set(later.snapshots) == {one}
    assert "beyond the end" in later.unavailable[two]


class WatchedIndex(MemoryKeyIndex):
    """Does something, once, when it is flushed."""

    then: Callable[[], None] | None = None

    def flush(self, buckets: Collection[BucketId] | None = None) -> None:
        super().flush(buckets)
        then, self.then = self.then, None
        if then is not None:
            then()


@pytest.mark.parametrize("day", [1, 2])
def test_partition_that_goes_while_snapshots_are_taken_is_left_out(day: int) -> None:
    clock, index = ManualClock(), WatchedIndex()
    engine = Engine(
        storage=Storage(FaultyDisk(), index, SETTINGS),
        metadata=MemoryMetadataStore(),
        settings=SETTINGS,
        clock=clock,
        tasks=TaskGroup(clock, manual=True),
    )
    with Connection(engine, "watched") as connection:
        table = connection.create_table("t", "day INT, id INT, PRIMARY KEY (day, id)", partitioned_by=["day"])
        table.upsert([{"day": 1, "id": 1}])
        table.create_snapshot()
        table.upsert([{"day": 2, "id": 1}, {"day": 3, "id": 1}])
        # While the second is taken; the first has its snapshot already.
        index.then = lambda: table.drop_partition({"day": day})

        taken = table.create_snapshot()

        assert {bucket.partition for bucket in taken} == {"day=1", "day=2", "day=3"} - {f"day={day}"}


def test_bucket_that_is_not_led_is_unavailable(rig: Rig) -> None:
    rig.table.create_snapshot()
    one, two = rig.engine.catalog.buckets(rig.table.info.table_id)
    rig.engine.step_down(two)

    info = rig.lease()

    assert set(info.snapshots) == {one}
    assert "does not lead" in info.unavailable[two]


def test_bucket_that_failed_is_unavailable_and_the_rest_is_leased(rig: Rig) -> None:
    one, two = rig.engine.catalog.buckets(rig.table.info.table_id)
    table = rig.engine._tables.get(rig.table.info.table_id)
    failed = table.tablet(table.bucket_id(one))
    assert failed is not None
    failed.standing.fail(OSError("the disk is broken"))

    info = rig.lease()

    assert set(info.snapshots) == {two}
    assert "takes no writes after an earlier failure" in info.unavailable[one]


def test_reopened_bucket_is_protected_again(rig: Rig) -> None:
    rig.lease()
    table = rig.engine._tables.get(rig.table.info.table_id)
    for bucket in rig.engine.catalog.buckets(rig.table.info.table_id):
        failed = table.tablet(table.bucket_id(bucket))
        assert failed is not None
        failed.standing.fail(OSError("the disk was broken"))
        rig.engine.reopen(bucket)

    rig.churn(2, 3, 4, 5)

    assert rig.leased_values() == {1}
    rig.engine.leases.drop("job")
    rig.tasks.run_due()
    assert {s.id for s in rig.table.list_snapshots()} == {4, 5}


def test_leased_cut_outlives_a_power_loss_also_where_writes_do_not() -> None:
    rig = Rig(replace(SETTINGS, fsync=FsyncMode.NEVER))
    cut = CutOffsets(rig.table.info.table_id, dict(rig.table.cut()))
    rig.engine.leases.acquire(AcquireLease("job", HOUR_MS, cuts=(cut,)))
    rig.fill(2)
    lost = rig.disk.after_power_loss(3)

    rig.kill(lost)

    assert rig.leased_values() == {1}


def test_bucket_taken_up_again_is_protected_again(rig: Rig) -> None:
    rig.lease()
    for bucket in rig.engine.catalog.buckets(rig.table.info.table_id):
        rig.engine.step_down(bucket)
        rig.engine.take_up(bucket)

    rig.churn(2, 3, 4, 5)

    assert rig.leased_values() == {1}
    rig.engine.leases.drop("job")
    rig.tasks.run_due()
    assert {s.id for s in rig.table.list_snapshots()} == {4, 5}


def test_lease_that_could_not_be_stored_holds_nothing(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: object) -> int:
        raise UnavailableError("metadata is away")

    monkeypatch.setattr(rig.metadata, "commit", refuse)
    with pytest.raises(UnavailableError):
        rig.lease()
    monkeypatch.undo()

    assert rig.engine.leases.list() == []
    assert {s.leased_by for s in rig.table.list_snapshots()} == {()}
    pins = {name for stats in rig.engine.tables.stats(rig.table.info.table_id).buckets for name in stats.pins}
    assert not any(name.startswith(("lease", "acquiring")) for name in pins)


def test_lease_that_could_not_be_given_back_still_holds(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    rig.lease()

    def refuse(_: object) -> int:
        raise UnavailableError("metadata is away")

    monkeypatch.setattr(rig.metadata, "commit", refuse)
    with pytest.raises(UnavailableError):
        rig.engine.leases.drop("job")
    monkeypatch.undo()
    rig.churn(2, 3, 4, 5)

    assert rig.leased_values() == {1}


def test_snapshots_are_taken_on_an_interval_of_the_table_or_the_node(rig: Rig) -> None:
    often = rig.connection.create_table(
        "often",
        "id BIGINT, PRIMARY KEY (id)",
        properties={"kv.snapshot.interval": "10s", "kv.snapshot.num-retained": "3"},
    )
    rig.tasks.run_due()
    for step in range(6):
        often.upsert([{"id": step}])
        rig.pass_time(1_000)
        rig.pass_time(10_000)

    assert [s.id for s in often.list_snapshots()] == [4, 5, 6]
    assert rig.table.list_snapshots() == []
    rig.pass_time(600_000)
    assert {s.id for s in rig.table.list_snapshots()} == {1}
    operations = rig.disk.operations
    rig.pass_time(600_000)
    assert {s.id for s in rig.table.list_snapshots()} == {1}
    assert rig.disk.operations == operations, "nothing changed, so nothing is written"


def test_snapshot_is_one_cut_of_all_buckets(rig: Rig) -> None:
    taken = rig.table.create_snapshot()
    rig.table.upsert([{"id": 1, "v": 7}])

    again = rig.table.create_snapshot()

    assert {bucket: s.offset for bucket, s in again.items()} == rig.table.cut()
    assert sorted(s.id or 0 for s in again.values()) == [1, 2]
    assert sum(s == taken[bucket] for bucket, s in again.items()) == 1


def test_full_disk_refuses_a_snapshot_and_leaves_the_table_whole(rig: Rig) -> None:
    def is_snapshot(operation: Operation) -> bool:
        return "snapshot" in operation.path

    rig.disk.fail_when(is_snapshot, 28, times=1)

    with pytest.raises(UnavailableError, match="no space left for a snapshot"):
        rig.engine.leases.create_snapshot(rig.table.info.table_id)

    assert {s.id for s in rig.engine.leases.create_snapshot(rig.table.info.table_id)} <= {1, 2}


def test_dropped_table_is_there_for_its_holder_across_a_restart_and_then_gone(rig: Rig) -> None:
    rig.lease(who="ann")
    info = rig.table.info
    rig.connection.drop_table("t")
    other = rig.connection.create_table("t", "id BIGINT, v BIGINT, PRIMARY KEY (id)")

    rig.kill()

    held = Table(rig.connection._link, info)
    assert set(held.scan(lease="job").to_arrow()["v"].to_pylist()) == {1}
    assert rig.engine.leases.kept_bytes("job") > 0
    with pytest.raises(TableNotFoundError):
        held.scan()
    with pytest.raises(TableNotFoundError):
        rig.engine.acting_as("bob").catalog.table_by_id(info.table_id)
    rig.pass_time(HOUR_MS)
    assert not any(path.startswith(f"tables/{info.table_id}/") for path in rig.disk.paths())
    with pytest.raises(TableNotFoundError):
        rig.engine._catalog.table_by_id(info.table_id, dropped=True)
    assert rig.engine.catalog.table("default.t").table_id == other.info.table_id


def partitioned(rig: Rig, **properties: str) -> Table:
    table = rig.connection.create_table(
        "days",
        "day STRING, id BIGINT, v BIGINT, PRIMARY KEY (day, id)",
        partitioned_by=["day"],
        properties=properties,
    )
    table.upsert([{"day": day, "id": i, "v": 1} for day in ("mon", "tue") for i in range(20)])
    return table


def test_dropped_partition_is_there_for_its_holder_across_a_restart_and_then_gone(rig: Rig) -> None:
    days = partitioned(rig)
    rig.engine.leases.acquire(AcquireLease("job", HOUR_MS, (days.info.table_id,)))
    days.drop_partition({"day": "mon"})
    days.upsert([{"day": "mon", "id": 1, "v": 2}])

    rig.kill()

    days = Table(rig.connection._link, days.info)
    assert days.scan(lease="job").to_arrow()["v"].to_pylist() == [1] * 40
    assert days.scan(filter="day = 'mon'").to_arrow()["v"].to_pylist() == [2]
    assert days.list_partitions() == ["day=mon", "day=tue"]
    assert len(days.stats().buckets) == 2
    rig.engine.leases.drop("job")
    # Who read it before the restart may come back for a TTL.
    rig.clock.advance(rig.engine.settings.scanner_ttl_ms)
    rig.tasks.run_due()
    assert not any(path.startswith(f"tables/{days.info.table_id}/1/") for path in rig.disk.paths())
    assert rig.engine._catalog.partitions.dropped() == []


def test_reader_of_a_partition_that_expires_under_it_is_not_failed(rig: Rig) -> None:
    days = partitioned(rig, **{"partition.retention": "30s"})
    scan = days.new_scan().limit(1_000).execute()
    rows = next(scan).num_rows

    rig.pass_time(29_000)
    days.upsert([{"day": "wed", "id": 1, "v": 1}])
    rig.pass_time(1_001)
    assert days.list_partitions() == ["day=wed"]

    assert rows + sum(batch.num_rows for batch in scan) == 40
    assert scan.to_arrow().num_rows == 40
    scan.close()
    with pytest.raises(PartitionNotFoundError):
        days.scan(buckets=[TableBucket("default.days", "day=mon", 0)])
    rig.pass_time(1_000)
    rig.pass_time(1_000)
    kept = {path.split("/")[2] for path in rig.disk.paths() if path.startswith(f"tables/{days.info.table_id}/")}
    assert kept == {"3"}


def test_metrics_say_how_many_leases_there_are_and_what_they_cost(rig: Rig) -> None:
    rig.lease("one")
    rig.clock.advance(30_000)
    rig.lease("two")
    rig.churn(2, 3, 4, 5)
    rig.pass_time(10_000)

    numbers = rig.engine.metrics.snapshot()

    assert numbers["penstock_leases"] == 2
    assert numbers["penstock_leased_buckets"] == numbers["penstock_leased_snapshots"] == 2
    assert numbers["penstock_lease_oldest_age_seconds"] == 82
    rig.engine.leases.drop("two")
    rig.pass_time(10_000)
    assert rig.engine.metrics.snapshot()["penstock_leased_bytes"] == rig.engine.leases.kept_bytes("one") > 0


def test_damaged_lease_record_is_found_at_start(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR)
    rig.lease()
    (entry,) = rig.metadata.list("lease/")
    for position in range(0, len(entry.value), 7):
        damaged = bytearray(entry.value)
        damaged[position] ^= 4
        with pytest.raises(CorruptionError):
            decode_lease(bytes(damaged), name="lease/job")


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_lease_of_a_hundred_thousand_buckets_is_under_a_megabyte_and_a_tenth_of_a_second(
    kind: str, tmp_path: Any
) -> None:
    seed = 5
    print(f"seed={seed}")
    numbers = pa.array(range(100_000)).to_numpy()
    offsets = (numbers * 7_919_777 + seed) % (1 << 40)
    holds = {
        BucketId(7, number // 100, number % 100): Hold(1 + number % 4_000, offset, offset, 1_700_000_000_000, 5_000)
        for number, offset in zip(numbers.tolist(), offsets.tolist(), strict=True)
    }
    record = LeaseRecord("job", "ann", HOUR_MS, 1_700_000_000_000, 1, hold_rows(holds))
    store: MetadataStore = MemoryMetadataStore() if kind == "memory" else SqliteMetadataStore(tmp_path / "meta.db")
    took = []
    for _ in range(5):
        start = time.process_time()
        stored = encode_lease(record)
        store.commit([Put("lease/job", stored)])
        entry = store.get("lease/job")
        assert entry is not None
        loaded = decode_lease(entry.value, name="lease/job")
        took.append(time.process_time() - start)
    store.close()

    assert len(stored) < 1_000_000
    assert loaded.holds() == holds
    assert min(took) < 0.1


def test_lease_book_reads_back_what_it_stored(rig: Rig) -> None:
    rig.lease()
    store = LeaseStore(rig.metadata, rig.clock)

    (loaded,) = store.load(rig.engine.leases._lease_pins)

    assert loaded.lease_id == "job"
    assert len(loaded.holds) == 2


def test_renewal_writes_the_time_alone_and_outlives_the_node(rig: Rig) -> None:
    rig.lease(duration_ms=1_000)
    (stored,) = rig.metadata.list("lease/")

    renewed = rig.engine.leases.renew("job", 2 * HOUR_MS)

    assert rig.metadata.list("lease/") == [stored]
    assert renewed.duration_ms == 2 * HOUR_MS
    rig.kill()
    assert rig.engine.leases.get("job").expires_ms == renewed.expires_ms
    assert rig.engine.leases.get("job").duration_ms == 2 * HOUR_MS
    rig.engine.leases.drop("job")
    assert rig.metadata.list("lease") == []


def test_lease_of_before_times_had_entries_keeps_its_own(rig: Rig) -> None:
    rig.lease(duration_ms=2 * HOUR_MS)
    expires_ms = rig.engine.leases.get("job").expires_ms
    rig.metadata.commit([Delete("lease-time/job")])

    rig.kill()

    assert rig.engine.leases.get("job").expires_ms == expires_ms
    assert rig.engine.leases.renew("job", None).duration_ms == 2 * HOUR_MS


def test_record_of_version_1_is_read_and_its_snapshots_are_measured(rig: Rig) -> None:
    rig.table.create_snapshot()
    lease = rig.lease()
    (entry,) = rig.metadata.list("lease/")
    record = decode_lease(entry.value, name="lease/job")
    rig.metadata.commit([Put(entry.key, _encode_version_1(record), entry.version)])

    rig.kill()

    assert rig.engine.leases.get("job") == lease
    assert {hold.bytes for hold in decode_lease(_encode_version_1(record), name="x").holds().values()} == {-1}


def _encode_version_1(record: LeaseRecord) -> bytes:
    facts = {name: getattr(record, name) for name in ("lease_id", "owner", "duration_ms", "expires_ms", "created_ms")}
    head = json.dumps(facts).encode()
    columns = np.ascontiguousarray(record.rows.T[:7], "<i8")
    columns[5] = columns[4] - columns[5]
    for column in (0, 1, 2, 6):
        columns[column] = np.diff(columns[column], prepend=0)
    body = columns.view(np.uint8).reshape(7, len(record.rows), 8).transpose(0, 2, 1).tobytes()
    return frame(b"PNLS", 1, struct.pack("<II", len(head), len(record.rows)) + head + zlib.compress(body))


def test_lease_is_shown_renewed_and_dropped_without_opening_its_tables(rig: Rig) -> None:
    rig.table.create_snapshot()
    lease = rig.lease()
    rig.kill()
    opened = [table.info.path for table in rig.engine._tables.all()]

    assert rig.engine.leases.get("job") == lease
    rig.engine.leases.renew("job", None)
    rig.engine.leases.drop("job")

    assert [table.info.path for table in rig.engine._tables.all()] == opened == []


def test_snapshot_waits_for_nothing_that_is_done_to_another_table(rig: Rig) -> None:
    other = rig.connection.create_table("other", "id BIGINT, PRIMARY KEY (id)")
    other.upsert([{"id": 1}])
    at_work = rig.engine._tables.get(other.info.table_id).bucket_id(TableBucket("default.other", None, 0))

    with rig.engine.maintenance.attending(at_work):
        background = threading.Thread(target=rig.engine.maintenance.run)
        background.start()
        taking = threading.Thread(target=rig.table.create_snapshot)
        taking.start()
        taking.join(30)
        assert not taking.is_alive()
        assert len(rig.table.list_snapshots()) == 2
    background.join()
