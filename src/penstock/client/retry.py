"""Try a call again while that can help: by the error's kind, with backoff, up to a deadline."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeVar

from penstock.errors import BucketFailedError, DiskFullError, InvalidError, PenstockError

T = TypeVar("T")
TOLD_WITHIN_SECONDS: Final = 2.0
ATTEMPT_SECONDS: Final = 1.0
"""What an attempt to connect to somebody who does not answer takes."""

_log = logging.getLogger(__name__)

# Retriable by kind, but only after somebody has acted: waiting inside a call would hide the cause.
NEEDS_HANDS = (DiskFullError, BucketFailedError)


def worth_retrying(error: PenstockError) -> bool:
    """Tell whether the same call may succeed in a moment, without anybody's help.

    A server that is not reached may be about to start, whatever was met in its place.
    """
    return not error.reached or (error.retriable and not isinstance(error, NEEDS_HANDS))


@dataclass(frozen=True, slots=True)
class Retry:
    """How long to go on trying, and how long to pause in between.

    Pauses double from `pause_ms_min` to `pause_ms_max`, each shortened at random by up to a half, so
    that clients that failed together do not return together.
    """

    deadline_ms: int = 30_000
    pause_ms_min: int = 10
    pause_ms_max: int = 1_000
    monotonic: Callable[[], float] = time.monotonic
    pause: Callable[[float], object] = time.sleep
    jitter: Callable[[], float] = random.random

    def __post_init__(self) -> None:
        if not 0 < self.pause_ms_min <= self.pause_ms_max or self.deadline_ms < 0:
            raise InvalidError("a retry pauses between its bounds", least=self.pause_ms_min, most=self.pause_ms_max)

    def run(self, call: Callable[[], T], *, when: Callable[[PenstockError], bool] = worth_retrying) -> T:
        """Return what `call` returns, calling again after errors for which `when` holds.

        Raises:
            PenstockError: the last error, once it is not worth retrying or the deadline would pass.
        """
        give_up = self.monotonic() + self.deadline_ms / 1000
        tell_before: float | None = None
        told = False
        pause_ms = self.pause_ms_min
        while True:
            try:
                return call()
            except PenstockError as error:
                now = self.monotonic()
                tell_before = tell_before or now + TOLD_WITHIN_SECONDS
                seconds = pause_ms / 1000 * (1 - self.jitter() / 2)
                if not when(error) or now + seconds > give_up:
                    raise
                if not told and now + seconds + ATTEMPT_SECONDS > tell_before:
                    # Whoever waits in front of a screen should know for what, before the next attempt has failed.
                    told = True
                    _log.warning("trying again for up to %d s: %s", self.deadline_ms // 1000, error)
            self.pause(seconds)
            pause_ms = min(2 * pause_ms, self.pause_ms_max)
