"""Writes to the tables of a node, and figures about them."""

from __future__ import annotations

from typing import Protocol

from penstock.model.node.calls import (
    TableStats,
    WriteCall,
    WriteResult,
)


class Writes(Protocol):
    """Writes under way, each sent before the ones ahead of it were answered, and done only if they succeed."""

    def send(self, call: WriteCall) -> None:
        """Send a write."""

    def result(self) -> WriteResult:
        """Wait for the answer to the oldest write that has none."""

    def close(self) -> None:
        """Wait for no more answers; idempotent."""


class TablesFacet(Protocol):
    """Writes to the tables of a node, and figures about them. Thread-safe."""

    def write(self, call: WriteCall) -> WriteResult:
        """Apply a write; return when it is durable and visible."""

    def write_stream(self) -> Writes | None:
        """Return a way to send writes ahead; None where that gains nothing."""

    def delete_where(self, table_id: int, filter: bytes, writer_id: bytes, sequence: int) -> WriteResult:
        """Delete the rows that match a serialised filter, as of one cut."""

    def truncate(self, table_id: int) -> WriteResult:
        """Delete all rows, in the changelog."""

    def stats(self, table_id: int) -> TableStats:
        """Return the state of a table."""
