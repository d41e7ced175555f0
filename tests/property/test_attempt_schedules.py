"""Random jobs whose tasks run twice, die, rise again and stage: every committed epoch counts once.

Each task of an epoch adds 1 to its own keys, which are all of one bucket, or stages them. Attempts of a
task run beside each other in any order; the driver dies and begins the epoch again; the server is
killed or loses power. Whatever happens, a key's sum is the number of epochs committed.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, field
from random import Random

import pytest
from tests.kit.owner_rig import OwnerRig, attempt_id

from penstock.errors import ConflictError, FencedError
from penstock.model.node.owner_token import OwnerToken

SCHEDULES = 100
PER_TEST = 25
EPOCHS = 2
TASKS = 3
STEPS_MAX = 3_000


@dataclass
class Attempt:
    """One run of one task: the calls it has still to make, and what came of it."""

    ident: bytes
    task: int
    token: OwnerToken
    dropped: list[int]
    written: int = 0
    calls: int = 0


@dataclass
class Job:
    """A job with a driver and tasks, of which those in `staging` stage."""

    seed: int
    random: Random = field(init=False)
    ids: int = 0

    def __post_init__(self) -> None:
        self.random = Random(self.seed)
        self.rig = OwnerRig("k BIGINT, a BIGINT SUM, PRIMARY KEY (k)", merge_engine="aggregate", buckets=TASKS)
        self.keys = self._keys_by_bucket()
        self.staging = {task for task in range(TASKS) if self.random.random() < 0.3}

    def _keys_by_bucket(self) -> list[list[int]]:
        found: list[list[int]] = [[] for _ in range(TASKS)]
        for key in range(60):
            (bucket,) = self.rig.table.route(self.rig.call([{"k": key, "a": 1}])).parts
            found[bucket.bucket].append(key)
        return [keys[:3] for keys in found]

    def run(self) -> None:
        """Run all epochs to their end."""
        self.owner = self.rig.acquire("job")
        try:
            for epoch in range(EPOCHS):
                self.run_epoch(epoch)
                sums = {row["k"]: row["a"] for row in self.rig.rows()}
                assert sums == {key: epoch + 1 for keys in self.keys for key in keys}
            assert self.rig.pins() == []
        finally:
            self.rig.close()

    def run_epoch(self, epoch: int) -> None:
        """Run attempts until each task has a winner and the epoch is committed."""
        token = self.rig.begin(self.owner, epoch)
        running: list[Attempt] = []
        winners: dict[int, tuple[bytes, int]] = {}
        for _ in range(STEPS_MAX):
            if len(winners) == TASKS:
                self.rig.owners.commit(self.owner, epoch, dict(winners.values()))
                return
            chance = self.random.random()
            if chance < 0.03:
                self.rig.crash(self.random.randrange(1 << 30), power_loss=self.random.random() < 0.5)
            elif chance < 0.04:
                # The driver dies: another one begins the epoch again; tasks of the first go on unaware.
                self.owner = self.rig.acquire("job")
                token, winners = self.rig.begin(self.owner, epoch), {}
            elif chance < 0.12 or not running:
                running.append(self.start(token, winners))
            else:
                self.advance(self.random.choice(running), running, winners, token)
        raise AssertionError("the epoch never ended")

    def start(self, token: OwnerToken, winners: Container[int]) -> Attempt:
        self.ids += 1
        # Mostly tasks that have not ended; now and then a twin that nobody waits for any more.
        wanted = [task for task in range(TASKS) if task not in winners]
        task = self.random.choice(wanted if self.random.random() < 0.8 else range(TASKS))
        return Attempt(attempt_id(self.ids), task, token, list(self.keys[task]))

    def advance(
        self, attempt: Attempt, running: list[Attempt], winners: dict[int, tuple[bytes, int]], token: OwnerToken
    ) -> None:
        """Let an attempt make its next call, or end; one that is told to stop does."""
        try:
            if attempt.dropped:
                self.write(attempt)
                return
            won = (attempt.ident, attempt.written)
            if attempt.task not in self.staging:
                end = self.rig.end(attempt.token, attempt.ident, attempt.written)
                won = (end.attempt, end.rows)
            if attempt.token == token:
                winners.setdefault(attempt.task, won)
        except (FencedError, ConflictError):
            # Told to stop; or the server forgot in a restart who had beaten it. A new run finds out.
            pass
        running.remove(attempt)

    def write(self, attempt: Attempt) -> None:
        rows = [{"k": attempt.dropped[0], "a": 1}]
        facts = {"writer_id": attempt.ident, "sequence": attempt.calls}
        for _ in range(self.random.choice((1, 1, 2))):  # a reply that was lost: the same call again
            if attempt.task in self.staging:
                self.rig.stage(rows, attempt.token, attempt.ident, **facts)
            else:
                self.rig.write(rows, owner=attempt.token, attempt=attempt.ident, **facts)
        attempt.dropped.pop(0)
        attempt.calls += 1
        attempt.written += 1


@pytest.mark.parametrize("first", range(0, SCHEDULES, PER_TEST))
def test_every_committed_epoch_counts_once(first: int) -> None:
    for seed in range(first, first + PER_TEST):
        print(f"seed={seed}")
        Job(seed).run()
