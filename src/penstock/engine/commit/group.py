"""A group of writes on its way through one commit.

Calls are planned in order, each against all before it; a call whose plan fails leaves nothing
behind. Neighbouring calls of the same shape are planned as one: their rows simply follow each other.
All changes of a group have one timestamp, in every bucket: no moment falls into the middle of a call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, pairwise

import numpy as np
import pyarrow as pa

from penstock.engine.catalog.terms import Terms
from penstock.engine.commit.conforming import conformed, of_schema
from penstock.engine.commit.expectation import Expectation, Unmet
from penstock.engine.commit.pending_result import PendingResult
from penstock.engine.commit.refused_calls import RefusedCalls
from penstock.engine.commit.shard_log import NotAppended
from penstock.errors import BucketFailedError, ConflictError, NotLeaderError
from penstock.model.place.bucket import BucketId
from penstock.model.place.change import BatchKind
from penstock.model.place.facts import NO_ID, BatchFacts
from penstock.model.schema.schema import Schema
from penstock.tablet.merge.rule import Request
from penstock.tablet.plan.plan import Plan
from penstock.tablet.plan.planner import Met, Planned, Planner
from penstock.tablet.schema import TabletSchema
from penstock.tablet.state.writer_state import Applied
from penstock.tablet.tablet import Entry, Tablet

Ranges = dict[BucketId, tuple[int, int]]
"""Where the changes of a call are, half-open, per bucket."""


@dataclass(frozen=True, slots=True)
class OwnerStamp:
    """The owner, fence, epoch and attempt of a write, as log headers say it."""

    owner: int
    fence: int
    epoch: int = -1
    attempt: bytes = NO_ID


NO_OWNER = OwnerStamp(-1, -1)


@dataclass(slots=True)
class QueuedWrite:
    """A routed call that waits for the committer.

    `shape` is equal for calls that may be planned together; None for one that may not. `schema_id` says by which
    schema its rows were made, `known`; None: by the present one. `ignored` is how many of its rows changed nothing,
    once it was planned, where that is not what its changes leave.
    """

    parts: Mapping[BucketId, Request]
    rows: int
    size_bytes: int
    columns: tuple[int, ...] | None = None
    writer_id: bytes = NO_ID
    sequence: int = -1
    shape: object | None = None
    done: PendingResult[Ranges] = field(default_factory=PendingResult)
    ranges: Ranges = field(default_factory=dict)
    ignored: int | None = None
    stamp: OwnerStamp = NO_OWNER
    kind: BatchKind = BatchKind.DATA
    schema_id: int | None = None
    known: Schema | None = None
    late: bool = False
    """Another attempt had ended where this one would write: those rows were dropped."""
    expectation: Expectation | None = None
    refusal: ConflictError | None = None
    """Why nothing of it is written, though what it met is: to be told when that is durable."""

    @property
    def is_mark(self) -> bool:
        """Tell whether the log has to say that the write was here, also where it changed nothing."""
        return self.writer_id != NO_ID or self.stamp.attempt != NO_ID or self.kind is not BatchKind.DATA

    def ignored_beside(self, changes: int) -> int:
        """Return how many rows changed nothing; rows that were folded into a change did change something."""
        if self.ignored is None:
            return max(0, self.rows - changes)
        routed = sum(int(request.rows.num_rows) for request in self.parts.values())
        return self.rows - routed + self.ignored


class WriteGroup:
    """Plans calls and collects what each bucket has to append. Committer only."""

    def __init__(
        self,
        tablets: Mapping[BucketId, Tablet],
        terms: Terms,
        timestamp_ms: int,
        check: Callable[[], None],
        refused: RefusedCalls,
    ) -> None:
        """Begin a group of the moment `timestamp_ms`; `check` raises while the table takes no writes."""
        self._check = check
        self._refused = refused
        self._tablets = tablets
        self._terms = terms
        self.timestamp_ms = timestamp_ms
        self._planners: dict[BucketId, Planner] = {}
        self.entries: dict[BucketId, list[Entry]] = {}
        self.accepted: list[QueuedWrite] = []

    def planned(self, bucket: BucketId) -> Planned:
        """Return all that was planned for a bucket."""
        return self._planners[bucket].planned

    def refuse(self, refused: NotAppended) -> None:
        """Tell every caller why the group is not in the log."""
        for call in self.accepted:
            call.done.set_exception(refused.told(call.ranges))

    def answer(self, unseen: Mapping[BucketId, BaseException]) -> None:
        """Tell every caller where its changes are, but for buckets that cannot show theirs, or why there are none."""
        for call in self.accepted:
            if call.refusal is not None:
                self._refused.add(call.writer_id, call.sequence, call.refusal)
                call.done.set_exception(call.refusal)
                continue
            hit = [bucket for bucket in call.ranges if bucket in unseen] if unseen else ()
            if not hit:
                call.done.set_result(call.ranges)
                continue
            error = BucketFailedError(
                "the write is durable, but a bucket cannot show it; reopen that", failed=hit, applied=dict(call.ranges)
            )
            error.__cause__ = unseen[hit[0]]
            call.done.set_exception(error)

    def stamp(self, timestamp_ms: int) -> None:
        """Move the group to a later moment: another was committed since it was planned."""
        self.timestamp_ms = timestamp_ms
        for entries in self.entries.values():
            entries[:] = [(facts._replace(timestamp_ms=timestamp_ms), rows) for facts, rows in entries]

    def add(self, calls: Sequence[QueuedWrite]) -> None:
        """Plan calls of one shape together, or a single call; a failure is theirs alone."""
        before = {bucket: planner.planned for bucket, planner in self._planners.items()}
        new_entries: dict[BucketId, list[Entry]] = {}
        try:
            self._check()
            met = self._meet(calls[0]) if calls[0].expectation is not None else {}
            for bucket in sorted({bucket for call in calls for bucket in call.parts}):
                planned = [call for call in calls if bucket in call.parts]
                new_entries[bucket] = self._plan_bucket(bucket, planned, met.get(bucket))
        except BaseException as error:  # noqa: BLE001 - handed to the callers, who wait for it
            for bucket, planner in self._planners.items():
                if bucket in before:
                    planner.planned = before[bucket]
            self._planners = {bucket: self._planners[bucket] for bucket in before}
            if isinstance(error, ConflictError) and calls[0].expectation is not None:
                # It may have met what others of this group write: it is told so once that is durable.
                calls[0].refusal = error
                self.accepted.extend(calls)
            elif len(calls) == 1:
                calls[0].done.set_exception(error)
            for call in calls if len(calls) > 1 else ():
                call.ranges.clear()
                call.ignored = None
                self.add([call])
            return
        for bucket, entries in new_entries.items():
            if entries:
                self.entries.setdefault(bucket, []).extend(entries)
        self.accepted.extend(calls)

    def _meet(self, call: QueuedWrite) -> dict[BucketId, Met]:
        """Find the rows that a call meets in each bucket, all of which are checked before anything is planned.

        Raises:
            ConflictError: they are not those that it expects.
        """
        assert call.expectation is not None
        before = [bucket for bucket in call.parts if _applied(self._tablet(bucket), call) is not None]
        if before:
            # Its condition held at its first try. What is not in a bucket now went with that since.
            call.parts = {bucket: call.parts[bucket] for bucket in before}
            return {}
        self._refused.check(call.writer_id, call.sequence)
        unmet, met = Unmet(call.expectation), {}
        for bucket, request in call.parts.items():
            met[bucket] = self._planner(bucket).meet(request)
            unmet.add(request, met[bucket].unmet)
        if unmet.rows:
            raise unmet.error()
        return met

    def _tablet(self, bucket: BucketId) -> Tablet:
        tablet = self._tablets.get(bucket)
        if tablet is None:
            raise NotLeaderError("this node does not lead the bucket now; try again", bucket=bucket)
        return tablet

    def _planner(self, bucket: BucketId) -> Planner:
        planner = self._planners.get(bucket)
        if planner is None:
            planner = self._planners[bucket] = self._tablet(bucket).planner(self.timestamp_ms)
        return planner

    def _plan_bucket(self, bucket: BucketId, calls: list[QueuedWrite], met: Met | None) -> list[Entry]:
        tablet = self._tablet(bucket)
        fresh = []
        for call in calls:
            applied = _applied(tablet, call)
            if applied is None:
                fresh.append(call)
            else:
                call.ranges[bucket] = (applied.start, applied.end)
        if not fresh:
            return []
        planner = self._planner(bucket)
        request = _joined([call.parts[bucket] for call in fresh])
        request = _with_keys(request, tablet.schema)
        current = fresh[0].schema_id in {None, tablet.schema.schema_id}
        request = of_schema(request, tablet.schema) if current else conformed(request, tablet.schema, fresh[0].known)
        for call in fresh:
            # What the log says was written: not a column that was added after the call was routed.
            call.columns = request.columns
        plan = planner.plan(request, met)
        sizes = _sizes(bucket, fresh, plan)
        if fresh[0].shape is None or plan.folded is not None:
            _count_ignored(fresh, sizes, plan)
        return self._entries(tablet, bucket, fresh, plan, sizes)

    def _entries(
        self, tablet: Tablet, bucket: BucketId, calls: list[QueuedWrite], plan: Plan, sizes: list[int]
    ) -> list[Entry]:
        """Cut the plan's rows into log batches: one for each writer's call, one for all that have no writer."""
        bounds = list(accumulate(sizes, initial=0))
        if plan.batch.num_rows < len(plan.kept):
            bounds = np.concatenate([[0], np.cumsum(plan.kept)])[bounds].tolist()
        for call, (start, end) in zip(calls, pairwise(bounds), strict=True):
            call.ranges[bucket] = (plan.base_offset + start, plan.base_offset + end)
        if not any(call.is_mark for call in calls):
            calls, bounds = calls[:1], [bounds[0], bounds[-1]]
        term, whole = self._terms.of(bucket), len(calls) == 1
        entries: list[Entry] = []
        for call, (start, end) in zip(calls, pairwise(bounds), strict=True):
            if start == end and not call.is_mark:
                continue
            facts = BatchFacts(
                base_offset=plan.base_offset + start,
                rows=end - start,
                timestamp_ms=self.timestamp_ms,
                term=term,
                schema_id=tablet.schema.schema_id,
                kind=BatchKind.EMPTY if start == end and call.kind is BatchKind.DATA else call.kind,
                writer_id=call.writer_id,
                sequence=call.sequence,
                owner=call.stamp.owner,
                fence=call.stamp.fence,
                epoch=call.stamp.epoch,
                attempt=call.stamp.attempt,
                columns=call.columns,
            )
            rows = plan.batch if whole else plan.batch.slice(start, end - start)
            entries.append((facts, rows if end > start else None))
        return entries


def was_made(call: QueuedWrite, tablets: Mapping[BucketId, Tablet]) -> bool:
    """Tell whether a call was made before, in all of its buckets."""
    return all(bucket in tablets and _applied(tablets[bucket], call) is not None for bucket in call.parts)


def _applied(tablet: Tablet, call: QueuedWrite) -> Applied | None:
    """Return where a call's changes are in a bucket, if it was made before."""
    return None if call.writer_id == NO_ID else tablet.state.writers.find(call.writer_id, call.sequence)


def _sizes(bucket: BucketId, calls: list[QueuedWrite], plan: Plan) -> list[int]:
    """Return how many of the merged rows each call has; they follow each other as the calls do."""
    if len(calls) == 1:
        return [len(plan.kept)]
    if plan.calls is None:
        return [call.parts[bucket].rows.num_rows for call in calls]
    counts: list[int] = np.bincount(plan.calls, minlength=len(calls)).tolist()
    return counts


def _count_ignored(calls: list[QueuedWrite], sizes: list[int], plan: Plan) -> None:
    """Count for each call the rows that changed nothing; those that were folded into a change did."""
    if plan.batch.num_rows == len(plan.kept):
        for call in calls:
            call.ignored = call.ignored or 0
        return
    lost = np.where(plan.kept, 0, 1 if plan.folded is None else plan.folded)
    for call, (start, end) in zip(calls, pairwise(accumulate(sizes, initial=0)), strict=True):
        call.ignored = int(lost[start:end].sum()) + (call.ignored or 0)


def _with_keys(request: Request, schema: TabletSchema) -> Request:
    """Return the request with its keys; the router leaves those of small ones to be encoded here, together."""
    if request.keys is not None or not schema.keyed:
        return request
    return replace(request, keys=schema.encode_keys(request.rows))


def _joined(requests: Sequence[Request]) -> Request:
    if len(requests) == 1:
        return requests[0]
    found = [request.keys for request in requests]
    keys = None if any(key is None for key in found) else pa.concat_arrays(found)
    first = requests[0]
    rows = pa.concat_batches([request.rows for request in requests])
    calls = np.repeat(np.arange(len(requests)), [request.rows.num_rows for request in requests])
    doubted = min((request.doubted for request in requests if request.doubted is not None), default=None)
    return Request(rows, keys, first.deletes, first.columns, first.clears, first.mode, calls=calls, doubted=doubted)
