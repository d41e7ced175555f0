"""One pass over the rows of a scan: bucket by bucket, page by page, each row once.

    state            event                               next state  what the caller sees
    ---------------  ----------------------------------  ----------  --------------------------------------------
    unread           `hurry()` or `next()`               reading     nothing yet
    reading          a page arrives                      reading     a batch for each `next()`, empty ones left out
    reading          all buckets or the limit were read  ended       StopIteration
    reading          an error that no retry helps        failed      the error
    unread, reading  `close()`, from any thread          closed      ClosedError, also in a `next()` that waits
    ended            `next()` or `close()`               ended       StopIteration from `next()`
    failed, closed   `next()` or `close()`               the same    ClosedError from `next()`

How pages are asked for is decided once, when reading begins:

- in turn, on the caller's thread: beside an engine in this process, where a thread would only cost; with a limit,
  because a page ahead may be one too many; and when the first page came with the cut and is all there is;
- otherwise after `hurry()` in turn, too, while the node sends pages before they are asked for;
- otherwise one page ahead, in a thread: a caller that takes batches one by one works on them in between.
"""

from __future__ import annotations

import threading
from collections.abc import Generator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from enum import Enum

import pyarrow as pa

from penstock.client.pages.bucket_scan import Portion
from penstock.client.pages.page_ahead import PageAhead, PageInTurn
from penstock.client.scan.plan import ScanPlan
from penstock.client.scan.token import BucketPosition
from penstock.errors import ClosedError

Step = tuple[int, Portion]
"""The index of the position that was read on, and what was read."""


class PassState(Enum):
    """The states of the table above. The last three are final."""

    UNREAD = "unread"
    READING = "reading"
    ENDED = "ended"
    FAILED = "failed"
    CLOSED = "closed"


@dataclass(slots=True)
class ScanProgress:
    """What the caller has received: where each bucket goes on, the rest of the limit, the bucket of the last batch."""

    positions: list[BucketPosition]
    limit: int | None
    index: int = 0

    @classmethod
    def start(cls, plan: ScanPlan) -> ScanProgress:
        """Return the progress of a pass that has received nothing."""
        return cls(list(plan.positions), plan.request.limit)

    def fraction(self, plan: ScanPlan) -> float | None:
        """Return how much was received, about: the part of the offsets that were passed; None under a limit."""
        if self.limit is not None:
            return None
        ends = [position.log_offset for position in plan.positions]
        begun = [end if p.next_offset is None else p.next_offset for p, end in zip(plan.positions, ends, strict=True)]
        now = [end if p.next_offset is None else p.next_offset for p, end in zip(self.positions, ends, strict=True)]
        whole = sum(ends) - sum(begun)
        return (sum(now) - sum(begun)) / whole if whole else None

    def receive(self, step: Step) -> pa.RecordBatch:
        """Count a step as received; return its rows."""
        self.index, (batch, next_offset) = step
        self.positions[self.index] = replace(self.positions[self.index], next_offset=next_offset)
        self.limit = None if self.limit is None else self.limit - batch.num_rows
        return batch


class ScanPass:
    """Reads the rows of a scan once. Threads that share a pass get each batch once; `close()` from any thread.

    `_reading` lets one thread at a time read, and count what it received. `_moving` protects the state alone, so that
    a pass can be closed while another thread waits for a page.
    """

    def __init__(self, plan: ScanPlan) -> None:
        self._plan = plan
        self.progress = ScanProgress.start(plan)
        self.state = PassState.UNREAD
        self._moving = threading.Lock()
        self._reading = threading.Lock()
        self._pages: PageAhead[Sequence[Step]] | PageInTurn[Sequence[Step]] | None = None
        # What was not given yet of the page that arrived last, in reverse.
        self._page: list[Step] = []
        self._meter = plan.link.meter("scan of", plan.info.path)

    def hurry(self) -> None:
        """Say that all rows are taken as soon as they come; without effect once reading has begun."""
        with self._reading:
            self._begin(hurried=True)

    def next(self) -> pa.RecordBatch:
        """Return the next batch that has rows, in the scan's schema.

        Raises:
            StopIteration: there is none.
            ClosedError: the pass was closed, or has failed.
            PenstockError: as the node answered, once that is not worth retrying.
        """
        with self._reading:
            self._begin(hurried=False)
            while self.state is PassState.READING:
                if (batch := self._read()) is not None:
                    return batch
        if self.state is PassState.ENDED:
            raise StopIteration
        # Again: pages may have been begun while another thread closed the pass.
        self.close()
        raise ClosedError("the scan is closed; start another, or resume by token", table=self._plan.info.path)

    def close(self) -> None:
        """End the pass, and the session that it reads from; idempotent."""
        self._move(PassState.CLOSED)
        if self._pages is not None:
            self._pages.close()

    def _begin(self, *, hurried: bool) -> None:
        if self.state is not PassState.UNREAD:
            return
        plan = self._plan
        more = all(page.has_more for page in plan.first)
        early = plan.link.distant and plan.request.limit is None and more
        steps = _steps(plan, hurried and early)
        ahead = early and not hurried
        self._pages = PageAhead(steps, name=f"penstock-scan-{plan.info.path}") if ahead else PageInTurn(steps)
        self._move(PassState.READING)

    def _read(self) -> pa.RecordBatch | None:
        """Read on by a step; return its rows, or None if it has none or was the last."""
        try:
            if not self._page:
                assert self._pages is not None, "reading has begun"
                self._page = list(reversed(next(self._pages)))
        except StopIteration:
            self._move(PassState.ENDED)
            return None
        except BaseException:
            # A generator that failed says it is at its end when asked again; a scan must not.
            self._move(PassState.FAILED)
            raise
        if self.state is not PassState.READING:
            # Closed meanwhile: what the caller does not get must not count as received.
            return None
        batch = self.progress.receive(self._page.pop())
        if self._meter is not None:
            self._meter.add(batch.num_rows, lambda: self.progress.fraction(self._plan))
        if not batch.num_rows:
            return None
        if batch.schema.equals(self._plan.schema):
            return batch
        return pa.RecordBatch.from_arrays(batch.select(self._plan.schema.names).columns, schema=self._plan.schema)

    def _move(self, state: PassState) -> None:
        """Go to a state, from one that is not final."""
        with self._moving:
            if self.state in (PassState.UNREAD, PassState.READING):
                self.state = state
                if self._meter is not None and state is not PassState.READING:
                    self._meter.end(whole=state is PassState.ENDED)


def _steps(plan: ScanPlan, hurried: bool) -> Generator[Sequence[Step], None, None]:
    limit = plan.request.limit
    # Made only once this runs, for it takes the first page: a generator that never ran would not end its session.
    with closing(plan.reader(hurried=hurried)) as reader:
        for index, position in enumerate(plan.positions):
            if position.next_offset is None:
                continue
            if limit == 0:
                return
            with closing(reader.pages(index, limit)) as pages:
                for portions in pages:
                    limit = None if limit is None else limit - sum(batch.num_rows for batch, _ in portions)
                    yield [(index, portion) for portion in portions]
