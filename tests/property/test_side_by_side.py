"""Random lives of owners side by side on one row, whose writes often change nothing, beside an oracle.

The oracle folds the list of writes that count, from nothing, and knows neither log nor undo: a write that
is undone is taken off the list. So whatever an undo leaves must be what a run without the undone writes
would have left: rows that somebody's null alone would have made, values that were there already, columns
cleared, values taken back, staged rows that appear at a commit, beside epochs that are open meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from tests.kit.owner_rig import OwnerRig, attempt_id

from penstock.errors import InvalidError, LockedError
from penstock.model.node.calls import Operation
from penstock.model.node.owner_token import OwnerToken
from penstock.model.place.system_columns import CHANGE_TYPE

SCHEDULES = 80
PER_TEST = 20
STEPS = 25
OWNED = ("a", "b")
COLUMNS = (*OWNED, "x")
KEYS = 2
VALUES = (None, None, 0, 1)

UPSERT, TAKE_BACK, CLEAR, DELETE = "upsert", "take back", "clear", "delete"
Rows = list[tuple[int, int | None]]


@dataclass
class Write:
    """One call, as the oracle folds it."""

    kind: str
    column: str
    rows: Rows
    owner: str | None = None
    epoch: int = -1


@dataclass
class Job:
    """What the oracle knows of an owner; `staged` waits for its epoch's commit."""

    column: str
    handle: OwnerToken
    token: OwnerToken | None = None
    committed: int = -1
    staged: dict[bytes, list[Write]] = field(default_factory=dict)


class Life:
    """One random life of a table; `sums`: an aggregating one."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.sums = self.random.random() < 0.5
        kind = " SUM" if self.sums else ""
        ddl = f"k BIGINT, a BIGINT{kind}, b BIGINT{kind}, x BIGINT{kind}, PRIMARY KEY (k)"
        # Without locks others may write what an epoch wrote; of columns that nobody else writes all is the same.
        self.locked = self.sums or self.random.random() < 0.8
        options: dict[str, Any] = {"properties": {"delete.behavior": "allow"}}
        if self.locked:
            options["properties"]["column-lock.enabled"] = "true"
        if self.sums:
            options["merge_engine"] = "aggregate"
        self.rig = OwnerRig(ddl, buckets=self.random.choice((1, 2)), **options)
        self.writes: list[Write] = []
        self.jobs: dict[str, Job] = {}
        self.attempts = 0

    def run(self) -> None:
        """Live, comparing after every step; in the end undo what is open, in any order."""
        try:
            for _ in range(STEPS):
                self.step()
                assert self.table() == self.expected()
            for name in self.random.sample(sorted(self.jobs), len(self.jobs)):
                self.undo(name)
                assert self.table() == self.expected()
            assert self.rig.pins() == []
        finally:
            self.rig.close()

    def step(self) -> None:
        """Do one random thing."""
        for column in OWNED:
            if column not in self.jobs and self.random.random() < 0.5:
                handle = self.rig.acquire(f"job-{column}", column, ttl_ms=1 << 40)
                committed = next(i.committed_epoch for i in self.rig.owners.infos() if i.owner == handle.owner)
                self.jobs[column] = Job(column, handle, committed=committed)
        name = self.random.choice([*self.jobs, None])
        if name is None:
            self.by_nobody()
            return
        acts: list[Callable[[str], None]] = [self.begin, self.undo, self.commit, self.release]
        if self.jobs[name].token is not None:
            acts += [self.write_in_epoch] * 6 + [self.stage] * 3
        self.random.choice(acts)(name)

    def by_nobody(self) -> None:
        chance = self.random.random()
        if chance < 0.1:
            self.rig.compact()
        elif chance < 0.2:
            self.rig.crash(self.random.randrange(1 << 30), power_loss=self.random.random() < 0.5)
        else:
            free = [column for column in COLUMNS if column not in self.jobs]
            self.write(self.some_write(self.random.choice(free)), None)

    def begin(self, name: str) -> None:
        job = self.jobs[name]
        self.take_off(name)
        job.token = self.rig.begin(job.handle, job.committed + 1)

    def undo(self, name: str) -> None:
        self.take_off(name)
        self.rig.owners.undo(self.jobs[name].handle)
        self.jobs[name].token = None

    def release(self, name: str) -> None:
        self.take_off(name)
        self.rig.owners.release(self.jobs.pop(name).handle)

    def commit(self, name: str) -> None:
        job = self.jobs[name]
        if job.token is None:
            return
        chosen = {attempt: calls for attempt, calls in job.staged.items() if self.random.random() < 0.7}
        counts = {attempt: sum(len(call.rows) for call in calls) for attempt, calls in chosen.items()}
        self.rig.owners.commit(job.handle, job.token.epoch, counts)
        self.writes += [call for calls in chosen.values() for call in calls]
        job.committed, job.token = job.token.epoch, None
        job.staged.clear()

    def write_in_epoch(self, name: str) -> None:
        job = self.jobs[name]
        self.write(replace(self.some_write(job.column), owner=name), job.token)

    def stage(self, name: str) -> None:
        """Stage a call under one of the epoch's attempts; those applied are in the order of their calls."""
        job = self.jobs[name]
        assert job.token is not None
        write = self.some_write(job.column, kinds=(UPSERT, TAKE_BACK) if self.sums else (UPSERT,))
        self.attempts += 1
        attempt = attempt_id(self.attempts)
        self.rig.owners.staged.stage(replace(self.call(write, job.token), attempt=attempt))
        job.staged[attempt] = [write]

    def some_write(self, column: str, kinds: tuple[str, ...] = ()) -> Write:
        if not kinds:
            kinds = (UPSERT, UPSERT, UPSERT, CLEAR, TAKE_BACK if self.sums else UPSERT, DELETE)
        kind = self.random.choice(kinds) if self.locked else UPSERT
        keys = [self.random.randrange(KEYS) for _ in range(self.random.randint(1, 2))]
        return Write(kind, column, [(key, self.random.choice(VALUES)) for key in keys])

    def write(self, write: Write, token: OwnerToken | None) -> None:
        write.epoch = -1 if token is None else token.epoch
        call = self.call(write, token)
        others = [name for name in self.jobs if name != write.owner]
        if write.kind == DELETE and others:
            with pytest.raises(LockedError):
                self.rig.send(call)
            return
        if write.kind == DELETE and self.sums and write.owner is not None:
            with pytest.raises(InvalidError, match="every column"):
                self.rig.send(call)
            return
        try:
            self.rig.send(call)
        except (LockedError, InvalidError):
            assert write.kind == CLEAR  # the row might go, with others' values
            assert others or self.sums
            return
        self.writes.append(write)

    def call(self, write: Write, token: OwnerToken | None) -> Any:
        rows = [{"k": key, write.column: value} for key, value in write.rows]
        if write.kind in {CLEAR, DELETE}:
            call = self.rig.call([{"k": row["k"]} for row in rows], operation=Operation.DELETE, owner=token)
            return replace(call, columns=(write.column,)) if write.kind == CLEAR else call
        call = self.rig.call(rows, columns=[write.column], owner=token)
        if write.kind == UPSERT:
            return call
        kinds = pa.array(["-U"] * len(rows), pa.string())
        return replace(call, operation=Operation.APPLY, batch=call.batch.append_column(CHANGE_TYPE, kinds))

    def take_off(self, name: str) -> None:
        committed = self.jobs[name].committed
        self.writes = [write for write in self.writes if write.owner != name or write.epoch <= committed]
        self.jobs[name].staged.clear()

    def table(self) -> dict[int, dict[str, int | None]]:
        return {row.pop("k"): row for row in self.rig.rows()}

    def expected(self) -> dict[int, dict[str, int | None]]:
        """Fold the writes that count."""
        rows: dict[int, dict[str, int | None]] = {}
        for write in self.writes:
            if write.kind in {CLEAR, DELETE}:
                _clear(rows, write)
                continue
            for key, value in write.rows:
                back = write.kind == TAKE_BACK
                if key not in rows and back and value is None:
                    continue
                row = rows.setdefault(key, dict.fromkeys(COLUMNS))
                if not self.sums:
                    row[write.column] = value
                elif value is not None:
                    row[write.column] = (row[write.column] or 0) + (-value if back else value)
        return rows


def _clear(rows: dict[int, dict[str, int | None]], write: Write) -> None:
    for key, _ in write.rows:
        if key in rows:
            rows[key][write.column] = None
            if write.kind == DELETE or all(value is None for value in rows[key].values()):
                del rows[key]


@pytest.mark.parametrize("first", range(0, SCHEDULES, PER_TEST))
def test_table_equals_a_run_in_which_undone_owners_never_wrote(first: int) -> None:
    for seed in range(first, first + PER_TEST):
        print(f"seed={seed}")
        Life(seed).run()
