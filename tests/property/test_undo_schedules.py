"""A thousand random lives of a table with owners, each beside an oracle that knows no log.

The oracle is the list of writes that count, folded into a dict: a write that was undone is simply taken
off the list. Owners of disjoint columns begin, write, undo, commit, expire, lose their columns; others
write and delete beside them; zombies come back; files are compacted; the process is killed, or loses
power, anywhere, also inside an undo and inside a commit.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest
from tests.kit.owner_rig import MetadataCrashError, OwnerRig

from penstock.errors import BucketFailedError, ConflictError, FencedError, InvalidError, LockedError
from penstock.model.node.owner_token import OwnerToken
from penstock.model.node.principal import LOCAL
from penstock.testing.fault_plan import SimulatedCrash

SCHEDULES = 1_000
PER_TEST = 50
STEPS = 30
TTL_MS = 1_000
GRACE_MS = 60_000
OWNED = ("a", "b", "c")
Key = tuple[int, int]

CRASHES = (SimulatedCrash, MetadataCrashError, BucketFailedError)


@dataclass
class Write:
    """A write that counts until it is undone."""

    key: Key
    column: str | None
    """None: a delete."""
    value: int
    owner: str | None = None
    epoch: int = -1


@dataclass
class Job:
    """What the oracle knows of one owner."""

    column: str
    handle: OwnerToken
    expires_ms: int
    token: OwnerToken | None = None
    committed: int = -1
    zombies: list[OwnerToken] = field(default_factory=list)


class Life:
    """One random life of a table."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.sums = self.random.random() < 0.5
        kind = " SUM" if self.sums else ""
        ddl = f"p BIGINT, k BIGINT, a BIGINT{kind}, b BIGINT{kind}, c BIGINT{kind}, x BIGINT{kind}, PRIMARY KEY (p, k)"
        options: dict[str, Any] = {"properties": {"column-lock.enabled": "true", "delete.behavior": "allow"}}
        if self.sums:
            options["merge_engine"] = "aggregate"
        if self.random.random() < 0.3:
            options["partitioned_by"] = ["p"]
        self.rig = OwnerRig(ddl, buckets=self.random.choice((1, 2)), bucket_key=["k"], **options)
        self.writes: list[Write] = []
        self.jobs: dict[str, Job] = {}
        self.value = 0
        self.attempted: Write | None = None

    def run(self) -> None:
        """Live, and compare after every step."""
        try:
            for _ in range(STEPS):
                self.step()
                assert self.table() == self.expected()
            self.settle()
            assert self.table() == self.expected()
            assert self.rig.pins() == []
        finally:
            self.rig.close()

    def step(self) -> None:
        """Do one random thing, now and then with a crash lurking in it."""
        act = self.random.choices(
            (
                self.acquire,
                self.begin,
                self.write_in_epoch,
                self.write_outside,
                self.write_unowned,
                self.delete_unowned,
                self.delete_owned,
                self.undo,
                self.commit,
                self.zombie,
                self.take_over,
                self.pass_time,
                self.rig.compact,
                self.restart,
            ),
            (3, 4, 14, 2, 4, 2, 2, 3, 4, 2, 2, 2, 2, 2),
        )[0]
        lurking = self.random.random() < 0.15 and act not in {self.restart, self.pass_time}
        if lurking:
            self.lay_trap()
        before, self.attempted = list(self.writes), None
        try:
            act()
        except CRASHES:
            assert lurking
            self.after_crash(before)
        else:
            self.rig.disk.clear_faults()
            self.rig.metadata.clear()

    def lay_trap(self) -> None:
        if self.random.random() < 0.3:
            self.rig.metadata.crash_in(self.random.randrange(2), applies=self.random.random() < 0.5)
        else:
            number = self.rig.disk.operations + self.random.randrange(6)
            self.rig.disk.crash_at(number, done=self.random.choice((0.0, 0.5, 1.0)))

    def after_crash(self, before: list[Write]) -> None:
        """Open the table again; what was under way counts or not, and the owners' own work is undone."""
        self.rig.crash(self.random.randrange(1 << 30), power_loss=self.random.random() < 0.5)
        self.forget_expiry()
        self.writes = before
        for name in list(self.jobs):
            self.reacquire(name)
        present = self.table()
        if present != self.expected() and self.attempted is not None:
            self.writes = [*self.writes, self.attempted]
        assert present == self.expected()

    def reacquire(self, name: str) -> None:
        """Come back as the same owner and begin anew: all that was not committed is undone."""
        job = self.jobs[name]
        infos = {info.owner: info for info in self.rig.owners.infos()}
        if name not in infos:
            del self.jobs[name]
            return
        job.committed = max(job.committed, infos[name].committed_epoch)
        self.take_back(name)
        try:
            if self.random.random() < 0.5:
                job.handle = self.rig.acquire(name, job.column, ttl_ms=TTL_MS)
            token = self.rig.begin(job.handle, job.committed + 1)
            job.handle = job.handle.at(fence=token.fence, epoch=-1)
            self.rig.owners.undo(job.handle)
        except (FencedError, LockedError):
            del self.jobs[name]  # it lost its columns in what crashed
            self.rig.owners.drop(name, undo=True, principal=LOCAL)
            return
        job.token = None
        self.touch(name)

    def acquire(self) -> None:
        free = [column for column in OWNED if column not in {job.column for job in self.jobs.values()}]
        names = [f"job-{column}" for column in free] or list(self.jobs)
        name = self.random.choice(names)
        self.jobs.setdefault(name, Job(name[-1], OwnerToken(self.rig.table.info.table_id, 0, name, 0, 0), 0))
        job = self.jobs[name]
        if job.token is not None:
            job.zombies.append(job.token)
        job.handle = self.rig.acquire(name, job.column, ttl_ms=TTL_MS)
        self.touch(name)
        if job.token is not None:
            job.token = job.token.at(fence=job.handle.fence, epoch=job.token.epoch)

    def begin(self) -> None:
        if (name := self.any_job()) is not None:
            job = self.jobs[name]
            if job.token is not None:
                job.zombies.append(job.token)
            self.take_back(name)
            job.token = self.rig.begin(job.handle, job.committed + self.random.randint(1, 3))
            job.handle = job.handle.at(fence=job.token.fence, epoch=-1)
            self.touch(name)

    def write_in_epoch(self) -> None:
        name = self.any_job()
        if name is not None and (token := self.jobs[name].token) is not None:
            for key in self.keys():
                self.upsert(key, self.jobs[name].column, token, name)

    def write_outside(self) -> None:
        name = self.any_job()
        if name is None or self.jobs[name].token is not None:
            return
        key, job = self.key(), self.jobs[name]
        try:
            self.upsert(key, job.column, job.handle, name)
        except ConflictError:  # its last epoch was undone
            self.rig.owners.leave(job.handle)
            self.touch(name)
            self.upsert(key, job.column, job.handle, name)

    def write_unowned(self) -> None:
        column = self.random.choice((*OWNED, "x"))
        for name, job in self.jobs.items():
            if job.column == column:
                if self.now() < job.expires_ms:
                    with pytest.raises(LockedError):
                        self.upsert(self.key(), column)
                    return
                self.lapse(name)
        self.upsert(self.key(), column)

    def delete_unowned(self) -> None:
        key = self.key()
        if self.has_no_partition(key):
            self.delete(key)
            return
        if any(self.now() < job.expires_ms for job in self.jobs.values()):
            with pytest.raises(LockedError):
                self.delete(key)
            return
        for name in self.jobs:
            self.lapse(name)
        self.delete(key)

    def delete_owned(self) -> None:
        name = self.any_job()
        if name is None or (token := self.jobs[name].token) is None:
            return
        others = {other: job for other, job in self.jobs.items() if other != name}
        key = self.key()
        if self.has_no_partition(key):
            self.delete(key, token, name)
            return
        if any(self.now() < job.expires_ms for job in others.values()):
            with pytest.raises(LockedError):
                self.delete(key, token, name)
            return
        if self.sums:
            # What others would fold on top could not be undone.
            with pytest.raises(InvalidError, match="every column"):
                self.delete(key, token, name)
            return
        for other in others:
            self.lapse(other)
        self.delete(key, token, name)

    def undo(self) -> None:
        if (name := self.any_job()) is not None:
            self.take_back(name)
            self.jobs[name].token = None
            self.rig.owners.undo(self.jobs[name].handle)
            self.touch(name)

    def commit(self) -> None:
        name = self.any_job()
        if name is None or (token := self.jobs[name].token) is None:
            return
        self.rig.owners.commit(self.jobs[name].handle, token.epoch, None)
        job = self.jobs[name]
        job.committed, job.token = token.epoch, None
        job.zombies.append(token)
        self.touch(name)

    def zombie(self) -> None:
        """Write, and try to end things, with a token that somebody newer has overtaken."""
        name = self.any_job()
        if name is None or not self.jobs[name].zombies:
            return
        token = self.random.choice(self.jobs[name].zombies)
        with pytest.raises(FencedError):
            self.upsert(self.key(), self.jobs[name].column, token, name)

    def take_over(self) -> None:
        """Let another owner take the columns of one whose time is up."""
        name = self.any_job()
        if name is None:
            return
        job = self.jobs[name]
        heir = f"heir-{job.column}"
        if heir == name:
            heir = f"job-{job.column}"
        if self.now() < job.expires_ms:
            with pytest.raises(LockedError):
                self.rig.acquire(heir, job.column, ttl_ms=TTL_MS)
            return
        self.lapse(name)
        handle = self.rig.acquire(heir, job.column, ttl_ms=TTL_MS)
        with pytest.raises(FencedError):
            self.rig.owners.renew(job.handle)
        del self.jobs[name]
        committed = next(i.committed_epoch for i in self.rig.owners.infos() if i.owner == heir)
        self.jobs[heir] = Job(job.column, handle, self.now() + TTL_MS, committed=committed)

    def pass_time(self) -> None:
        self.rig.clock.advance(self.random.choice((100, TTL_MS, GRACE_MS)))

    def restart(self) -> None:
        """Kill the process between two calls; jobs go on with the tokens they have."""
        self.rig.crash(self.random.randrange(1 << 30), power_loss=self.random.random() < 0.5)
        self.forget_expiry()

    def settle(self) -> None:
        """Undo or commit everything, in any order."""
        names = list(self.jobs)
        self.random.shuffle(names)
        for name in names:
            if self.random.random() < 0.7:
                self.take_back(name)
                self.rig.owners.undo(self.jobs[name].handle)
            elif (token := self.jobs[name].token) is not None:
                self.rig.owners.commit(self.jobs[name].handle, token.epoch, None)

    def upsert(self, key: Key, column: str, token: OwnerToken | None = None, name: str | None = None) -> None:
        self.value += 1
        write = Write(key, column, self.value, name, -1 if token is None else token.epoch)
        self.attempted = write if write.epoch < 0 else None
        row = {"p": key[0], "k": key[1], column: self.value}
        self.rig.write([row], columns=[column], owner=token)
        self.writes.append(write)

    def delete(self, key: Key, token: OwnerToken | None = None, name: str | None = None) -> None:
        write = Write(key, None, 0, name, -1 if token is None else token.epoch)
        self.attempted = write if write.epoch < 0 else None
        self.rig.delete([{"p": key[0], "k": key[1]}], owner=token)
        self.writes.append(write)

    def lapse(self, name: str) -> None:
        """Take back what an expired owner left, if it left anything: its epoch is closed then."""
        job = self.jobs[name]
        if any(self.is_open(write, name) for write in self.writes):
            self.take_back(name)
        if job.token is not None and job.token.epoch >= 0 and self.was_pending(name):
            job.zombies.append(job.token)
            job.token = None

    def was_pending(self, name: str) -> bool:
        return any(pin == f"owner-{self.jobs[name].handle.number}" for pin in self.rig.pins())

    def take_back(self, name: str) -> None:
        self.writes = [write for write in self.writes if not self.is_open(write, name)]

    def is_open(self, write: Write, name: str) -> bool:
        return write.owner == name and write.epoch > self.jobs[name].committed

    def touch(self, name: str) -> None:
        self.jobs[name].expires_ms = max(self.jobs[name].expires_ms, self.now() + TTL_MS)

    def forget_expiry(self) -> None:
        for job in self.jobs.values():
            job.expires_ms = self.now() + max(GRACE_MS, TTL_MS)

    def any_job(self) -> str | None:
        return self.random.choice(sorted(self.jobs)) if self.jobs else None

    def key(self) -> Key:
        return self.random.randrange(2), self.random.randrange(3)

    def has_no_partition(self, key: Key) -> bool:
        """Tell whether a delete of the key meets nothing, not even a bucket: it changes nothing then, whoever asks."""
        table = self.rig.table
        return table.info.partitioned and f"p={key[0]}" not in {each.name for each in table.partitions()}

    def keys(self) -> list[Key]:
        return [self.key() for _ in range(self.random.randint(1, 3))]

    def now(self) -> int:
        return self.rig.clock.monotonic_ms()

    def table(self) -> dict[Key, dict[str, int | None]]:
        return {(row.pop("p"), row.pop("k")): row for row in self.rig.rows()}

    def expected(self) -> dict[Key, dict[str, int | None]]:
        """Fold the writes that count."""
        rows: dict[Key, dict[str, int | None]] = {}
        for write in self.writes:
            if write.column is None:
                rows.pop(write.key, None)
                continue
            row = rows.setdefault(write.key, dict.fromkeys((*OWNED, "x")))
            before = row[write.column] if self.sums else None
            row[write.column] = write.value if before is None else before + write.value
        return rows


@pytest.mark.parametrize("first", range(0, SCHEDULES, PER_TEST))
def test_table_equals_the_fold_of_writes_that_count(first: int) -> None:
    for seed in range(first, first + PER_TEST):
        print(f"seed={seed}")
        Life(seed).run()
