"""The idle streams of a connection, kept for the next call."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterator
from typing import Final

from penstock.client.link.deadlines import IDLE_SECONDS_MAX
from penstock.client.remote.call_stream import CallStream

IDLE_STREAMS_MAX: Final = 16


class IdleStreams:
    """Idle streams in the order of their last use. Not thread-safe: its connection has a lock."""

    def __init__(
        self,
        streams_max: int = IDLE_STREAMS_MAX,
        seconds_max: float = IDLE_SECONDS_MAX,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._streams_max = streams_max
        self._seconds_max = seconds_max
        self._monotonic = monotonic
        self._since: dict[CallStream, float] = {}

    def __iter__(self) -> Iterator[CallStream]:
        """Yield the streams, the one that was not used for longest first."""
        return iter(self._since)

    def put(self, stream: CallStream) -> list[CallStream]:
        """Keep a stream; return those to end in its place, because there are too many."""
        self._since[stream] = self._monotonic()
        return self._pop_first() if len(self._since) > self._streams_max else []

    def take(self, affinity: Hashable) -> CallStream | None:
        """Return the stream used last of those with that affinity, or else with none; for no affinity any will do."""
        unbound: CallStream | None = None
        for stream in reversed(self._since):
            if affinity is None or stream.affinity == affinity:
                del self._since[stream]
                return stream
            if stream.affinity is None and unbound is None:
                unbound = stream
        if unbound is not None:
            unbound.affinity = affinity
            del self._since[unbound]
        return unbound

    def take_unused(self) -> list[CallStream]:
        """Return the streams that were idle for too long, to be ended."""
        unused: list[CallStream] = []
        while self._since and next(iter(self._since.values())) < self._monotonic() - self._seconds_max:
            unused += self._pop_first()
        return unused

    def take_all(self) -> list[CallStream]:
        """Return all streams."""
        streams = list(self._since)
        self._since.clear()
        return streams

    def _pop_first(self) -> list[CallStream]:
        first = next(iter(self._since))
        del self._since[first]
        return [first]
