"""Where a server keeps its files is no business of its clients: errors name files from the data directory on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from penstock.errors import PenstockError


class PrivatePaths:
    """Takes the way to a directory out of errors."""

    def __init__(self, directory: str | Path | None) -> None:
        ways = set() if directory is None else {str(Path(directory).absolute()), str(Path(directory).resolve())}
        # The longest first: one may be the beginning of the other.
        self._ways = sorted((way for way in ways if way != "/"), key=len, reverse=True)

    def hide(self, error: PenstockError) -> PenstockError:
        """Return the error without the way to the directory; the same one if it does not name it."""
        message = self._without(error.message)
        facts = {name: self._without(value) for name, value in error.facts.items()}
        if message == error.message and facts == error.facts:
            return error
        hidden = type(error)(message, **facts)
        hidden.__cause__ = error
        return hidden

    def _without(self, value: object) -> Any:
        if not isinstance(value, str | Path):
            return value
        text = str(value)
        for way in self._ways:
            text = text.replace(f"{way}/", "").replace(way, "the data directory")
        return value if text == str(value) else text
