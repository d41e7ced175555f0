"""Waiting for what another thread or process is about to do; tests pause nowhere else."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final

WAIT_SECONDS_MAX: Final = 60.0
_PAUSE_SECONDS: Final = 0.002


def wait_until(condition: Callable[[], object], seconds: float = WAIT_SECONDS_MAX) -> None:
    """Wait until a condition holds.

    Raises:
        AssertionError: it does not hold in time.
    """
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "the condition did not come true in time"
        threading.Event().wait(_PAUSE_SECONDS)


def go_on_for(seconds: float) -> None:
    """Let another process go on for a while without an end to wait for: the moment of its death is what is tested."""
    threading.Event().wait(seconds)
