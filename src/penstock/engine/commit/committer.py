"""The committer: one per table, the only one who changes it.

It drains the calls that wait, plans them in order, appends all, syncs the touched files side by
side, then publishes ends, index and one immutable view at once. So group commit, table-wide cuts
and barriers come from one place. A group that a disk refuses anywhere is taken back everywhere before
another follows; if it cannot be, none does: the last group alone may be in some of its buckets only,
and opening the table cuts it off. Steps of background work that swap files run here too, between
groups. It has a thread of its own, so that an interrupted caller never leaves half a commit.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from itertools import groupby
from typing import Any, Protocol, TypeVar

from penstock.codec.stored.group_mark import GroupMark, encode_members
from penstock.engine.catalog.terms import Terms
from penstock.engine.commit.group import QueuedWrite, WriteGroup
from penstock.engine.commit.pending_result import PendingResult
from penstock.engine.commit.queue import WriteQueue
from penstock.engine.commit.refusals import refusal
from penstock.engine.commit.sync_pool import SyncPool
from penstock.errors import BucketFailedError, InternalError, PenstockError, UnavailableError
from penstock.model.node.calls import WriteCall
from penstock.model.place.bucket import BucketId
from penstock.runtime.clock import Clock
from penstock.runtime.steady_clock import SteadyClock
from penstock.tablet.tablet import Tablet
from penstock.tablet.view.view import TabletView

T = TypeVar("T")


class WriteAdmission(Protocol):
    """Who may write what: asked in the committer about every write, before it is planned."""

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

    def applied(self, call: WriteCall, queued: QueuedWrite) -> None:
        """Take notice of a write that was made in somebody's name."""


TableView = Mapping[BucketId, TabletView]


class Committer:
    """Orders all writes and swaps of one table. Thread-safe."""

    def __init__(self, name: str, terms: Terms, clock: Clock, syncs: SyncPool) -> None:
        self.view: TableView = {}
        self.published = threading.Condition()
        """Held while index and view change; notified when a view is new."""
        self.guard: WriteAdmission | None = None
        self._name = name
        self._terms = terms
        self._clock = SteadyClock(clock)
        self._syncs = syncs
        self._tablets: dict[BucketId, Tablet] = {}
        self._group = -1
        self._doubt: list[Tablet] = []
        """Buckets that may have a part of a group which was not committed."""
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

    def run(self, step: Callable[[], T]) -> T:
        """Run a step between two groups of writes and publish what it changed."""
        if self._thread is threading.current_thread():
            return step()
        answer: PendingResult[T] = PendingResult()
        self._queue.put((step, answer))
        return answer.result()

    def write_found(self, find: Callable[[], QueuedWrite]) -> QueuedWrite:
        """Commit the write that `find` makes of the present view; nothing is written in between.

        Raises:
            PenstockError: as `write` has it.
        """

        def both() -> QueuedWrite:
            write = find()
            if write.parts:
                self._commit([write])
                write.done.result()
            return write

        return self.run(both)

    def add_tablets(self, tablets: Mapping[BucketId, Tablet]) -> None:
        """Take up buckets."""

        def add() -> None:
            for tablet in tablets.values():
                tablet.exclusively = self.run
                if self.guard is not None:
                    self.guard.adopt(tablet)
            self._tablets = {**self._tablets, **tablets}
            self._group = max([self._group, *(tablet.state.group for tablet in tablets.values())])
            # Timestamps never go back: behind ones that are far ahead of the clock they go on, and do not stand still.
            self._clock.go_on_from(max((tablet.state.timestamp_ms for tablet in tablets.values()), default=0))

        self.run(add)

    def replace_tablet(self, tablet: Tablet) -> None:
        """Put a reopened bucket in the place of the failed one; only inside a step."""
        tablet.exclusively = self.run
        self._tablets = {**self._tablets, tablet.bucket: tablet}

    def take_back_all(self) -> None:
        """Take back what is left of a group that was not committed; only inside a step.

        Raises:
            BucketFailedError: the disk still refuses; the table takes no writes.
        """
        self._doubt = [tablet for tablet in self._doubt if not tablet.take_back()]
        self._check_certain()

    def _check_certain(self) -> None:
        if self._doubt:
            raise BucketFailedError(
                "table takes no writes: the disk did not let a failed one be taken back; reopen it",
                bucket=self._doubt[0].bucket,
            ) from self._doubt[0].failure

    def remove_tablets(self, buckets: list[BucketId]) -> list[Tablet]:
        """Let go of buckets; they vanish from the view."""

        def remove() -> list[Tablet]:
            left = dict(self._tablets)
            gone = [left.pop(bucket) for bucket in buckets if bucket in left]
            self._tablets = left
            return gone

        return self.run(remove)

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
                self._commit_or_fail(work)
            else:
                self._step(*work)
            del work  # an idle committer must not keep alive what a step held: files wait for their last reader

    def _step(self, step: Callable[[], Any], answer: PendingResult[Any]) -> None:
        try:
            result = step()
        except BaseException as error:  # noqa: BLE001 - handed to whoever asked for the step
            self._publish({})
            answer.set_exception(error)
        else:
            self._publish({})
            answer.set_result(result)

    def commit_now(self, writes: list[QueuedWrite]) -> None:
        """Commit writes that are the table's own, in one group, all or none; only inside a step.

        Raises:
            PenstockError: the first cause. A bucket that failed may have kept others from being applied.
        """
        self.commit_planned(self.plan_now(writes))

    def plan_now(self, writes: list[QueuedWrite]) -> WriteGroup:
        """Plan writes that are the table's own, all or none, and change nothing; only inside a step.

        Raises:
            PenstockError: one of them cannot be planned.
        """
        group = self._planned(writes)
        for write in writes:
            if write.done.done():
                write.done.result()
        return group

    def commit_planned(self, group: WriteGroup) -> None:
        """Commit what was planned in this very step.

        Raises:
            PenstockError: as `commit_now` has it.
        """
        self._commit_planned(group)
        for write in group.accepted:
            write.done.result()

    def _commit_or_fail(self, calls: list[QueuedWrite]) -> None:
        """Commit; a bug on the way fails the buckets concerned and says so to every caller that waits."""
        try:
            self._commit(calls)
        except BaseException as error:  # noqa: BLE001 - handed to the callers, who wait for it
            for bucket in {bucket for call in calls for bucket in call.parts if bucket in self._tablets}:
                self._tablets[bucket].failure = error
            for call in calls:
                if not call.done.done():
                    broken = InternalError("the commit failed in a way it must not; reopen the bucket and report it")
                    broken.__cause__ = error
                    call.done.set_exception(broken)

    def _commit(self, calls: list[QueuedWrite]) -> None:
        if self.guard is None:
            self._commit_group(calls)
            return
        ready: list[QueuedWrite] = []
        for call in calls:
            try:
                if self.guard.wants_settling(call):
                    self._commit_group(ready)
                    ready = []
                self.guard.admit(call)
            except BaseException as error:  # noqa: BLE001 - handed to the caller, who waits for it
                call.done.set_exception(error)
            else:
                ready.append(call)
        self._commit_group(ready)

    def _commit_group(self, calls: list[QueuedWrite]) -> None:
        self._commit_planned(self._planned(calls))

    def _planned(self, calls: list[QueuedWrite]) -> WriteGroup:
        group = WriteGroup(self._tablets, self._terms, self._clock, self._check_certain)
        for shape, alike in groupby(calls, key=lambda call: call.shape):
            for unit in [list(alike)] if shape is not None else [[call] for call in alike]:
                group.add(unit)
        return group

    def _commit_planned(self, group: WriteGroup) -> None:
        touched = [self._tablets[bucket] for bucket in group.entries]
        failed: dict[BucketId, BaseException] = {}
        if touched:
            self._group += 1
            if not self._store(group, touched):
                return
            with self.published:
                views: dict[BucketId, TabletView] = {}
                for tablet in touched:
                    self._publish_tablet(tablet, group, views, failed)
                self._show(views)
        for tablet in touched:
            if tablet.bucket not in failed and tablet.wants_roll():
                self._roll(tablet)
        self._queue.expect_again(len(group.accepted))
        for call in group.accepted:
            _answer(call, failed)

    def _store(self, group: WriteGroup, touched: list[Tablet]) -> bool:
        """Make a group durable in all of its buckets; otherwise take it back in all, and tell its callers why."""
        places = [(bucket.partition_id, bucket.bucket) for bucket in group.entries]
        mark = GroupMark(self._group, encode_members(places) if len(places) > 1 else b"")
        try:
            for tablet in touched:
                failing = tablet.bucket
                tablet.append(group.entries[failing], mark)
            errors = self._syncs.run_all([tablet.sync for tablet in touched])
        except (OSError, BucketFailedError) as error:
            self._take_back(touched)
            refused = refusal(error, failing) if isinstance(error, OSError) else error
            for call in group.accepted:
                doubt = _taken_back(call, {failing: error}, in_doubt=True) if self._doubt else None
                call.done.set_exception(doubt or refused)
            return False
        except BaseException:
            self._take_back(touched)
            raise
        failed = {t.bucket: e for t, e in zip(touched, errors, strict=True) if e is not None}
        if failed:
            self._take_back(touched)
            for call in group.accepted:
                call.done.set_exception(_taken_back(call, failed, in_doubt=bool(self._doubt)))
        return not failed

    def _take_back(self, touched: list[Tablet]) -> None:
        self._doubt = touched
        self._doubt = [tablet for tablet in touched if not tablet.take_back()]

    def _publish_tablet(
        self,
        tablet: Tablet,
        group: WriteGroup,
        views: dict[BucketId, TabletView],
        failed: dict[BucketId, BaseException],
    ) -> None:
        try:
            planned = group.planned(tablet.bucket)
            views[tablet.bucket] = tablet.publish(group.entries[tablet.bucket], planned, self._group)
        except BucketFailedError as error:
            failed[tablet.bucket] = error

    def _roll(self, tablet: Tablet) -> None:
        # A segment that cannot be finished fails its bucket; the write itself is durable and stands.
        try:
            tablet.roll()
        except BucketFailedError:
            return
        self._publish({})

    def _publish(self, views: dict[BucketId, TabletView]) -> None:
        with self.published:
            self._show(views)

    def _show(self, views: dict[BucketId, TabletView]) -> None:
        for bucket, view in views.items():
            self._tablets[bucket].view = view
        self.view = {bucket: tablet.view for bucket, tablet in self._tablets.items()}
        self.published.notify_all()


def _taken_back(call: QueuedWrite, failed: Mapping[BucketId, BaseException], *, in_doubt: bool) -> PenstockError:
    hit = [bucket for bucket in call.ranges if bucket in failed] or list(failed)
    if in_doubt:
        told: PenstockError = BucketFailedError(
            "the bucket failed, and the disk did not let the write be taken back; reopen the table, "
            "the write is in it whole or not at all then",
            failed=hit,
            applied={},
        )
    elif hit[0] in call.ranges:
        told = BucketFailedError("the bucket failed; nothing was written, reopen it", failed=hit, applied={})
    else:
        told = UnavailableError("a write beside this one failed; nothing was written, try again", failed=hit)
    told.__cause__ = failed[hit[0]]
    return told


def _answer(call: QueuedWrite, failed: Mapping[BucketId, BaseException]) -> None:
    hit = [bucket for bucket in call.ranges if bucket in failed]
    if not hit:
        call.done.set_result(call.ranges)
        return
    error = BucketFailedError(
        "the write is durable, but a bucket cannot show it; reopen that", failed=hit, applied=dict(call.ranges)
    )
    error.__cause__ = failed[hit[0]]
    call.done.set_exception(error)
