"""Try a call again while that can help: by the error's kind, with backoff, up to a deadline."""

from __future__ import annotations

import logging
import math
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from penstock.errors import BucketFailedError, DiskFullError, InvalidError, PenstockError

T = TypeVar("T")
TOLD_WITHIN_SECONDS: Final = 2.0
ATTEMPT_SECONDS: Final = 1.0
"""What an attempt to connect to a server that does not answer takes."""

_log = logging.getLogger(__name__)

# Retriable by kind, but only after an operator has acted: waiting inside a call would hide the cause.
NEEDS_HANDS = (DiskFullError, BucketFailedError)


def worth_retrying(error: PenstockError) -> bool:
    """Tell whether the same call may succeed in a moment, without an operator's help.

    A server that is not reached may be about to start, whatever was met in its place.
    """
    return not error.reached or (error.retriable and not error.lasting and not isinstance(error, NEEDS_HANDS))


@dataclass(frozen=True, slots=True)
class Retry:
    """How long to go on trying after the first failure, and how long to pause in between.

    The time counts from the first failure: an attempt without an answer may take longer than all of it. Who waits
    is told so within two seconds, and again every `tell_every` seconds. Who is in the middle of reading waits
    `reading_times` as long: with what it has so far it can do nothing but begin anew.

    Pauses double from `pause_ms_min` to `pause_ms_max`, each shortened at random by up to a half, so that clients
    that failed together do not return together.
    """

    deadline_ms: int = 30_000
    pause_ms_min: int = 10
    pause_ms_max: int = 1_000
    tell_every: float = 10.0
    reading_times: int = 20
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
        give_up: float | None = None
        tell_at = math.inf
        told = False
        pause_ms = self.pause_ms_min
        while True:
            try:
                return call()
            except PenstockError as error:
                now = self.monotonic()
                seconds = pause_ms / 1000 * (1 - self.jitter() / 2)
                if give_up is None:
                    give_up, tell_at = now + self.deadline_ms / 1000, now + TOLD_WITHIN_SECONDS
                if not when(error) or now + seconds > give_up:
                    raise
                if now + seconds + ATTEMPT_SECONDS > tell_at:
                    # A person in front of a screen should know what is waited for, before the next attempt has failed.
                    tell_at = now + seconds + ATTEMPT_SECONDS + self.tell_every
                    still = f"still trying again, for {give_up - now:.0f} s more"
                    _log.warning(
                        "%s: %s", still if told else f"trying again for up to {self.deadline_ms // 1000} s", error
                    )
                    told = True
            self.pause(seconds)
            pause_ms = min(2 * pause_ms, self.pause_ms_max)

    def reading(self) -> Retry:
        """Return the same for a reader in the middle of reading."""
        return replace(self, deadline_ms=self.reading_times * self.deadline_ms)

    def until(self, stopped: threading.Event) -> Retry:
        """Return the same with pauses that end when its thread is told to stop."""
        return replace(self, pause=stopped.wait)
