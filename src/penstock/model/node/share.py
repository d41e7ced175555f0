"""Shares: how much of a limit one caller may hold, so that no one of them takes it all.

A caller with a name, which a token or certificate gives, holds at most three quarters of each limit; the last
quarter is left to others. Callers without authentication cannot be told apart: together they may have everything.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from penstock.errors import PenstockError
from penstock.model.node.principal import UNNAMED

E = TypeVar("E", bound=PenstockError)


@dataclass(frozen=True, slots=True)
class Share:
    """The share of one caller in a limit."""

    principal: str
    most: int

    @property
    def size(self) -> int:
        """Return how much the caller may hold."""
        return self.most if self.principal in UNNAMED else self.most * 3 // 4

    def fits(self, held: int, more: int = 1) -> bool:
        """Tell whether a caller that holds so much may have more of it.

        A caller that holds nothing may: a single thing may be larger than a share. The limit itself is checked apart.
        """
        return not held or self.principal in UNNAMED or held + more <= self.size

    def refusal(self, kind: type[E], what: str, remedy: str) -> E:
        """Return the error that says that the share is used up, and what to do."""
        return kind(
            f"{self.principal} has its share of {what}, and the rest is kept for other callers; {remedy}",
            principal=self.principal,
            share=self.size,
            most=self.most,
        )
