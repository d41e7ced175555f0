"""The story of the demo, act by act: load, follow, crash the job, crash the server, finish."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from penstock.cli.demo.crash import CrashWatch, Leftover
from penstock.cli.demo.dashboard import Dashboard
from penstock.cli.demo.feed import Feed
from penstock.cli.demo.job_child import JobChild
from penstock.cli.demo.server_child import ServerChild
from penstock.cli.demo.totals import by_city, stored
from penstock.client.table import Table
from penstock.errors import TimedOutError

BATCHES_BEFORE_CRASH: Final = 3
BATCHES_AFTER_CRASH: Final = 2
DRAW_SECONDS: Final = 0.3
LOOK_SECONDS: Final = 0.01
SETTLE_SECONDS: Final = 0.5
IDLE_SECONDS: Final = 2.0
SERVER_AWAY_SECONDS: Final = 1.0
ACT_SECONDS_MAX: Final = 300.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the crash of the job left, and how many of the wrong totals were put back."""

    left: Leftover
    undone: int


class Story:
    """Plays the acts in order, drawing the dashboard all the while."""

    def __init__(
        self, *, server: ServerChild, job: JobChild, feed: Feed, revenue: Table, watch: CrashWatch, view: Dashboard
    ) -> None:
        self._server = server
        self._job = job
        self._feed = feed
        self._revenue = revenue
        self._watch = watch
        self._view = view
        self._drawn = 0.0
        self._changes = (0.0, 0)
        self._fence = 0
        self._job_began = 0.0
        self._idle_since = 0.0

    def play(self) -> Outcome:
        """Play the whole story; return what the crash did.

        Raises:
            TimedOutError: an act took too long.
            InternalError: the job failed by itself.
        """
        self._feed.write_first()
        self._view.say(f"{self._feed.changes:,} changes written to shop.orders; the shop goes on taking orders")
        self._start_job()
        self._feed.start()
        self._view.say("Spark job started: the orders as they are first, then every change after exactly that cut")
        self._until(lambda: self._committed() >= BATCHES_BEFORE_CRASH - 1, "commit its first micro-batches")
        outcome = self._crash_job()
        self._until(lambda: self._committed() >= outcome.left.batch + BATCHES_AFTER_CRASH, "go on after the crash")
        self._crash_server()
        self._feed.let_end()
        self._until(self._feed.ended, "write all orders")
        self._view.say(f"all {self._feed.changes:,} changes are written; the job reads the rest and ends")
        self._job.finish()
        self._until(self._job.ended, "read the rest")
        self._view.figures.job = "ended"
        self._refresh()
        return outcome

    def _crash_job(self) -> Outcome:
        left: Leftover | None = None
        while left is None:
            self._until(self._caught, "be caught inside a micro-batch", LOOK_SECONDS)
            self._job.kill()
            self._view.figures.job = "killed"
            self._settle()
            left = self._watch.leftover()
            if left is None:
                self._view.say("killed the job just after a commit: nothing to undo; once more")
                self._start_job()
        self._refresh()
        self._view.say(f"killed in batch {left.batch}, {left.rows:,} of its rows visible")
        self._fence = left.fence
        self._start_job()
        self._until(lambda: self._committed() >= left.batch, f"replay batch {left.batch}")
        undone = self._watch.undone(left)
        self._view.say(f"restarted: undone {undone:,}, batch {left.batch} replayed")
        return Outcome(left, undone)

    def _caught(self) -> bool:
        """Tell whether rows of an open micro-batch are visible; feed the job one when it has nothing more to do."""
        owner = self._watch.look()
        if owner is not None or not self._feed.held or self._pending():
            self._idle_since = time.monotonic()
        elif time.monotonic() - self._idle_since > IDLE_SECONDS:
            self._feed.let_step()
            self._idle_since = time.monotonic()
        return owner is not None

    def _start_job(self) -> None:
        self._job.start()
        self._job_began = time.monotonic()
        self._view.figures.job = "starting"

    def _crash_server(self) -> None:
        self._server.kill()
        began = time.monotonic()
        self._view.figures.server = "down"
        self._view.say("killed the server; the shop and the job wait for it")
        time.sleep(SERVER_AWAY_SECONDS)
        self._server.start()
        self._view.figures.server = "up"
        self._view.say(f"server is back after {time.monotonic() - began:.1f} s, nothing acknowledged is lost")

    def _settle(self) -> None:
        # Tasks of a killed job may have a call under way; the count is right when it stands still.
        last = None
        while last != (last := self._pending()):
            time.sleep(SETTLE_SECONDS)

    def _pending(self) -> int:
        owner = self._watch.owner()
        return 0 if owner is None else owner.rows_pending

    def _committed(self) -> int:
        owner = self._watch.owner()
        return -1 if owner is None else owner.committed_epoch

    def _until(self, done: Callable[[], bool], what: str, pause: float = 0.1) -> None:
        give_up = time.monotonic() + ACT_SECONDS_MAX
        while not done():
            if time.monotonic() > give_up:
                raise TimedOutError(f"the demo waited in vain for the job to {what}", seconds=ACT_SECONDS_MAX)
            self._job.ended()
            if time.monotonic() - self._drawn > DRAW_SECONDS:
                self._refresh()
            time.sleep(pause)

    def _refresh(self) -> None:
        now, figures = time.monotonic(), self._view.figures
        if figures.job not in ("killed", "ended"):
            figures.job = self._job_state()
        then, changes = self._changes
        if now - then >= 1:
            figures.rate = (self._feed.changes - changes) / (now - then) if then else 0
            self._changes = (now, self._feed.changes)
        figures.written, figures.share, figures.held = self._feed.changes, self._feed.share, self._feed.held
        figures.cities = by_city(stored(self._revenue.scan().to_arrow()))
        self._drawn = time.monotonic()
        self._view.draw()

    def _job_state(self) -> str:
        owner = self._watch.owner()
        # Until the job has taken over from the one that was killed, what is known is of that one.
        if owner is None or owner.fence <= self._fence:
            return f"starting Spark, {time.monotonic() - self._job_began:.0f} s"
        if owner.committed_epoch < 0:
            return "in its first micro-batch"
        pending = f", {owner.rows_pending:,} rows not committed" if owner.rows_pending else ""
        return f"committed batch {owner.committed_epoch}{pending}"
