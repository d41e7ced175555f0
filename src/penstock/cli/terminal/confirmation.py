"""Confirmation of what cannot be taken back: a question on a terminal, a flag where none can answer."""

from __future__ import annotations

import sys
from collections.abc import Callable

from penstock.errors import InvalidError


def confirm(question: str | Callable[[], str], done: str, *, yes: bool) -> None:
    """Go on if the person asked agrees, or `yes` was said before; a question is made only to be asked.

    Raises:
        InvalidError: the answer is no, or there is none; says what was not `done`.
    """
    if yes:
        return
    # Not by a prompt of the library's: that one writes to stdout too, where only data goes.
    sys.stderr.write(f"{question if isinstance(question, str) else question()} [y/N]: ")
    sys.stderr.flush()
    agreed = sys.stdin.readline().strip().lower() in ("y", "yes")
    if not agreed:
        raise InvalidError(f"not {done}; say --yes to do it without being asked")
