"""Merge engines: what a keyed table does with a row whose key is there already, and with deletes."""

from __future__ import annotations

from enum import StrEnum

from penstock.errors import InvalidError


class DeleteBehavior(StrEnum):
    """What a delete does: removes the row, nothing, or is an error."""

    ALLOW = "allow"
    IGNORE = "ignore"
    DISABLE = "disable"


class MergeEngine(StrEnum):
    """Which row of a key stays."""

    LAST_ROW = "last_row"
    FIRST_ROW = "first_row"
    VERSIONED = "versioned"
    AGGREGATE = "aggregate"

    @classmethod
    def parse(cls, word: str | MergeEngine) -> MergeEngine:
        """Return the merge engine of that name.

        Raises:
            InvalidError: there is none; the message lists them.
        """
        if word not in list(cls):
            raise InvalidError(f"no such merge engine; choose one of {', '.join(cls)}", merge_engine=repr(word))
        return cls(word)

    @property
    def default_delete(self) -> DeleteBehavior:
        """Return what deletes do where no property says otherwise."""
        return DeleteBehavior.ALLOW if self is MergeEngine.LAST_ROW else DeleteBehavior.IGNORE

    @property
    def can_delete(self) -> bool:
        """Tell whether deletes may be allowed: not where a later row could not take their place."""
        return self in (MergeEngine.LAST_ROW, MergeEngine.AGGREGATE)

    @property
    def takes_partial(self) -> bool:
        """Tell whether a write may name some of the columns only."""
        return self in (MergeEngine.LAST_ROW, MergeEngine.AGGREGATE)
