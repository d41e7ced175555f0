"""A Penstock server in a process of its own, over loopback."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path

import penstock
from bench.peers.peer import Transport
from bench.peers.penstock_tables import PenstockSession
from penstock.testing.server import ServerProcess


class PenstockServed:
    """The server."""

    name = "Penstock, served"
    transport = Transport.SERVED
    bounds: frozenset[str] = frozenset()

    def __init__(self) -> None:
        self._server: ServerProcess | None = None

    def missing(self) -> str | None:
        """Say nothing: it is here."""
        return None

    def start(self, directory: Path) -> None:
        """Start the server, on a port of its choice."""
        self._server = ServerProcess(directory / "data")
        self._server.start()

    def settings(self) -> str:
        """Return version and durability."""
        ours = version("penstock-db-client")
        return f"{ours}; a process of its own, Flight; fsync before a write returns, exact changelog"

    def session(self) -> PenstockSession:
        """Connect to it."""
        assert self._server is not None
        return PenstockSession(penstock.connect(self._server.url), own=True)

    def pids(self) -> list[int]:
        """Return the one process."""
        assert self._server is not None
        return [self._server.pid]

    def kill(self) -> None:
        """Kill the server."""
        assert self._server is not None
        self._server.kill()
        self._server = None

    def stop(self) -> None:
        """Stop the server."""
        if self._server is not None:
            self._server.stop()
            self._server = None


PEER = PenstockServed()
