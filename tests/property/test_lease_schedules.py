"""Leases through random lives of a node, beside a model: what is leased is exactly readable, nothing else stays.

Each case is a range of seeds; a failure names its seed: `LeaseLife(seed).run()` replays it.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from tests.kit.memory_key_index import MemoryKeyIndex

from penstock.codec.stored.lease_record import decode_lease
from penstock.engine.engine import Engine
from penstock.engine.home.storage import Storage
from penstock.engine.metadata.memory_store import MemoryMetadataStore
from penstock.engine.settings import Settings
from penstock.engine.table.open_table import OpenTable
from penstock.errors import LeaseNotFoundError, PenstockError
from penstock.model.node.calls import OpenScan, Operation, WriteCall
from penstock.model.node.lease import AcquireLease, CutOffsets
from penstock.model.place.bucket import TableBucket
from penstock.model.table.spec import make_spec
from penstock.model.table.table import TableInfo
from penstock.runtime.tasks import TaskGroup
from penstock.tablet.snapshots.stored_snapshot import StoredSnapshot
from penstock.testing.fault_plan import SimulatedCrash
from penstock.testing.faulty_disk import FaultyDisk
from penstock.testing.manual_clock import ManualClock

Rows = dict[int, int]
SETTINGS = Settings(scanner_ttl_ms=1, checkpoint_interval_ms=50, snapshot_interval_ms=200_000)
SPEC = make_spec("id BIGINT, v BIGINT, PRIMARY KEY (id)", properties={"log.retention": "1ms"})
STEPS = 12
LEASE_IDS = ("a", "b", "c")


@dataclass
class ModelLease:
    duration_ms: int
    deadline_ms: int
    expires_wall_ms: int
    held: dict[int, tuple[int | None, int]]


class LeaseLife:
    """A node and its model."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = Random(seed)
        self.clock = ManualClock()
        self.disk = FaultyDisk()
        self.metadata = MemoryMetadataStore()
        self.tables: dict[str, TableInfo] = {}
        self.infos: dict[int, TableInfo] = {}
        self.present: dict[int, Rows] = {}
        self.states: dict[int, dict[int, Rows]] = {}
        self.leases: dict[str, ModelLease] = {}
        self.attempted: dict[int, Rows] = {}
        self.doubtful: str | None = None
        self.open()
        for name in ("x", "y"):
            self.create(name)

    def run(self) -> None:
        """Live, look after every step, then clean up and look that nothing is left."""
        steps = [
            self.write,
            self.snapshot,
            self.compact,
            self.acquire,
            self.renew,
            self.release,
            self.drop_lease,
            self.pass_time,
            self.restart,
            self.drop_table,
            self.crash,
        ]
        for _ in range(STEPS):
            self.random.choices(steps, weights=[30, 14, 14, 16, 6, 5, 5, 8, 4, 2, 4])[0]()
            self.check()
        self.finish()

    def open(self) -> None:
        self.tasks = TaskGroup(self.clock, manual=True)
        self.engine = Engine(
            storage=Storage(self.disk, MemoryKeyIndex(), SETTINGS),
            metadata=self.metadata,
            settings=SETTINGS,
            clock=self.clock,
            tasks=self.tasks,
        )

    def create(self, name: str) -> None:
        info = self.engine.catalog.create_table(f"default.{name}", SPEC)
        self.tables[name] = self.infos[info.table_id] = info
        self.present[info.table_id] = {}
        self.states[info.table_id] = {0: {}}

    def write(self) -> None:
        info = self.any_table()
        rows = dict(self.present[info.table_id])
        keys = self.random.sample(range(8), self.random.randint(1, 4))
        if rows and self.random.random() < 0.25:
            operation, batch = Operation.DELETE, pa.record_batch({"id": pa.array(keys, pa.int64())})
            for key in keys:
                rows.pop(key, None)
        else:
            written = {key: self.random.randint(0, 99) for key in keys}
            rows |= written
            columns = {"id": pa.array(list(written), pa.int64()), "v": pa.array(list(written.values()), pa.int64())}
            operation, batch = Operation.UPSERT, pa.record_batch(columns)
        self.attempted = {info.table_id: rows}
        self.engine.tables.write(WriteCall(info.table_id, 0, operation, batch))
        self.settle(info)

    def snapshot(self) -> None:
        info = self.any_table()
        (taken,) = self.engine.leases.create_snapshot(info.table_id)
        assert taken.offset == self.visible(info)

    def compact(self) -> None:
        self.clock.advance(5)
        self.tasks.run_due()
        self.engine.maintenance.compact_now(self.live(self.any_table().table_id))

    def acquire(self) -> None:
        lease_id, duration_ms = self.random.choice(LEASE_IDS), self.random.choice((500, 30_000, 100_000, 400_000))
        latest: list[int] = []
        snapshots: dict[TableBucket, int] = {}
        cuts: list[CutOffsets] = []
        for info in self.random.sample(list(self.tables.values()), self.random.randint(1, 2)):
            bucket = TableBucket(info.path, None, 0)
            match self.random.randint(0, 2):
                case 0:
                    latest.append(info.table_id)
                case 1:
                    numbers = [s.id for s in self.engine.leases.list_snapshots(info.table_id) if s.id is not None]
                    snapshots[bucket] = self.random.choice([*numbers, 999])
                case _:
                    cuts.append(CutOffsets(info.table_id, {bucket: self.visible(info)}))
        self.doubtful = lease_id
        got = self.engine.leases.acquire(AcquireLease(lease_id, duration_ms, tuple(latest), snapshots, tuple(cuts)))
        assert set(got.unavailable) == {bucket for bucket, number in snapshots.items() if number == 999}
        before = self.leases.get(lease_id)
        self.doubtful = None
        held = {} if before is None or self.is_over(before) else before.held
        new = {leased.table_id: (leased.snapshot.id, leased.snapshot.offset) for leased in got.leased}
        assert set(new) == set(held) | set(latest) | {cut.table_id for cut in cuts} | {
            self.tables[bucket.table.removeprefix("default.")].table_id for bucket in snapshots.keys() - got.unavailable
        }
        self.leases[lease_id] = self.timed(duration_ms, new)

    def renew(self) -> None:
        lease_id = self.random.choice(LEASE_IDS)
        lease = self.leases.get(lease_id)
        duration_ms = self.random.choice((1_000, 90_000))
        with self.refused_if(lease is None or self.is_over(lease)):
            self.engine.leases.renew(lease_id, duration_ms)
            assert lease is not None
            self.leases[lease_id] = self.timed(duration_ms, lease.held)

    def release(self) -> None:
        lease_id, table_id = self.random.choice(LEASE_IDS), self.random.choice(list(self.infos))
        lease = self.leases.get(lease_id)
        with self.refused_if(lease is None or self.is_over(lease)):
            self.engine.leases.release(lease_id, [TableBucket(self.infos[table_id].path, None, 0)])
            assert lease is not None
            path = self.infos[table_id].path
            lease.held = {t: held for t, held in lease.held.items() if self.infos[t].path != path}

    def drop_lease(self) -> None:
        lease_id = self.random.choice(LEASE_IDS)
        self.doubtful = lease_id
        lease = self.leases.pop(lease_id, None)
        with self.refused_if(lease is None or self.is_over(lease)):
            self.engine.leases.drop(lease_id)
        self.doubtful = None

    def pass_time(self) -> None:
        self.clock.advance(self.random.choice((1, 400, 20_000, 70_000, 250_000)))
        self.clock.jump_wall(self.random.choice((0, 0, -3_600_000, 3_600_000)))
        self.tasks.run_due()

    def restart(self) -> None:
        """Kill the node, let some time pass, perhaps set the clock, and open it again."""
        for table in self.engine._tables.all():
            table.committer.close(LeaseNotFoundError("killed"))
        self.disk = self.disk.after_kill() if self.random.random() < 0.5 else self.disk.after_power_loss(self.seed)
        self.clock.advance(self.random.choice((1, 5_000, 100_000)))
        self.clock.jump_wall(self.random.choice((0, -86_400_000, 86_400_000)))
        wall_ms, now_ms = self.clock.wall_ms(), self.clock.monotonic_ms()
        for lease in self.leases.values():
            # One that nobody looked at since it ended is stored still, and gets its minute.
            remaining_ms = max(60_000, min(lease.duration_ms, lease.expires_wall_ms - wall_ms))
            lease.deadline_ms = now_ms + remaining_ms
        stored = {entry.key.removeprefix("lease/") for entry in self.metadata.list("lease/")}
        self.leases = {lease_id: lease for lease_id, lease in self.leases.items() if lease_id in stored}
        self.open()

    def crash(self) -> None:
        """Let the process die in one of the next operations of the disk, whatever it is doing, and open it again."""
        self.forget_attempts()
        self.disk.crash_at(self.disk.operations + self.random.randint(0, 20), done=self.random.choice((0.0, 0.5, 1.0)))
        step = self.random.choice([self.write, self.snapshot, self.compact, self.acquire, self.drop_lease])
        with suppress(SimulatedCrash, PenstockError):
            step()
            self.compact()
        self.restart()
        for info in self.tables.values():
            self.settle(info)
        for entry in self.metadata.list("lease/"):
            record = decode_lease(entry.value, name=entry.key)
            if record.lease_id == self.doubtful:
                # Stored, but nobody was told: it must be as good as any other.
                held = {b.table_id: (hold.snapshot_id or None, hold.offset) for b, hold in record.holds().items()}
                remaining_ms = max(60_000, min(record.duration_ms, record.expires_ms - self.clock.wall_ms()))
                deadline_ms = self.clock.monotonic_ms() + remaining_ms
                self.leases[record.lease_id] = ModelLease(record.duration_ms, deadline_ms, record.expires_ms, held)

    def forget_attempts(self) -> None:
        self.attempted, self.doubtful = {}, None

    def settle(self, info: TableInfo) -> None:
        """Take it that the last write is there, if it is."""
        states, visible = self.states[info.table_id], self.visible(info)
        if visible not in states:
            states[visible] = self.attempted[info.table_id]
        self.present[info.table_id] = states[visible]

    def drop_table(self) -> None:
        name = self.random.choice(list(self.tables))
        self.engine.catalog.drop_table(self.tables.pop(name).path)
        self.create(name)

    def check(self) -> None:
        for lease_id, lease in self.leases.items():
            if self.is_over(lease):
                with pytest.raises(LeaseNotFoundError):
                    self.engine.leases.get(lease_id)
                continue
            info = self.engine.leases.get(lease_id)
            assert {e.table_id: (e.snapshot.id, e.snapshot.offset) for e in info.leased} == lease.held
            for leased in info.leased:
                table = self.infos[leased.table_id]
                expected = self.states[leased.table_id][leased.snapshot.offset]
                assert self.scanned(table, leased.snapshot.offset, lease_id) == expected
                if leased.snapshot.id is not None:
                    with StoredSnapshot(self.disk, leased.snapshot.path) as stored:
                        assert as_rows(stored.to_arrow()) == expected
        for table in self.tables.values():
            assert self.scanned(table, self.visible(table), None) == self.present[table.table_id]

    def finish(self) -> None:
        """Give everything back and let the node do what is due: only the present and what is retained is left."""
        for lease_id, lease in self.leases.items():
            if not self.is_over(lease):
                self.engine.leases.drop(lease_id)
        # Beyond every stamp, however the clock was set: all changes are older than they are kept.
        self.clock.advance(400 * 86_400_000)
        self.tasks.run_due()
        self.clock.advance(1_000)
        self.tasks.run_due()
        assert self.metadata.list("lease/") == []
        assert self.tasks.failures() == {}
        expected: set[str] = set()
        for info in self.tables.values():
            table = self.live(info.table_id)
            self.engine.maintenance.compact_now(table)
            for tablet in table.committer.tablets.values():
                snapshots = tablet.snapshots.all()
                assert len(snapshots) <= SETTINGS.snapshots_retained
                assert tablet.view.base == min([s.offset for s in snapshots], default=tablet.view.visible)
                names = {name for e in tablet.state.entries.values() for name in (e.name, e.ends) if name}
                names |= {name for snapshot in snapshots for name in snapshot.file_names()}
                expected |= {tablet.files.path(name) for name in names}
                expected |= {tablet.snapshots.path(snapshot.snapshot_id) for snapshot in snapshots}
        if self.stored() != expected:
            # An error's traceback may hold a view, and so its files, in a cycle.
            gc.collect()
        assert self.stored() == expected
        self.engine.close()

    def stored(self) -> set[str]:
        return {path for path in self.disk.paths() if path.rpartition("/")[2].startswith(("data", "ends", "snapshot"))}

    def timed(self, duration_ms: int, held: dict[int, tuple[int | None, int]]) -> ModelLease:
        now_ms, wall_ms = self.clock.monotonic_ms(), self.clock.wall_ms()
        return ModelLease(duration_ms, now_ms + duration_ms, wall_ms + duration_ms, held)

    def is_over(self, lease: ModelLease) -> bool:
        return self.clock.monotonic_ms() >= lease.deadline_ms

    def any_table(self) -> TableInfo:
        return self.random.choice(list(self.tables.values()))

    def live(self, table_id: int) -> OpenTable:
        return self.engine._tables.get(table_id)

    def visible(self, info: TableInfo) -> int:
        return self.engine.changes.offsets(info.table_id)[TableBucket(info.path, None, 0)].end

    def scanned(self, info: TableInfo, offset: int, lease_id: str | None) -> Rows:
        bucket = TableBucket(info.path, None, 0)
        page = self.engine.scan.open(OpenScan(info.table_id, 0, bucket, as_of=offset, lease_id=lease_id))
        if page.scanner_id is not None:
            self.engine.scan.close(page.scanner_id)
        assert not page.has_more
        return as_rows(page.batch)

    @contextmanager
    def refused_if(self, refused: bool) -> Iterator[None]:
        if refused:
            with pytest.raises(LeaseNotFoundError):
                yield
        else:
            yield


def as_rows(table: Any) -> Rows:
    keys = table["id"].to_pylist()
    assert len(set(keys)) == len(keys)
    return dict(zip(keys, table["v"].to_pylist(), strict=True))


@pytest.mark.parametrize("block", range(10))
def test_leased_is_exactly_readable_and_nothing_else_stays(block: int) -> None:
    live(range(block * 100, block * 100 + 100))


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("block", range(1, 10))
def test_leased_is_exactly_readable_over_ten_thousand_lives(block: int) -> None:
    live(range(block * 1_000, block * 1_000 + 1_000))


def live(seeds: range) -> None:
    for seed in seeds:
        try:
            LeaseLife(seed).run()
        except (AssertionError, PenstockError) as error:
            raise AssertionError(f"seed={seed}") from error
