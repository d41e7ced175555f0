"""Which queries of this process wait for columns that another owner holds, and for which owner."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_waiting: Final[dict[str, str]] = {}


def waits_for(query_id: str) -> str | None:
    """Return what a query waits for; None if it does not wait."""
    return _waiting.get(query_id)


def note_wait(query_id: str, reason: object) -> None:
    """Take down what a query waits for."""
    _waiting[query_id] = str(reason)


@contextmanager
def forgotten_wait(query_id: str) -> Iterator[None]:
    """Forget, at the end, what a query waited for."""
    try:
        yield
    finally:
        _waiting.pop(query_id, None)
