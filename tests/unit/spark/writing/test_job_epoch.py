"""An epoch of a job: how long it waits for another owner, and what it does to columns that are free."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from tests.kit.memory_engine import MemoryEngine
from tests.kit.node_calls import make_table

from penstock.client.link.link import Link
from penstock.errors import LockedError
from penstock.model.node.calls import Operation
from penstock.model.node.owner import AcquireOwner
from penstock.model.schema.agg_mode import AggMode
from penstock.spark.session.lock_wait import waits_for
from penstock.spark.session.options import Options
from penstock.spark.writing.job_epoch import LOCK_POLL_SECONDS, LOCK_SLACK_MS, acquire
from penstock.spark.writing.write_plan import WritePlan

TTL_MS = 10_000


@dataclass
class Job:
    """A job that writes a table of which another owner holds the columns."""

    engine: MemoryEngine
    link: Link
    plan: WritePlan
    held: bytes
    waits: list[str | None] = field(default_factory=list)

    def pause(self, seconds: float) -> None:
        """Let time pass in place of a sleep; note what the job says that it waits for."""
        self.waits.append(waits_for("query"))
        self.engine.clock.advance(int(1_000 * seconds))

    def acquire(self) -> tuple[str, ...]:
        """Acquire the columns for the job; return them."""
        return acquire(self.link, self.plan, "job", "query", clock=self.engine.clock, pause=self.pause).columns


@pytest.fixture
def job() -> Iterator[Job]:
    engine = MemoryEngine()
    engine.catalog.create_database("shop")
    info = make_table(engine, properties={"column-lock.enabled": "true"})
    sent = tuple((name, name) for name in info.schema.names)
    options = Options({"url": "penstock://localhost:1", "table": info.path})
    plan = WritePlan(options, info, Operation.UPSERT, None, AggMode.ACCUMULATE, sent)
    held = engine.owners.acquire(AcquireOwner(info.table_id, "other", None, TTL_MS)).token
    yield Job(engine, Link(engine, "memory"), plan, held)
    engine.close()


def test_job_waits_until_the_other_owner_runs_out_of_time_and_says_so(job: Job) -> None:
    assert job.acquire() == ("note",)

    assert len(job.waits) * LOCK_POLL_SECONDS * 1_000 == TTL_MS
    assert all(wait is not None and "holder=other" in wait for wait in job.waits)
    assert waits_for("query") is None


def test_job_gives_up_on_an_owner_that_goes_on_renewing(job: Job) -> None:
    start_ms = job.engine.clock.monotonic_ms()

    def renew(seconds: float) -> None:
        job.pause(seconds)
        job.engine.owners.renew(job.held)

    with pytest.raises(LockedError) as refused:
        acquire(job.link, job.plan, "job", "query", clock=job.engine.clock, pause=renew)

    assert job.engine.clock.monotonic_ms() - start_ms == TTL_MS + LOCK_SLACK_MS
    assert 0 < refused.value.remaining_ms <= TTL_MS


def test_free_columns_are_acquired_at_once(job: Job) -> None:
    job.engine.owners.release(job.held)

    assert job.acquire() == ("note",)
    assert job.waits == []
