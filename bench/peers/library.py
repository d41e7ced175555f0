"""A peer that is a library: there is nothing to start or stop, only files in the directory that it is told."""

from __future__ import annotations

from pathlib import Path

from bench.peers.peer import Transport


class Library:
    """What such peers share; each adds its name, its settings and its sessions."""

    transport = Transport.EMBEDDED
    bounds: frozenset[str] = frozenset()

    def __init__(self) -> None:
        self.directory = Path()

    def missing(self) -> str | None:
        """Say nothing: it was imported."""
        return None

    def start(self, directory: Path) -> None:
        """Remember the directory."""
        self.directory = directory

    def stop(self) -> None:
        """Do nothing: closed sessions leave only files."""
