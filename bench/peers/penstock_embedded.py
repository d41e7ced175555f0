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
    bound = False

    def __init__(self) -> None:
        self._directory = Path()

    def missing(self) -> str | None:
        """Say nothing: it is here."""
        return None

    def start(self, directory: Path) -> None:
        """Name the directory."""
        self._directory = directory

    def settings(self) -> str:
        """Return version and durability."""
        return f"{version('penstock')}; fsync before a write returns, exact changelog, 1 bucket, all defaults"

    def session(self) -> PenstockSession:
        """Connect; sessions of one process share the node."""
        return PenstockSession(penstock.connect(self._directory / "data"))

    def stop(self) -> None:
        """Do nothing: closed sessions leave nothing behind."""


PEER = PenstockEmbedded()
