"""Writes as a node offers them: checked against its limits, and held up while upkeep is behind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from penstock.engine.home.disk_room import DiskRoom
from penstock.engine.settings import Settings
from penstock.engine.table.bucket_names import naming
from penstock.engine.table.deletion import delete_matching
from penstock.engine.table.open_table import OpenTable
from penstock.model.node.calls import TableStats, WriteCall, WriteResult
from penstock.model.node.principal import ActsForPrincipal
from penstock.tablet.tablet import Tablet


class Upkeep(Protocol):
    """The part of the background work on tables that writes ask for."""

    def check_relieved(self, table: OpenTable, size: int) -> None:
        """Let no write in while a bucket of its table has more unsealed rows than it may."""

    def relieve(self, tablet: Tablet, table: OpenTable) -> None:
        """Seal for a writer that is ahead of the background."""

    def truncate(self, table: OpenTable) -> int:
        """Hide what a log table has from new readers; return how many rows went."""

    def stats(self, table: OpenTable) -> TableStats:
        """Return the state of a table in numbers."""


class TableService(ActsForPrincipal):
    """Answers writes; implements `penstock.model.node.facets.tables.TablesFacet`.

    Thread-safe: each table's committer orders what is written to it.
    """

    def __init__(
        self,
        tables: Callable[[int], OpenTable],
        upkeep: Upkeep,
        room: DiskRoom,
        settings: Settings,
        check_owner: Callable[[bytes], object],
        *,
        principal: str,
    ) -> None:
        """Write to what `tables` finds; `check_owner` refuses the token of another database."""
        super().__init__(principal)
        self._tables = tables
        self._upkeep = upkeep
        self._room = room
        self._settings = settings
        self._check_owner = check_owner

    def write(self, call: WriteCall) -> WriteResult:
        """Apply a write; return when it is durable and visible."""
        self._settings.check_write(call)
        table = self._tables(call.table_id)
        if call.owner is not None:
            self._check_owner(call.owner)
        size = call.batch.nbytes
        with naming(table.name):
            self._upkeep.check_relieved(table, size)
        self._room.check(size)
        return table.write(call, self._principal, lambda tablet: self._upkeep.relieve(tablet, table))

    def write_stream(self) -> None:
        """Offer no way to send writes ahead: they do not travel."""

    def delete_where(self, table_id: int, filter: bytes, writer_id: bytes, sequence: int) -> WriteResult:
        """Delete the rows that match a serialised filter, as of one cut."""
        table = self._tables(table_id)
        return delete_matching(table, filter, writer_id, sequence)

    def truncate(self, table_id: int) -> WriteResult:
        """Delete all rows, in the changelog; of a log table all that is there."""
        table = self._tables(table_id)
        self._room.give_up()
        if table.info.keyed:
            return delete_matching(table, None)
        return WriteResult(self._upkeep.truncate(table), 0, 0)

    def stats(self, table_id: int) -> TableStats:
        """Return the state of a table."""
        return self._upkeep.stats(self._tables(table_id))
