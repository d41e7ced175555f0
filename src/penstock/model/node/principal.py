"""Who asks. The service edge says it once per call; whoever needs it below reads it here.

Embedded calls are made by the principal `local`. The name travels beside a call, not in it, for it
is what the edge found out about the caller, never what the caller says of itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

LOCAL: Final = "local"
"""The principal of a call that crossed no edge."""
ANONYMOUS: Final = "anonymous"
"""The principal of callers that nobody asked who they are."""

UNNAMED: Final = frozenset({LOCAL, ANONYMOUS})
"""Principals that nobody proved to be. No token and no certificate gives these names: `local` may do anything."""

principal: ContextVar[str] = ContextVar("penstock.principal", default=LOCAL)


def current() -> str:
    """Return the name of whoever makes the present call."""
    return principal.get()


@contextmanager
def acting_as(name: str) -> Iterator[None]:
    """Make the calls inside in somebody's name."""
    token = principal.set(name)
    try:
        yield
    finally:
        principal.reset(token)


def may_change(who: str, owner: str) -> bool:
    """Tell whether what an owner acquired is also for `who` to change.

    What was acquired by nobody in particular is anybody's, and who has the files may do anything with them.
    """
    return owner in UNNAMED or who in {owner, LOCAL}
