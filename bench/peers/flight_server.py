"""Bare Arrow Flight over loopback: the bound of the wire. A server that keeps batches in memory and streams them."""

from __future__ import annotations

import json
import select
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import flight

from bench.peers.arrow_memory import ArrowMemorySession
from bench.peers.peer import PeerError, Transport

START_SECONDS_MAX = 60


class BareFlight:
    """The server, in a process of its own."""

    name = "bare Flight"
    transport = Transport.SERVED
    bounds = frozenset(("scans", "writes"))

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._port = 0

    def missing(self) -> str | None:
        """Say nothing: we need it ourselves."""
        return None

    def start(self, directory: Path) -> None:
        """Start the server and hear its port."""
        root = Path(__file__).parents[2]
        command = [sys.executable, "-m", "bench.peers.flight_server"]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, cwd=root)
        assert self._process.stdout is not None
        heard, _, _ = select.select([self._process.stdout], [], [], START_SECONDS_MAX)
        line = self._process.stdout.readline() if heard else b""
        if not line:
            raise PeerError("the Flight server does not start")
        self._port = int(line)

    def settings(self) -> str:
        """Return what is done."""
        return f"pyarrow {pa.__version__}; do_put and do_get of the same batches, kept in memory; nothing is stored"

    def session(self) -> FlightSession:
        """Connect."""
        return FlightSession(self._port)

    def stop(self) -> None:
        """End the server."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait()
            assert self._process.stdout is not None
            self._process.stdout.close()
            self._process = None


class FlightSession:
    """One connection."""

    def __init__(self, port: int) -> None:
        self._client = flight.connect(f"grpc://127.0.0.1:{port}")

    def create(self, *, changelog: bool = False) -> None:
        """Have the server forget its rows."""
        list(self._client.do_action(flight.Action("create", b"")))

    def upsert(self, batch: pa.RecordBatch) -> None:
        """Put a batch, and wait until the server has it."""
        writer, reader = self._client.do_put(flight.FlightDescriptor.for_path("bench"), batch.schema)
        writer.write_batch(batch)
        writer.done_writing()
        reader.read()
        writer.close()

    def scan(self, columns: Sequence[str], items: int | None = None) -> pa.Table:
        """Get the rows."""
        asked = json.dumps({"columns": list(columns), "items": items}).encode()
        return self._client.do_get(flight.Ticket(asked)).read_all()

    def close(self) -> None:
        """Disconnect."""
        self._client.close()


class _Server(flight.FlightServerBase):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__("grpc://127.0.0.1:0")
        self._rows = ArrowMemorySession()

    def do_action(self, context: Any, action: Any) -> list[bytes]:
        self._rows.create()
        return []

    def do_put(self, context: Any, descriptor: Any, reader: Any, writer: Any) -> None:
        for chunk in reader:
            self._rows.upsert(chunk.data)
        writer.write(b"kept")

    def do_get(self, context: Any, ticket: Any) -> flight.RecordBatchStream:
        asked = json.loads(ticket.ticket)
        rows = self._rows.live().select(asked["columns"])
        if asked["items"] is not None:
            rows = self._rows.scan(asked["columns"], asked["items"])
        return flight.RecordBatchStream(pa.Table.from_batches(rows.to_batches(max_chunksize=65_536)))


def _serve() -> None:
    with _Server() as server:
        print(server.port, flush=True)
        server.serve()


PEER = BareFlight()

if __name__ == "__main__":
    _serve()
