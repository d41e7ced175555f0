"""Writes to the tables of a server."""

from __future__ import annotations

from penstock.client.remote.calls import RemoteCalls
from penstock.client.remote.write_stream import WriteStream, plain_write
from penstock.model.node.calls import (
    TableStats,
    WriteCall,
    WriteResult,
)
from penstock.wire import calls as wire


class RemoteTables:
    """Writes to the tables of a server. Implements `penstock.model.node.facets.tables.TablesFacet`."""

    def __init__(self, calls: RemoteCalls) -> None:
        self._calls = calls

    def write(self, call: WriteCall) -> WriteResult:
        """Apply a write; return when it is durable and visible."""
        return self._calls.ask(wire.WRITE, rows=call.batch.num_rows, call=plain_write(call))

    def write_stream(self) -> WriteStream:
        """Return a stream for writes that are sent ahead."""
        return self._calls.write_stream()

    def delete_where(self, table_id: int, filter: bytes, writer_id: bytes, sequence: int) -> WriteResult:
        """Delete the rows that match a serialised filter, as of one cut."""
        return self._calls.ask(
            wire.DELETE_WHERE, table_id=table_id, filter=filter, writer_id=writer_id, sequence=sequence
        )

    def truncate(self, table_id: int) -> WriteResult:
        """Delete all rows, in the changelog."""
        return self._calls.ask(wire.TRUNCATE, table_id=table_id)

    def stats(self, table_id: int) -> TableStats:
        """Return the state of a table."""
        return self._calls.ask(wire.STATS, table_id=table_id)
