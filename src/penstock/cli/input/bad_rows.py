"""Rows that do not fit, and are left out: counted, written down with place and reason, and only so many."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from types import TracebackType
from typing import Any, Final, TextIO

from penstock.cli.terminal.flag_words import flag_words
from penstock.cli.terminal.words import say
from penstock.errors import InvalidError

SHOWN_MAX: Final = 10
"""Said on stderr; a file has all of them."""


class BadRows:
    """The rows that were left out so far. A context manager: the file is closed at its end."""

    def __init__(self, limit: int, path: Path | None) -> None:
        """Make the file anew; `limit` rows may be bad."""
        self._limit = limit
        self._file: TextIO | None = None if path is None else path.open("w", encoding="utf-8")
        self.count = 0

    def add(self, error: InvalidError, row: object) -> None:
        """Leave a row out, for the error that names its place.

        Raises:
            InvalidError: that is one too many; it is this row's error.
        """
        if self._file is not None:
            facts = dict(error.facts)
            place: dict[str, object] = {name: facts.pop(name) for name in ("file", "line", "row") if name in facts}
            reason = " ".join([flag_words(error.message), *(f"{name}={value}" for name, value in facts.items())])
            self._file.write(
                json.dumps(place | {"reason": reason, "data": row}, ensure_ascii=False, default=_shown) + "\n"
            )
            self._file.flush()
        if self.count >= self._limit:
            if self._limit:
                error.add_note(f"bad rows left out before it: {self.count}, as many as --skip-bad allows")
            raise error
        self.count += 1
        if self._file is None and self.count <= SHOWN_MAX:
            say(f"left out: {flag_words(str(error))}")

    def __enter__(self) -> BadRows:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            self._file.close()


def _shown(value: Any) -> str:
    return base64.b64encode(value).decode() if isinstance(value, bytes) else str(value)
