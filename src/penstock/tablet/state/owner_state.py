"""The last work of owners in one bucket, as the headers of its log say it.

Two things must be known after a restart, however far the base has moved: which staged rows were
applied, so that none is applied twice; and which attempts wrote here, which were taken back and
which one ended, so that the first to end wins. The state is part of each checkpoint and is brought up
to date from the headers of the log after it; recording a header again changes nothing.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from penstock.model.place.change import BatchKind
from penstock.model.place.facts import NO_ID, BatchFacts

OWNERS_KEPT: Final = 1_000
_UNDOES: Final = frozenset((BatchKind.UNDO, BatchKind.ORPHAN))


class StagedMark(NamedTuple):
    """The staged rows that were applied last: their epoch, and their number in it."""

    epoch: int
    number: int


@dataclass(frozen=True, slots=True)
class AttemptRun:
    """The attempts of one owner under one fence, in the order in which they came."""

    fence: int
    opened: tuple[bytes, ...] = ()
    fenced: frozenset[bytes] = frozenset()
    ended: bytes | None = None
    ended_rows: int = 0

    @property
    def current(self) -> bytes | None:
        """Return the attempt that may write: the latest, unless it was taken back."""
        latest = self.opened[-1] if self.opened else None
        return None if latest in self.fenced else latest


class OwnerState:
    """The marks of every owner of one bucket."""

    def __init__(self) -> None:
        self._runs: OrderedDict[int, AttemptRun] = OrderedDict()
        self._staged: OrderedDict[int, StagedMark] = OrderedDict()

    def run(self, owner: int, fence: int) -> AttemptRun:
        """Return the attempts of an owner under that fence."""
        run = self._runs.get(owner)
        return run if run is not None and run.fence == fence else AttemptRun(fence)

    def staged(self, owner: int) -> StagedMark | None:
        """Return which staged rows of an owner were applied last."""
        return self._staged.get(owner)

    def record(self, facts: BatchFacts) -> None:
        """Take in the header of a batch that is durable."""
        if facts.owner < 0:
            return
        if facts.kind is BatchKind.STAGED_COMMIT:
            mark = StagedMark(facts.epoch, facts.sequence)
            self._staged[facts.owner] = max(mark, self._staged.get(facts.owner, mark))
            _bound(self._staged, facts.owner)
        elif facts.attempt != NO_ID:
            run = self._runs.get(facts.owner)
            if run is None or run.fence < facts.fence:
                run = AttemptRun(facts.fence)
            if run.fence == facts.fence:
                self._runs[facts.owner] = _after(run, facts)
                _bound(self._runs, facts.owner)

    def to_bytes(self) -> bytes:
        """Return the state for a checkpoint."""
        runs = [
            [o, r.fence, [a.hex() for a in r.opened], sorted(a.hex() for a in r.fenced), _hex(r.ended), r.ended_rows]
            for o, r in self._runs.items()
        ]
        if not runs and not self._staged:
            return b""
        return json.dumps({"runs": runs, "staged": [[o, *mark] for o, mark in self._staged.items()]}).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> OwnerState:
        """Return the state that a checkpoint holds."""
        state = cls()
        stored = json.loads(data) if data else {"runs": [], "staged": []}
        for owner, fence, opened, fenced, ended, rows in stored["runs"]:
            state._runs[owner] = AttemptRun(
                fence,
                tuple(bytes.fromhex(attempt) for attempt in opened),
                frozenset(bytes.fromhex(attempt) for attempt in fenced),
                None if ended is None else bytes.fromhex(ended),
                rows,
            )
        for owner, epoch, number in stored["staged"]:
            state._staged[owner] = StagedMark(epoch, number)
        return state


def _after(run: AttemptRun, facts: BatchFacts) -> AttemptRun:
    if facts.kind in _UNDOES:
        return replace(run, fenced=run.fenced | {facts.attempt})
    if facts.attempt not in run.opened:
        run = replace(run, opened=(*run.opened, facts.attempt))
    if facts.kind is BatchKind.ATTEMPT_END and run.ended is None:
        # The header of an end has no writer; its sequence says how many rows the attempt wrote.
        run = replace(run, ended=facts.attempt, ended_rows=facts.sequence)
    return run


def _hex(attempt: bytes | None) -> str | None:
    return None if attempt is None else attempt.hex()


def _bound(kept: OrderedDict[int, AttemptRun] | OrderedDict[int, StagedMark], owner: int) -> None:
    kept.move_to_end(owner)
    if len(kept) > OWNERS_KEPT:
        kept.popitem(last=False)
