"""An epoch of a job: acquired and begun on the driver, written by tasks, committed or undone as a whole.

What tasks need of it is a plain value, `JobEpoch`: the processes that begin, write and commit a Spark
job are three, and none of them lives as long as the job.
"""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from penstock.client.link.link import Link
from penstock.errors import ConflictError, LockedError, PenstockError, UnsupportedError
from penstock.model.node.owner import AcquireOwner, EpochStatus, OwnerGrant
from penstock.model.node.owner_token import NO_EPOCH, OwnerToken
from penstock.runtime.clock import Clock, SystemClock
from penstock.spark.session.lock_wait import forgotten_wait, note_wait
from penstock.spark.writing.write_plan import WritePlan

_log = logging.getLogger("penstock.spark")

LOCK_POLL_SECONDS: Final = 0.5
LOCK_SLACK_MS: Final = 1_000
"""Beyond the holder's time left: its clock is the server's, and the answer travelled."""


@dataclass(frozen=True)
class JobEpoch:
    """An epoch as its tasks and its committer know it. `session` is the driver's token, `token` the tasks'."""

    session: bytes
    token: bytes
    epoch: int
    ttl_ms: int
    committed: bool = False


@dataclass(frozen=True)
class Written:
    """What a task wrote: under which attempt how many rows; images before and after updates, deletes without values.

    A task that was refused what every try of it would write says why instead.
    """

    attempt: bytes
    rows: int
    updates_before: int = 0
    updates_after: int = 0
    deletes: int = 0
    deletes_without: int = 0
    refusal: PenstockError | None = None


def acquire(
    link: Link,
    plan: WritePlan,
    owner: str,
    incarnation: str,
    *,
    ttl_ms: int | None = None,
    clock: Clock | None = None,
    pause: Callable[[float], object] = time.sleep,
) -> OwnerGrant:
    """Make the job the owner of what it writes; wait for another holder as long as its time lasts, and say so.

    Raises:
        LockedError: the columns are held, and their holder goes on renewing.
        ConflictError: the owner id belongs to another query.
        UnsupportedError: the table has no owners.
    """
    columns = plan.locked_columns
    call = AcquireOwner(
        plan.info.table_id,
        owner,
        None if columns is None else tuple(columns),
        ttl_ms=ttl_ms,
        incarnation=incarnation,
        holder=_holder(plan.options.get("query_name")),
    )
    clock = clock or SystemClock()
    give_up_ms: int | None = None
    with forgotten_wait(incarnation):
        while True:
            try:
                return link.retry.run(lambda: link.node.owners.acquire(call))
            except LockedError as error:
                now_ms = clock.monotonic_ms()
                if give_up_ms is None:
                    give_up_ms = now_ms + error.remaining_ms + LOCK_SLACK_MS
                    _log.warning("waiting until another owner lets go of its columns: %s", error)
                if now_ms >= give_up_ms:
                    raise
                note_wait(incarnation, f"waiting until another owner lets go of its columns: {error}")
            pause(LOCK_POLL_SECONDS)


def _holder(query_name: str | None) -> str:
    # What `penstock top` and `penstock owner list` show: a query by the name that people gave it.
    process = f"{socket.gethostname()}:{os.getpid()}"
    return process if query_name is None else f"{query_name} at {process}"


def acquire_for_query(link: Link, plan: WritePlan, query: str, batch: int, *, writes_each: bool = False) -> OwnerGrant:
    """Make a streaming query the owner of what it writes, under the name that its options give or its own id.

    With `writes_each` every micro-batch of the query is committed here, also one without rows.

    Raises:
        ConflictError: the owner's name belongs to another query, or the table has not seen the micro-batches before.
        LockedError: another owner holds the columns, and goes on holding them.
    """
    grant = acquire(link, plan, plan.options.get("owner") or query, query)
    if grant.committed_epoch == NO_EPOCH and batch > 0:
        release(link, grant.token)
        raise ConflictError(
            "the table knows nothing of the micro-batches before this one: it was created anew, or its owner was "
            "dropped; start the query with a fresh checkpoint",
            table=plan.info.path,
            batch=batch,
        )
    if writes_each and batch > grant.committed_epoch + 1:
        release(link, grant.token)
        raise ConflictError(
            "the table lacks micro-batches that the checkpoint says are done: it was restored from before them; "
            "start the query with a fresh checkpoint from where the table is",
            table=plan.info.path,
            batch=batch,
            committed=grant.committed_epoch,
        )
    return grant


def begin(link: Link, grant: OwnerGrant, epoch: int) -> JobEpoch:
    """Open an epoch; what the job left uncommitted before is undone.

    Raises:
        ConflictError: a later epoch is committed: the checkpoint was reset.
        FencedError: another holder has taken over.
    """
    begun = link.retry.run(lambda: link.node.owners.begin(grant.token, epoch))
    token = OwnerToken.from_bytes(grant.token).at(fence=begun.fence, epoch=epoch).to_bytes()
    return JobEpoch(grant.token, token, epoch, grant.ttl_ms, committed=begun.status is EpochStatus.COMMITTED)


def commit(link: Link, plan: WritePlan, epoch: JobEpoch, written: Iterable[Written], *, replaces: bool = False) -> None:
    """Commit what the tasks wrote, naming each attempt that counts and its rows; instead of all there is, or besides.

    Raises:
        PenstockError: what a task was refused.
        ConflictError: something of it is missing.
        UnsupportedError: updates or deletes are to be folded into an aggregate without the rows before them.
    """
    tasks = list(written)
    for task in tasks:
        if task.refusal is not None:
            raise task.refusal
    before, after = sum(task.updates_before for task in tasks), sum(task.updates_after for task in tasks)
    if after and not before:
        raise UnsupportedError(
            "an aggregate cannot follow updates (+U) without their images before (-U); read with images='full'",
            table=plan.info.path,
            updates=after,
        )
    without = sum(task.deletes_without for task in tasks)
    if without and not before and without == sum(task.deletes for task in tasks):
        raise UnsupportedError(
            "an aggregate cannot follow deletes (-D) without the rows before them; read with images='full', or filter "
            "out rows that had no values: there is nothing to take back",
            table=plan.info.path,
            deletes=without,
        )
    attempts = {task.attempt: task.rows for task in tasks if task.rows}
    link.retry.run(lambda: link.node.owners.commit(epoch.session, epoch.epoch, attempts, replaces=replaces))


def undo(link: Link, session: bytes) -> int:
    """Take back what is uncommitted, as far as the server answers: the next to begin does it too.

    Return how many rows were put back as they had been.
    """
    try:
        return link.node.owners.undo(session).keys
    except PenstockError as error:
        _log.warning("could not undo at once; it is undone when the job begins again: %s", error)
        return 0


def release(link: Link, session: bytes) -> None:
    """Give the columns back, as far as the server answers: they are free when the time is up."""
    try:
        link.node.owners.release(session)
    except PenstockError as error:
        _log.warning("could not release the owner; it ends by itself when its time is up: %s", error)
