"""What a handle knows of its table: the columns that it writes by, and those that the table has now.

- It writes by the names and types of the moment it was opened, whatever others alter since, for columns travel by
  id. What is altered through the handle itself, it takes up.
- It reads what the table has now. A node says in its answer that the schema is another one by now; only then is
  it asked for, so a table that never changes costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from penstock.client.link.link import Link
from penstock.errors import InvalidError, PenstockError
from penstock.model.table.table import TableInfo

T = TypeVar("T")


class ColumnsChangedError(Exception):
    """What was asked for was answered, but the table has other columns by now."""


def check_present(info: TableInfo, schema_id: int | None) -> None:
    """Refuse an answer that was given while the table had a later schema; None: it had the one that was asked by.

    Raises:
        ColumnsChangedError: it had.
    """
    if schema_id is not None and schema_id > info.schema_id:
        raise ColumnsChangedError


class KnownTable:
    """The definitions of a table that a handle knows. Thread-safe: each is replaced as a whole."""

    def __init__(self, link: Link, info: TableInfo, *, fixed: bool = False) -> None:
        """Know a table as it is now; `fixed`: whatever becomes of it, it is read as it is known."""
        self._link = link
        self._fixed = fixed
        self.opened = info
        """The table when the handle was opened."""
        self.own = info
        """The table as the handle writes it."""
        self.latest = info
        """The table as it was when it was last looked at."""

    def adopt(self, info: TableInfo) -> None:
        """Take up what was altered through the handle."""
        self.own = self.latest = info

    def refresh(self) -> TableInfo:
        """Look at the table again; return it as it is now.

        Raises:
            TableNotFoundError: the table was dropped.
        """
        if not self._fixed:
            self.latest = self._link.retry.run(lambda: self._link.node.catalog.table_by_id(self.own.table_id))
        return self.latest

    def fitting(self, attempt: Callable[[TableInfo], T]) -> T | None:
        """Return what an attempt returns that the handle's own columns refused; None if others refuse it, too.

        It is made by the columns that the handle was opened with, then by those that the table has now.
        """
        tried = {self.own.schema_id}
        for present in (False, True):
            with suppress(PenstockError):
                info = self.refresh() if present else self.opened
                if info.schema_id not in tried:
                    tried.add(info.schema_id)
                    return attempt(info)
        return None

    def check(self, info: TableInfo, schema_id: int | None) -> None:
        """Refuse an answer for a table that has other columns by now, unless its readers keep those they began with.

        Raises:
            ColumnsChangedError: it has.
        """
        if not self._fixed:
            check_present(info, schema_id)

    def read(self, attempt: Callable[[TableInfo], T]) -> T:
        """Return what an attempt returns that reads by the present columns; it is made anew if these are others."""
        info = self.latest
        while True:
            try:
                return attempt(info)
            except (ColumnsChangedError, InvalidError) as error:
                fresh = self._look_again(info, error)
                if fresh is None:
                    raise
                info = fresh

    def _look_again(self, info: TableInfo, error: Exception) -> TableInfo | None:
        """Return the table if its columns are others than an attempt had; None if they are not."""
        try:
            fresh = self.refresh()
        except PenstockError:
            if isinstance(error, ColumnsChangedError):
                raise
            # What was wrong with the request is what the caller is told.
            return None
        return None if fresh.schema_id == info.schema_id else fresh
