"""An Airflow DAG whose task loads each interval exactly once, however often it is retried.

    python examples/airflow_load.py [directory]

The DAG's name is the owner, the interval's start is the epoch. What a failed try has written is taken back when the
next one begins; an interval that is committed is skipped. Epochs rise: run one interval at a time, oldest first.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import penstock

try:
    from airflow.sdk import dag, task
except ImportError:  # the functions below work without
    dag = task = None

DAG = "orders_hourly"
Rows = list[dict[str, Any]]


def load(conn: penstock.Connection, interval: datetime, batches: Iterable[Rows]) -> str:
    """Write the rows of an interval; return `loaded`, or `skipped` if it was loaded before."""
    orders = conn.table("orders")
    epoch = int(interval.timestamp())
    owner = orders.acquire_owner(DAG)
    try:
        if owner.begin(epoch=epoch) == "committed":
            return "skipped"
        for rows in batches:
            orders.upsert(rows, owner=owner)
        owner.commit(epoch=epoch)
        return "loaded"
    finally:
        owner.release()


def extract(interval: datetime) -> Iterable[Rows]:
    """Return the rows of an interval, in batches: here made up, elsewhere read from a file or an API."""
    hour = int(interval.timestamp()) // 3600
    yield [{"id": hour * 10 + number, "amount": number} for number in range(5)]
    yield [{"id": hour * 10 + number, "amount": number} for number in range(5, 10)]


if dag is not None:

    @dag(dag_id=DAG, schedule="@hourly", start_date=datetime(2026, 1, 1, tzinfo=UTC), max_active_runs=1, catchup=True)
    def orders_hourly() -> None:
        @task(retries=3, retry_delay=timedelta(seconds=30))
        def load_interval(data_interval_start: datetime | None = None) -> str:
            assert data_interval_start is not None
            with penstock.connect(os.environ["PENSTOCK_URL"], token=os.environ.get("PENSTOCK_TOKEN")) as conn:
                return load(conn, data_interval_start, extract(data_interval_start))

        load_interval()

    orders_hourly()


def main(directory: str) -> None:
    interval = datetime(2026, 1, 1, tzinfo=UTC)

    def failing() -> Iterable[Rows]:
        yield next(iter(extract(interval)))
        raise OSError("the source is gone")

    with penstock.connect(Path(directory) / "data") as conn:
        orders = conn.create_table("orders", "id BIGINT, amount BIGINT SUM, PRIMARY KEY (id)", merge_engine="aggregate")
        try:
            load(conn, interval, failing())
        except OSError as error:
            print("first try:", error)
        print("second try:", load(conn, interval, extract(interval)))
        print("third try:", load(conn, interval, extract(interval)))
        print("sum:", sum(orders.scan().to_arrow()["amount"].to_pylist()))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(sys.argv[1])
    else:
        with tempfile.TemporaryDirectory() as directory:
            main(directory)
