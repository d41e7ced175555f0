"""The name that was probably meant, for errors about names that are not there."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Final

KNOWN_MAX: Final = 2_000
"""Of so many names the nearest is looked for; an error must not take long."""
LIKENESS_MIN: Final = 0.7


def near_name(name: object, known: Iterable[str]) -> str | None:
    """Return the known name that looks most like this one, None if none does."""
    # Here, not above: only an error needs it.
    from difflib import get_close_matches  # noqa: PLC0415

    folded = {word.casefold(): word for word in islice(known, KNOWN_MAX)}
    found = get_close_matches(str(name).casefold(), folded, 1, LIKENESS_MIN)
    return folded[found[0]] if found else None


def did_you_mean(name: object, known: Iterable[str]) -> str:
    """Return a question for an error's message, empty if no known name is near."""
    near = near_name(name, known)
    return "" if near is None else f"did you mean {near}? "
