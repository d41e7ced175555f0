"""A plain file in this process: the bound of the log. The same bytes, a sync a batch, and nothing else."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa

from bench.peers.peer import Transport


class PlainFile:
    """A file."""

    name = "plain file"
    transport = Transport.EMBEDDED
    bounds = frozenset(("writes",))

    def __init__(self) -> None:
        self._directory = Path()

    def missing(self) -> str | None:
        """Say nothing: every machine has files."""
        return None

    def start(self, directory: Path) -> None:
        """Name the directory."""
        self._directory = directory

    def settings(self) -> str:
        """Return what is done."""
        return "append of the same Arrow bytes, fdatasync a batch"

    def session(self) -> PlainFileSession:
        """Open the file."""
        return PlainFileSession(self._directory / "plain")

    def stop(self) -> None:
        """Do nothing: closed sessions leave nothing behind."""


class PlainFileSession:
    """An open file."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_CREAT | os.O_WRONLY)

    def create(self, *, changelog: bool = False) -> None:
        """Empty it."""
        os.ftruncate(self._file, 0)
        os.lseek(self._file, 0, os.SEEK_SET)

    def upsert(self, batch: pa.RecordBatch) -> None:
        """Append and sync."""
        os.write(self._file, batch.serialize())
        os.fdatasync(self._file)

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)


PEER = PlainFile()
