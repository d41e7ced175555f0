"""A batch write from the process that runs the program: it plans, begins and commits, and Spark runs the tasks.

The same epoch as `df.write.format("penstock")` has, and as whole. But that one is planned in one process
and committed in another, each of which Spark starts for this job and which import everything anew; for a
small batch they are most of the time that it takes.
"""

from __future__ import annotations

import uuid

from pyspark.sql import DataFrame

from penstock.client.hold.renewal import Renewal
from penstock.model.node.calls import Operation
from penstock.spark.session.links import link_for, planning_link
from penstock.spark.session.options import Options
from penstock.spark.writing import job_epoch
from penstock.spark.writing.batch_writer import EPOCH, check_overwrite, forget_owner
from penstock.spark.writing.bucket_shuffle import place
from penstock.spark.writing.driver_write import is_few, write_here
from penstock.spark.writing.mapped_write import sent_rows, write_mapped
from penstock.spark.writing.write_plan import plan_write


def write_batch(df: DataFrame, options: Options, *, overwrite: bool) -> None:
    """Write a DataFrame: all of it appears at commit, or nothing.

    Raises:
        InvalidError: options, table and data do not go together.
        SchemaMismatchError: the data does not fit the table; names the column.
        LockedError: another owner holds the columns.
    """
    link = planning_link(options)
    plan = plan_write(options, link, df.schema)
    if overwrite:
        check_overwrite(plan)
    ordered = options.is_set("order_by") or plan.operation is Operation.APPLY
    rows = sent_rows(place(df, plan) if ordered else df, plan)
    few = is_few(rows)
    owner = options.get("owner") or f"spark-batch-{uuid.uuid4()}"
    grant = job_epoch.acquire(link, plan, owner, owner)
    waiting = link_for(options)
    try:
        epoch = job_epoch.begin(link, grant, EPOCH)
        with Renewal.of_owner(waiting, grant.token, grant.ttl_ms):
            written = write_here(rows, plan, epoch) if few else write_mapped(rows, plan, epoch, staged=True)
            job_epoch.commit(waiting, plan, epoch, written, replaces=overwrite)
    finally:
        forget_owner(waiting, plan, owner)
