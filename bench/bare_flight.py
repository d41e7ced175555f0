"""The bare Flight ceiling: a process that streams one table out of its memory, and does nothing else."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import flight


class BareFlight(flight.FlightServerBase):  # type: ignore[misc]
    """Streams a table batch by batch, and sends back whatever comes in over an exchange."""

    def __init__(self, rows: pa.Table) -> None:
        super().__init__("grpc://127.0.0.1:0")
        self._rows = rows

    def do_get(self, context: Any, ticket: Any) -> flight.RecordBatchStream:
        """Return the table, whatever the ticket says."""
        return flight.RecordBatchStream(self._rows)

    def do_exchange(self, context: Any, descriptor: Any, reader: Any, writer: Any) -> None:
        """Answer each message with itself, until the client has no more."""
        for chunk in reader:
            writer.write_metadata(chunk.app_metadata)


@contextmanager
def bare_flight(rows: pa.Table, directory: Path) -> Iterator[flight.FlightClient]:
    """Give a client of a bare server in a process of its own, which holds the rows in memory as they are batched."""
    path = directory / "bare.arrow"
    with pa.ipc.new_file(path, rows.schema) as sink:
        sink.write_table(rows)
    process = subprocess.Popen((sys.executable, "-m", "bench.bare_flight", str(path)), stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        with flight.connect(f"grpc://127.0.0.1:{port}") as client:
            yield client
    finally:
        process.kill()
        process.wait()


def main() -> None:
    """Serve the table of a file, say on which port, and go on until killed."""
    with pa.ipc.open_file(sys.argv[1]) as file:
        server = BareFlight(file.read_all())
    print(server.port, flush=True)
    server.wait()


if __name__ == "__main__":
    main()
