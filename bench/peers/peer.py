"""What a peer is: something that can be started, and whose sessions take rows and give them back as Arrow."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Protocol, runtime_checkable

import pyarrow as pa


class Transport(StrEnum):
    """How a peer is reached: only peers of the same transport stand in the same table."""

    EMBEDDED = "in process"
    SERVED = "over loopback"
    FILES = "table formats on files"


@dataclass(frozen=True, slots=True)
class Drained:
    """What a changelog told of the present: how many new rows it had, and the sum of their ids."""

    rows: int
    id_sum: int


class Session(Protocol):
    """A connection of a peer. Each write is durable when it returns, or the peer's settings say what it is instead."""

    def create(self, *, changelog: bool = False) -> None:
        """Make the empty table, dropping one that is there; with `changelog`, have its changes recorded."""

    def upsert(self, batch: pa.RecordBatch) -> None:
        """Insert or replace rows by id, and commit."""

    def close(self) -> None:
        """End the session."""


class Peer(Protocol):
    """A system under measurement."""

    name: str
    transport: Transport
    bounds: frozenset[str]
    """The kinds of work that this is a raw bound of, doing a part of it only; none for a real peer."""

    def missing(self) -> str | None:
        """Return why it cannot run on this machine, or None."""

    def start(self, directory: Path) -> None:
        """Start it with its files in this directory; again in the same directory, with what is there."""

    def settings(self) -> str:
        """Return version and settings, for people."""

    def session(self) -> Session:
        """Open a session."""

    def stop(self) -> None:
        """End it, cleanly."""


@runtime_checkable
class Scans(Protocol):
    """A session that reads the whole table into Arrow."""

    def scan(self, columns: Sequence[str], items: int | None = None) -> pa.Table:
        """Return these columns of all rows, or of the rows with this many items."""


@runtime_checkable
class Looks(Protocol):
    """A session that reads rows by id."""

    def lookup(self, ids: Sequence[int]) -> int:
        """Read all columns of the rows with these ids; return how many there are."""


@runtime_checkable
class Changes(Protocol):
    """A session that records changes in a table that was created so."""

    def drain(self) -> Drained:
        """Read every change since the last drain, with its before-image where the peer has one."""


@runtime_checkable
class Parts(Protocol):
    """A session that writes some columns of a row."""

    def set_amounts(self, batch: pa.RecordBatch) -> None:
        """Set the amount of the rows with these ids, which are there, and commit."""


@runtime_checkable
class Folds(Protocol):
    """A session that folds rows into totals by key: a sum, a maximum, a count."""

    def create_totals(self) -> None:
        """Make the empty table of totals: key, total, top, times."""

    def fold(self, batch: pa.RecordBatch) -> None:
        """Fold rows of key and value into the totals, and commit; a key may repeat."""

    def totals(self) -> pa.Table:
        """Return key, total, top, times."""


@runtime_checkable
class Bootstraps(Protocol):
    """A session that reads a snapshot, then exactly the changes after it."""

    def bootstrap(self) -> AbstractContextManager[Bootstrap]:
        """Fix a snapshot of a table that was created with a changelog."""


class Bootstrap(Protocol):
    """A snapshot that is being read, and its tail."""

    def snapshot(self) -> pa.Table:
        """Return all rows of the snapshot."""

    def tail(self, rows: int) -> Drained:
        """Read the changes after the snapshot, up to this many new rows."""


@runtime_checkable
class OpensScans(Protocol):
    """A session that can hold a scan open."""

    def open_scan(self) -> Iterator[pa.RecordBatch]:
        """Return the batches of a scan, not yet read."""


@runtime_checkable
class Processes(Protocol):
    """A peer in processes of its own."""

    def pids(self) -> list[int]:
        """Return the ids of its processes."""

    def kill(self) -> None:
        """End it with SIGKILL; `start` brings it back."""


class PeerError(Exception):
    """A peer did not start, or did not do what it was asked."""


def free_port() -> int:
    """Return a port of loopback that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
