"""A plain file in this process: the bound of the log. The same bytes, a sync a batch, and nothing else."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa

from bench.peers.library import Library


class PlainFile(Library):
    """A file."""

    name = "plain file"
    bounds = frozenset(("writes",))

    def settings(self) -> str:
        """Return what is done."""
        return "append of the same Arrow bytes, fdatasync a batch"

    def session(self) -> PlainFileSession:
        """Open the file."""
        return PlainFileSession(self.directory / "plain")


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
