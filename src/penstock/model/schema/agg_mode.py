"""How a write's values enter the columns of an aggregating table."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from penstock.errors import InvalidError


class AggMode(StrEnum):
    """What a write's values are: inputs to fold, values to put in their place, or states folded by the sender."""

    ACCUMULATE = "accumulate"
    REPLACE = "replace"
    MERGE_STATE = "merge_state"

    @classmethod
    def parse(cls, word: str | AggMode) -> AggMode:
        """Return the mode of that name.

        Raises:
            InvalidError: there is none; the message lists them.
        """
        if word == cls.ACCUMULATE:  # as nearly every write has it; to call the class takes a microsecond
            return cls.ACCUMULATE
        try:
            return cls(word)
        except ValueError:
            raise InvalidError(f"no such agg_mode; there are {', '.join(cls)}", agg_mode=repr(word)) from None


AggModeLike = AggMode | Literal["accumulate", "replace", "merge_state"]
"""One of them, or its name."""
