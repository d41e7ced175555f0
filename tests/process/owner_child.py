"""A job that writes epochs to one column in every way there is, and kills itself after so many calls."""

from __future__ import annotations

import os
import signal
import sys
import uuid
from collections.abc import Callable
from random import Random
from typing import Any, TypeVar

import penstock
from penstock.errors import FencedError

T = TypeVar("T")
EPOCHS = 4
FENCED = 4


def rows_of(column: str, epoch: int) -> list[dict[str, Any]]:
    """Return what an epoch writes, always the same: new partitions come with later epochs."""
    random = Random(f"{column}-{epoch}")
    keys = [(random.choice((0, epoch)), random.randrange(6)) for _ in range(random.randint(4, 20))]
    return [{"p": p, "k": k, column: random.randint(-9, 9)} for p, k in keys]


class Job:
    """One run of the job: each call to the server is counted, and one is its last."""

    def __init__(self, url: str, column: str, calls: int) -> None:
        self.table = penstock.connect(url).table("t")
        self.column = column
        self.calls_left = calls

    def call(self, act: Callable[[], T]) -> T:
        """Make a call; die after the last one."""
        result = act()
        self.calls_left -= 1
        if self.calls_left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    def run(self) -> None:
        """Write the epochs that are not committed, and release the owner."""
        owner = self.call(lambda: self.table.acquire_owner(f"job-{self.column}", columns=[self.column], ttl="1h"))
        for epoch in range(max(0, owner.committed_epoch), EPOCHS):
            if self.call(lambda epoch=epoch: owner.begin(epoch)) == "new":  # type: ignore[misc]
                attempts = self.write(owner, epoch, rows_of(self.column, epoch))
                self.call(lambda epoch=epoch, attempts=attempts: owner.commit(epoch, attempts))  # type: ignore[misc]
        self.call(owner.release)

    def write(self, owner: penstock.Owner, epoch: int, rows: list[dict[str, Any]]) -> dict[uuid.UUID, int] | None:
        """Write an epoch: in its open epoch, as two attempts of a task, staged, or half and half."""
        token, table, columns = owner.token(epoch), self.table, [self.column]
        half = len(rows) // 2
        first, second = uuid.uuid4(), uuid.uuid4()
        if epoch % 4 == 0:
            for part in (rows[:half], rows[half:]):
                self.call(lambda part=part: table.upsert(part, columns=columns, owner=owner))  # type: ignore[misc]
            return None
        if epoch % 4 == 1:
            self.call(lambda: table.upsert(rows[:half], columns=columns, owner=token, attempt=first))
            self.call(lambda: table.upsert(rows, columns=columns, owner=token, attempt=second))
            self.call(lambda: table.end_attempt(owner=token, attempt=second, rows=len(rows)))
            late = self.call(lambda: table.upsert(rows, columns=columns, owner=token, attempt=uuid.uuid4()))
            assert late.done, "a twin came late and was not told so"
            return {second: len(rows)}
        if epoch % 4 == 2:
            self.call(lambda: table.stage(rows, owner=token, attempt=first, columns=columns))
            self.call(lambda: table.stage(rows, owner=token, attempt=second, columns=columns))
            return {second: len(rows)}
        self.call(lambda: table.upsert(rows[:half], columns=columns, owner=owner))
        self.call(lambda: table.stage(rows[half:], owner=token, attempt=first, columns=columns))
        return {first: len(rows) - half}


if __name__ == "__main__":
    try:
        Job(sys.argv[1], sys.argv[2], int(sys.argv[3])).run()
    except FencedError:
        sys.exit(FENCED)
