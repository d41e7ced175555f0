"""A backfill that takes long: read a table as it was, bucket by bucket, while everything in it is replaced.

    python examples/backfill_under_lease.py [directory]

A lease holds the cut, so neither retention nor a restart of the node takes it away; each bucket is given back
when it is done. The rows go to Parquet files, one for each bucket.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import pyarrow.parquet as pq

import penstock

ROWS = 20_000


def main(directory: str) -> None:
    data, export = Path(directory) / "data", Path(directory) / "export"
    export.mkdir()
    with penstock.connect(data) as conn:
        orders = conn.create_table(
            "orders",
            "id BIGINT, amount BIGINT, PRIMARY KEY (id)",
            buckets=4,
            properties={"log.retention": "1ms"},  # without the lease, the past would be gone at once
        )
        orders.upsert({"id": range(ROWS), "amount": [1] * ROWS})
        cut = orders.cut()
        lease = conn.acquire_lease("backfill", cut, duration="1h")
        assert not lease.unavailable, lease.unavailable

        orders.upsert({"id": range(ROWS), "amount": [2] * ROWS})  # life goes on
        orders.delete(list(range(0, ROWS, 2)))

    with penstock.connect(data) as conn:  # the node was restarted; the lease is still there
        orders, lease = conn.table("orders"), conn.lease("backfill")
        for bucket in sorted(cut):
            rows = orders.scan(as_of=cut, buckets=[bucket]).to_arrow()
            pq.write_table(rows, export / f"bucket-{bucket.bucket}.parquet")
            lease.release([bucket])
        now = orders.scan().to_arrow()

    backfilled = pq.read_table(export)
    print("exported", backfilled.num_rows, "rows, amounts", set(backfilled["amount"].to_pylist()))
    print("the table has", now.num_rows, "rows, amounts", set(now["amount"].to_pylist()))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as fresh:
        main(sys.argv[1] if len(sys.argv) > 1 else fresh)
