"""Penstock in this process, in a directory."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path

import penstock
from bench.peers.peer import Transport
from bench.peers.penstock_tables import PenstockSession


class PenstockEmbedded:
    """The library."""

    name = "Penstock"
    transport = Transport.EMBEDDED
    bounds: frozenset[str] = frozenset()

    def __init__(self) -> None:
        self._connection: penstock.Connection | None = None

    def missing(self) -> str | None:
        """Say nothing: it is here."""
        return None

    def start(self, directory: Path) -> None:
        """Open the directory."""
        self._connection = penstock.connect(directory / "data")

    def settings(self) -> str:
        """Return version and durability."""
        return f"{version('penstock-db-client')}; fsync before a write returns, exact changelog, 1 bucket, all defaults"

    def session(self) -> PenstockSession:
        """Share the connection, as threads do."""
        assert self._connection is not None
        return PenstockSession(self._connection)

    def stop(self) -> None:
        """Close the directory."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


PEER = PenstockEmbedded()
