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
