"""The sink of a stream: a function for `foreachBatch` that writes each micro-batch once.

The micro-batch is an epoch of the query's owner. Begin says whether it is committed already: then it runs
into nothing, for operators with state must commit theirs, and nothing is sent. Else what an earlier try
left is undone, rows go to the tasks of their buckets, and the commit names the attempts that ended first.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Final

from pyspark.sql import DataFrame

from penstock.client.hold.renewal import Renewal
from penstock.client.link.link import Link
from penstock.errors import InvalidError, PenstockError, UnsupportedError
from penstock.model.node.calls import Operation
from penstock.model.node.owner import OwnerGrant
from penstock.spark.session.links import impatient_link, link_for
from penstock.spark.session.options import Options
from penstock.spark.session.query_id import micro_batch_run, query_id
from penstock.spark.session.refusal import tells_first
from penstock.spark.writing import job_epoch
from penstock.spark.writing.bucket_shuffle import order_of, place
from penstock.spark.writing.job_epoch import JobEpoch, Written
from penstock.spark.writing.mapped_write import sent_rows, write_mapped
from penstock.spark.writing.query_progress import note_undone
from penstock.spark.writing.write_plan import WritePlan, plan_write

_log = logging.getLogger("penstock.spark")

IMMEDIATE: Final = "immediate"
COMMIT: Final = "commit"

Run = tuple[str | None, int]
Target = tuple[str, int, str]
_written: Final[dict[Target, Run]] = {}
"""Which run of which micro-batch wrote last, by table and owner, for all sinks of this process."""


@dataclass
class _Held:
    """What a sink holds from its first micro-batch on."""

    query: str
    link: Link
    columns: frozenset[str]
    plan: WritePlan
    staged: bool
    grant: OwnerGrant
    renewal: Renewal | None

    @property
    def target(self) -> Target:
        """Return the server, the table, and under which owner's name it is written."""
        options = self.plan.options
        return options.url, self.plan.info.table_id, options.get("owner") or self.query

    def refuse_other_columns(self, df: DataFrame) -> None:
        """Refuse rows with other columns than the first micro-batch had: those that came later would be left out.

        Raises:
            InvalidError: the columns are others.
        """
        if frozenset(df.columns) != self.columns:
            raise InvalidError(
                "a sink writes the columns of its first micro-batch; give it the same ones always, or others a sink "
                "of their own",
                table=self.plan.info.path,
                columns=sorted(self.columns.symmetric_difference(df.columns)),
            )

    def refuse_second(self, run: Run) -> None:
        """Refuse other rows of a micro-batch that is committed: taken for its repetition they would be lost.

        Raises:
            InvalidError: the same run of the micro-batch has written before.
        """
        if _written.get(self.target) == run:
            raise InvalidError(
                "a micro-batch is written into a table once, and these rows come after that: they are not written; "
                "union them with the others before the sink, or give every sink an owner= of its own",
                table=self.plan.info.path,
                batch=run[1],
            )


class StreamSink:
    """Writes the micro-batches of one query; picklable until the first. Give every query its own.

    A `lasting` sink holds its owner from the first micro-batch until `release`; another only while one runs,
    for it would not be told that its query has ended.
    """

    def __init__(self, options: Options, *, lasting: bool = False) -> None:
        self._options = options
        self._lasting = lasting
        self._held: _Held | None = None

    @tells_first
    def __call__(self, df: DataFrame, batch_id: int) -> None:
        """Write a micro-batch, unless it is committed.

        Raises:
            ConflictError: a later micro-batch is committed (the checkpoint was reset), the owner id belongs
                to another query, or the table has not seen the micro-batches before.
            LockedError: another owner holds the columns, and goes on holding them.
            InvalidError: this run of the micro-batch has written into the table already, or it has other columns
                than the first.
            UnavailableError: the server is away for longer than `retryTimeout`.
        """
        if self._held is None:
            self._held = self._open(df, batch_id)
        held = self._held
        held.refuse_other_columns(df)
        epoch = job_epoch.begin(held.link, held.grant, batch_id)
        run = (micro_batch_run(df), batch_id)
        if epoch.committed:
            held.refuse_second(run)
            _log.info("micro-batch is committed already, running it into nothing batch=%d", batch_id)
            df.write.format("noop").mode("overwrite").save()
            return
        with _renewal(held.link, held.grant):
            _write(df, held, epoch)
        if run[0] is not None:
            _written[held.target] = run

    def release(self) -> None:
        """Give the owner back; the next micro-batch would acquire it again."""
        held, self._held = self._held, None
        if held is not None:
            if held.renewal is not None:
                held.renewal.end()
            job_epoch.release(held.link, held.grant.token)

    def _open(self, df: DataFrame, batch_id: int) -> _Held:
        link = link_for(self._options)
        plan = plan_write(self._options, link, df.schema)
        staged = _visibility(self._options, plan) == COMMIT
        query = query_id(df, self._options.get("checkpoint"))
        grant = job_epoch.acquire_for_query(link, plan, query, batch_id, writes_each=self._lasting)
        if grant.open_epoch is not None:
            # What a driver left that died: `begin` would undo it too, and not say how much it was.
            note_undone(query, job_epoch.undo(link, grant.token))
        renewal = _renewal(link, grant) if self._lasting else None
        return _Held(query, link, frozenset(df.columns), plan, staged, grant, renewal)


def refuse_early(options: Options, df: DataFrame) -> None:
    """Refuse what no micro-batch could write, if the server answers: in its query the error stands amid Spark's own.

    Raises:
        InvalidError: options, table and data do not go together.
        SchemaMismatchError: the data does not fit the table; names the column.
        TableNotFoundError: there is no such table.
    """
    try:
        plan = plan_write(options, impatient_link(options), df.schema)
    except PenstockError as error:
        if error.retriable:
            return  # the first micro-batch waits for the server, and says so
        raise
    _visibility(options, plan)
    order_of(df, options, plan.operation)


def _renewal(link: Link, grant: OwnerGrant) -> Renewal:
    return Renewal.of_owner(link, grant.token, grant.ttl_ms)


def _visibility(options: Options, plan: WritePlan) -> str:
    if options.get("visibility") is None:
        return IMMEDIATE if plan.info.keyed else COMMIT
    chosen = options.choice("visibility", (IMMEDIATE, COMMIT))
    if chosen == IMMEDIATE and not plan.info.keyed:
        raise UnsupportedError("a log table cannot take rows back; use visibility='commit'", table=plan.info.path)
    return chosen


def _write(df: DataFrame, held: _Held, epoch: JobEpoch) -> None:
    committed = False
    try:
        job_epoch.commit(held.link, held.plan, epoch, _run(df, held, epoch))
        committed = True
    finally:
        if not committed:
            note_undone(held.query, job_epoch.undo(held.link, held.grant.token))


def _run(df: DataFrame, held: _Held, epoch: JobEpoch) -> list[Written]:
    plan = held.plan
    ordered = plan.options.is_set("order_by") or plan.operation is Operation.APPLY
    placed = df if held.staged and not ordered else place(df, plan)
    return write_mapped(sent_rows(placed, plan), plan, epoch, staged=held.staged)
