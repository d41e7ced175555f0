"""The committer of a table: it alone changes the table.

It has a thread of its own, so that an interrupted caller never leaves half a commit. Waiting calls become a group,
and the group goes through these states. Nothing of it is seen before it is published.

    state      what happens in it                                    what it leads to
    ---------  ----------------------------------------------------  ------------------------------------------
    waiting    calls queue up, steps among them                      admitted, with all that may go together
    admitted   the owners of the table let each call in; one that    planned; answered, if the call is refused
               changes something first (undoes what an expired
               owner left) waits until those before are answered
    planned    each call is planned against the view and all calls   appended; answered, if a call cannot be
               before it; nothing is touched                         planned; or the plan is dropped
    appended   each bucket's batches are in its log                  synced; else taken back, and answered
    synced     what was appended is durable                          published; else taken back, and answered
    published  ends and index are changed, then one immutable view   answered; where a bucket cannot show its
               of all buckets is shown                               part, its callers are told to reopen it
    answered   each caller has its offsets or its error

A group is answered before the next one is planned. So group commit, table-wide cuts and barriers come from one
place. `ShardLog` takes a group from planned to synced, or says that it was taken back, or that it is in doubt: then
the table plans nothing more until that is settled.

A *step* is anything else that changes the table: a swap of files, an act of an owner. It runs between two groups
and may plan and commit writes of its own.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from itertools import groupby
from typing import Any, NamedTuple, Protocol, TypeVar

from penstock.engine.catalog.terms import Terms
from penstock.engine.commit.group import QueuedWrite, WriteGroup, was_made
from penstock.engine.commit.pending_result import PendingResult
from penstock.engine.commit.queue import WriteQueue
from penstock.engine.commit.refused_calls import RefusedCalls
from penstock.engine.commit.shard_log import NotAppended, ShardLog
from penstock.errors import BucketFailedError, InternalError, LockedError, PenstockError
from penstock.model.node.calls import WriteCall
from penstock.model.place.bucket import BucketId
from penstock.model.table.table import TableInfo
from penstock.runtime.clock import Clock
from penstock.runtime.steady_clock import SteadyClock
from penstock.tablet.tablet import Tablet
from penstock.tablet.view.view import TabletView

T = TypeVar("T")


class Uncommitted(NamedTuple):
    """The changes of an owner, from an offset on and above an epoch, that it has not committed."""

    owner: int
    start: int
    above: int


class WriteAdmission(Protocol):
    """The admission of writes: asked in the committer about every write, before it is planned."""

    def stamp(self, call: WriteCall, queued: QueuedWrite, principal: str) -> None:
        """Say under which owner a principal makes a write."""

    def check(self, write: QueuedWrite) -> None:
        """Raise why a write may not be made in the name that it is made in, if it may not."""

    def wants_settling(self, write: QueuedWrite) -> bool:
        """Tell whether to admit a write means to change something first; all before it are committed then."""

    def admit(self, write: QueuedWrite) -> None:
        """Let a write in, or raise why not; what it must not meet is undone, and what it may drop is dropped."""

    def adopt(self, tablet: Tablet) -> None:
        """Take up a bucket before it is seen."""

    def check_alteration(self, before: TableInfo, after: TableInfo) -> None:
        """Make room for an altered table, or raise why it cannot be altered now."""

    def uncommitted(self, bucket: BucketId) -> list[Uncommitted]:
        """Return whose changes of a bucket may be undone yet; only inside a step."""

    def applied(self, call: WriteCall, queued: QueuedWrite) -> None:
        """Take notice of a write that was made in an owner's name."""


TableView = Mapping[BucketId, TabletView]


class Committer:
    """Orders all writes and swaps of one table.

    Thread-safe: the queue has a lock; all else is changed on the committer's thread, index and views under `published`.
    """

    def __init__(self, name: str, terms: Terms, clock: Clock, log: ShardLog) -> None:
        self.view: TableView = {}
        self.published = threading.Condition()
        """Held while index and view change; notified when a view is new."""
        self.guard: WriteAdmission | None = None
        self._name = name
        self._terms = terms
        self._clock = SteadyClock(clock)
        self._log = log
        self._tablets: Mapping[BucketId, Tablet] = {}
        self._refused = RefusedCalls()
        self._stamp_ms = 0
        self._time_stands = False
        self._queue = WriteQueue(self._start)
        self._thread: threading.Thread | None = None

    @property
    def closed(self) -> bool:
        """Tell whether the table takes no calls any more."""
        return self._queue.closed is not None

    @property
    def tablets(self) -> Mapping[BucketId, Tablet]:
        """Return the open buckets; what was returned stays as it is when others come or go."""
        return self._tablets

    def write(self, write: QueuedWrite) -> dict[BucketId, tuple[int, int]]:
        """Commit a write; return where its changes are once they are durable and visible.

        Raises:
            PenstockError: as the plan, the disk or the bucket's state has it; then nothing was
                written, unless the error has `applied`.
        """
        self._queue.put(write)
        return write.done.result()

    def write_found(self, find: Callable[[], QueuedWrite]) -> QueuedWrite:
        """Commit the write that `find` makes of the present view; nothing is written in between.

        Raises:
            PenstockError: as `write` has it.
        """

        def both() -> QueuedWrite:
            write = find()
            if write.parts:
                self._take([write])
                write.done.result()
            return write

        return self.run(both)

    def run(self, step: Callable[[], T]) -> T:
        """Run a step between two groups of writes and publish what it changed."""
        if self._thread is threading.current_thread():
            return step()
        answer: PendingResult[T] = PendingResult()
        self._queue.put((step, answer))
        return answer.result()

    def plan(self, writes: list[QueuedWrite]) -> WriteGroup:
        """Plan writes that are the table's own, all or none, and change nothing; only inside a step.

        Raises:
            PenstockError: one of them cannot be planned.
        """
        group = self._planned(writes)
        for write in writes:
            if write.done.done():
                write.done.result()
        return group

    def commit(self, group: WriteGroup) -> None:
        """Commit what was planned in this very step, in one group.

        Raises:
            PenstockError: the first cause. A bucket that failed may have kept others from being applied.
        """
        self._finish(group)
        for write in group.accepted:
            write.done.result()

    def add_tablets(self, tablets: Mapping[BucketId, Tablet]) -> None:
        """Take up buckets."""

        def add() -> None:
            for tablet in tablets.values():
                if self.guard is not None:
                    self.guard.adopt(tablet)
            self._lead({**self._tablets, **tablets})
            # Timestamps never go back: behind ones that are far ahead of the clock they go on, and do not stand still.
            self._stamp_ms = max([self._stamp_ms, *(tablet.state.timestamp_ms for tablet in tablets.values())])
            self._clock.go_on_from(self._stamp_ms)

        self.run(add)

    def stamp_ms(self) -> int:
        """Return the present moment, as writes have it: never before that of any write; only inside a step."""
        if not self._time_stands:
            self._stamp_ms = max(self._stamp_ms, self._clock.wall_ms())
        return self._stamp_ms

    def pass_moment(self, timestamp_ms: int) -> None:
        """Have every write from now on be of a later moment than this one; only inside a step."""
        if not self._time_stands:
            self._stamp_ms = max(self._stamp_ms, timestamp_ms + 1)

    def stop_time(self, timestamp_ms: int) -> None:
        """Let the present be this moment from now on: of a table that another process writes no later one is known."""
        self._stamp_ms, self._time_stands = max(self._stamp_ms, timestamp_ms), True

    def replace_tablet(self, tablet: Tablet) -> None:
        """Put a reopened bucket in the place of the failed one; only inside a step."""
        self._lead({**self._tablets, tablet.bucket: tablet})

    def remove_tablets(self, buckets: list[BucketId]) -> list[Tablet]:
        """Let go of buckets; they vanish from the view."""

        def remove() -> list[Tablet]:
            kept = dict(self._tablets)
            gone = [kept.pop(bucket) for bucket in buckets if bucket in kept]
            self._lead(kept)
            return gone

        return self.run(remove)

    def take_back_all(self) -> None:
        """Take back what there may be of a group in doubt; only inside a step.

        Raises:
            BucketFailedError: the disk still refuses; the table takes no writes.
        """
        self._log.settle()

    def close(self, reason: PenstockError) -> None:
        """Finish what waits, then refuse everything; idempotent."""
        if not self._queue.close(reason):
            return
        if self._thread is not None:
            self._thread.join()
        with self.published:
            self.published.notify_all()

    def _start(self) -> None:
        self._thread = threading.Thread(target=self._work, name=f"penstock-commit-{self._name}", daemon=True)
        self._thread.start()

    def _work(self) -> None:
        while (work := self._queue.take()) is not None:
            if isinstance(work, list):
                self._take_or_fail(work)
            else:
                self._step(*work)
            del work  # an idle committer must not keep alive what a step held: files wait for their last reader

    def _step(self, step: Callable[[], Any], answer: PendingResult[Any]) -> None:
        try:
            result = step()
        except BaseException as error:  # noqa: BLE001 - handed to the caller, who waits for the step
            self._show_all()
            answer.set_exception(error)
        else:
            self._show_all()
            answer.set_result(result)

    def _take_or_fail(self, calls: list[QueuedWrite]) -> None:
        """Take waiting calls; a bug on the way fails the buckets concerned, and every caller that waits is told."""
        try:
            self._take(calls)
        except BaseException as error:  # noqa: BLE001 - handed to the callers, who wait for it
            for bucket in {bucket for call in calls for bucket in call.parts if bucket in self._tablets}:
                self._tablets[bucket].standing.fail(error)
            for call in calls:
                if not call.done.done():
                    broken = InternalError("the commit failed in a way it must not; reopen the bucket and report it")
                    broken.__cause__ = error
                    call.done.set_exception(broken)

    def _take(self, calls: list[QueuedWrite]) -> None:
        """Take calls from waiting to answered."""
        for admitted in self._admitted(calls):
            self._finish(self._planned(admitted))

    def _admitted(self, calls: list[QueuedWrite]) -> Iterator[list[QueuedWrite]]:
        """Yield the calls that are let in: all together, but for what must be answered before one is asked about."""
        if self.guard is None:
            yield calls
            return
        admitted: list[QueuedWrite] = []
        for call in calls:
            if admitted and self.guard.wants_settling(call):
                yield admitted
                admitted = []
            try:
                self.guard.admit(call)
            except BaseException as error:  # noqa: BLE001 - handed to the caller, who waits for it
                if isinstance(error, LockedError) and was_made(call, self._tablets):
                    admitted.append(call)  # its retry, which is answered as it was
                else:
                    call.done.set_exception(error)
            else:
                admitted.append(call)
        yield admitted

    def _planned(self, calls: list[QueuedWrite]) -> WriteGroup:
        """Return calls as a group; one that cannot be planned is answered, and is not in it."""
        group = WriteGroup(self._tablets, self._terms, self.stamp_ms(), self._log.check, self._refused)
        for shape, alike in groupby(calls, key=lambda call: call.shape):
            for unit in [list(alike)] if shape is not None else [[call] for call in alike]:
                group.add(unit)
        return group

    def _finish(self, group: WriteGroup) -> None:
        """Take a group from planned to answered."""
        unseen: dict[BucketId, BucketFailedError] = {}
        if group.entries:
            if group.timestamp_ms < self._stamp_ms:
                group.stamp(self._stamp_ms)
            try:
                number = self._log.append(group.entries)
            except NotAppended as refused:
                group.refuse(refused)
                return
            unseen = self._publish(group, number)
        self._queue.expect_again(len(group.accepted))
        group.answer(unseen)

    def _publish(self, group: WriteGroup, number: int) -> dict[BucketId, BucketFailedError]:
        """Show what is durable of a group; return the buckets that cannot show their part."""
        views: dict[BucketId, TabletView] = {}
        unseen: dict[BucketId, BucketFailedError] = {}
        with self.published:
            for bucket, entries in group.entries.items():
                try:
                    views[bucket] = self._tablets[bucket].publish(entries, group.planned(bucket), number)
                except BucketFailedError as error:
                    unseen[bucket] = error
            for bucket, view in views.items():
                self._tablets[bucket].view = view
            self._show()
        for bucket in views:
            if self._tablets[bucket].log.wants_roll:
                self._roll(self._tablets[bucket])
        return unseen

    def _roll(self, tablet: Tablet) -> None:
        # A segment that cannot be finished fails its bucket; the write itself is durable and stands.
        try:
            tablet.roll()
        except BucketFailedError:
            return
        self._show_all()

    def _lead(self, tablets: Mapping[BucketId, Tablet]) -> None:
        for tablet in tablets.values():
            tablet.exclusively = self.run
        self._tablets = tablets
        self._log.lead(tablets)

    def _show_all(self) -> None:
        with self.published:
            self._show()

    def _show(self) -> None:
        self.view = {bucket: tablet.view for bucket, tablet in self._tablets.items()}
        self.published.notify_all()
