"""The identity of a writer, and the number of each of its writes: what makes a repeated call harmless.

A node remembers the last sequences of each writer, so a call that is sent again under the same
(writer, sequence) is applied once. Two threads that shared an identity would overtake each other;
so each call borrows one for itself.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

T = TypeVar("T")


@dataclass(slots=True)
class WriterIdentity:
    """A writer's id and the sequence of its next call."""

    writer_id: bytes = field(default_factory=lambda: uuid.uuid4().bytes)
    sequence: int = 0


class WriterIdentities:
    """The identities of one connection's direct writes, lent one call at a time. Thread-safe."""

    def __init__(self) -> None:
        self._idle: list[WriterIdentity] = []
        self._lock = threading.Lock()

    def lend(self, write: Callable[[WriterIdentity], T]) -> T:
        """Return what a write returns that is lent an identity; the next one with that identity has the next sequence.

        After a write that failed it is unknown whether the sequence was used up: that identity never returns.
        """
        with self._lock:
            identity = self._idle.pop() if self._idle else WriterIdentity()
        result = write(identity)
        identity.sequence += 1
        with self._lock:
            self._idle.append(identity)
        return result
