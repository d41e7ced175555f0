"""Merge engines: what a keyed table does with a row whose key is there already, and with deletes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Literal

from penstock.errors import InvalidError


class DeleteBehavior(StrEnum):
    """What a delete does: removes the row, nothing, or is an error."""

    ALLOW = "allow"
    IGNORE = "ignore"
    DISABLE = "disable"


@dataclass(frozen=True, slots=True)
class MergeTraits:
    """What a merge engine is to the rest of the system, which asks for a trait and never for a name."""

    default_delete: DeleteBehavior = DeleteBehavior.IGNORE
    """What deletes do where no property says otherwise."""
    can_delete: bool = False
    """Deletes may be allowed: a later row can take the place of one that went."""
    takes_partial: bool = False
    """A write may name some of the columns only."""
    folds: bool = False
    """Each column outside the key has a function that folds values; a write has an `agg_mode`."""
    retracts: bool = False
    """Changes that are applied take back the images before them (-U, -D)."""
    has_version: bool = False
    """A version column says which row wins."""
    locks_columns: bool = False
    """Owners exclude others from their columns, where no property says otherwise."""


class MergeEngine(StrEnum):
    """Which row of a key stays. The rule of each is registered in `tablet.merge.factory`."""

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
    def traits(self) -> MergeTraits:
        """Return what it is to the rest of the system."""
        return _TRAITS[self]


MergeEngineLike = MergeEngine | Literal["last_row", "first_row", "versioned", "aggregate"]
"""One of them, or its name."""


_TRAITS: Final[Mapping[MergeEngine, MergeTraits]] = {
    MergeEngine.LAST_ROW: MergeTraits(default_delete=DeleteBehavior.ALLOW, can_delete=True, takes_partial=True),
    MergeEngine.FIRST_ROW: MergeTraits(),
    MergeEngine.VERSIONED: MergeTraits(has_version=True),
    MergeEngine.AGGREGATE: MergeTraits(
        can_delete=True, takes_partial=True, folds=True, retracts=True, locks_columns=True
    ),
}
