"""Deletes of all that a table holds, staged: what an overwrite does before its own rows."""

from __future__ import annotations

import uuid

from penstock.client.link import Link
from penstock.client.table import Table
from penstock.client.write_requests import WriteRequests
from penstock.model.table import TableInfo
from penstock.spark.job_epoch import Written
from penstock.spark.task_writer import Calls


def stage_deletes(link: Link, info: TableInfo, token: bytes) -> Written:
    """Stage deletes of all rows of the present cut. Staged first, they are applied first."""
    attempt = uuid.uuid4().bytes
    requests = WriteRequests(info)
    rows = 0
    with Calls(link, staged=True) as calls, Table(link, info).scan(columns=info.primary_key) as scan:
        for batch in scan:
            calls.send(requests.delete(batch, None, token, attempt))
            rows += batch.num_rows
    return Written(attempt, rows)
