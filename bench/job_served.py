"""A server over loopback: scans beside a bare Flight stream of the same bytes, upserts beside embedded ones."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pyarrow import flight

import penstock
from bench.measurement import Measurement, timed
from bench.workload import SCHEMA, Workload


class BareFlight(flight.FlightServerBase):  # type: ignore[misc]
    """Streams one table that it has in memory."""

    def __init__(self, rows: pa.Table) -> None:
        super().__init__("grpc://127.0.0.1:0")
        self._rows = rows

    def do_get(self, context: Any, ticket: Any) -> flight.RecordBatchStream:
        """Return the table, whatever the ticket says."""
        return flight.RecordBatchStream(self._rows)


def run(work: Workload) -> list[Measurement]:
    """Upsert and scan through a server in this process, as a client on the same machine does."""
    batches = work.batches()
    with work.directory() as directory:
        embedded = _upserts(penstock.connect(directory / "embedded"), batches)
        with penstock.serve(directory / "served") as server:
            connection = penstock.connect(server.url)
            served = _upserts(connection, batches)
            connection = penstock.connect(server.url)
            table = connection.table("bench")
            scan = timed(lambda: table.scan().to_arrow())
            memory = table.scan().to_arrow()
            connection.close()
        with BareFlight(memory) as bare:
            client = flight.connect(f"grpc://127.0.0.1:{bare.port}")
            ceiling = timed(lambda: client.do_get(flight.Ticket(b"all")).read_all())
            client.close()
    return [
        Measurement(
            "scan, served", "rows/s", scan.rate(work.rows), "bare Flight do_get", ceiling.rate(work.rows), scan.spread
        ),
        Measurement("upserts, served", "rows/s", served[0], "the same, embedded", embedded[0], served[1]),
    ]


def _upserts(connection: penstock.Connection, batches: list[pa.RecordBatch]) -> tuple[float, float]:
    """Write every batch through a writer; return the rate and its spread. Closes the connection."""
    with connection:
        table = connection.create_table("bench", SCHEMA, primary_key=["id"])

        def write() -> None:
            with table.writer(batch_rows=batches[0].num_rows) as writer:
                for batch in batches:
                    writer.upsert(batch)

        timing = timed(write)
    return timing.rate(sum(batch.num_rows for batch in batches)), timing.spread
