"""Counts the Python functions that are called while something is done, on the threads that are watched."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, Final

TESTS: Final = str(Path(__file__).parents[1])


class CallCounter:
    """Counts calls of Python functions, those of the tests left out, in the threads that it watches."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._counting = False

    def watch(self) -> None:
        """Watch the present thread from now on."""
        if sys.getprofile() is None:
            sys.setprofile(self._profile)

    def forget(self) -> None:
        """Watch the present thread no more."""
        sys.setprofile(None)

    def count(self, act: Callable[[], object]) -> Counter[str]:
        """Return how often each function is called while `act` runs."""
        self._counts = Counter()
        self._counting = True
        act()
        self._counting = False
        return self._counts

    def _profile(self, frame: FrameType, event: str, _: Any) -> None:
        if self._counting and event == "call" and not frame.f_code.co_filename.startswith(TESTS):
            self._counts[f"{frame.f_code.co_filename}:{frame.f_code.co_qualname}"] += 1
