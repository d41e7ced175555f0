"""Keys, one at a time, while a screen is shown; the terminal is as it was before once that ends."""

from __future__ import annotations

import os
import select
import sys
import termios
import time
import tty
from types import TracebackType
from typing import Any


class Keys:
    """The keys that are pressed on stdin, if that is a terminal. A context manager.

    Ctrl-C stays what it is; keys are neither shown nor waited for until a line ends.
    """

    def __init__(self) -> None:
        self._terminal = sys.stdin.fileno() if sys.stdin is not None and sys.stdin.isatty() else None
        self._before: list[Any] | None = None

    def wait(self, seconds: float) -> str | None:
        """Return the next key, None if there is none for so long."""
        if self._terminal is None:
            time.sleep(seconds)
            return None
        ready, _, _ = select.select([self._terminal], [], [], seconds)
        if not ready:
            return None
        # Nothing at all: the terminal has gone, and with it whoever looked.
        return os.read(self._terminal, 1).decode(errors="replace") or "q"

    def __enter__(self) -> Keys:
        if self._terminal is not None:
            self._before = termios.tcgetattr(self._terminal)
            tty.setcbreak(self._terminal)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._terminal is not None and self._before is not None:
            termios.tcsetattr(self._terminal, termios.TCSADRAIN, self._before)
