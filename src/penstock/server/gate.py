"""The gate: who is inside, with how much, and who is turned away.

Everything a client can make a server hold is counted here before it is held: streams, calls, waits,
bytes. Over a limit the caller gets `OverloadedError` and the others are served on.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from penstock.errors import OverloadedError, UnavailableError
from penstock.runtime.clock import Clock
from penstock.server.settings import ServerSettings


@dataclass(eq=False, slots=True)
class Stream:
    """One open stream: whose it is, since when it waits for the next call, since when for its reply to be read."""

    peer: str
    idle_since_ms: int | None
    sending_since_ms: int | None = None
    calls: int = 0
    rows: int = 0
    ended: bool = False


class Gate:
    """The counts of one server. Thread-safe."""

    def __init__(self, settings: ServerSettings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._changed = threading.Condition()
        self._streams: set[Stream] = set()
        self._peer_streams: Counter[str] = Counter()
        self._peer_bytes: Counter[str] = Counter()
        self._bytes = 0
        self._working: Counter[str] = Counter()
        self._closed = False

    @contextmanager
    def stream(self, peer: str) -> Iterator[Stream]:
        """Let a stream in.

        Raises:
            OverloadedError: the server, or this connection, has as many as it may.
            UnavailableError: the server is stopping.
        """
        stream = Stream(peer, self._clock.monotonic_ms())
        with self._changed:
            self._check_open()
            if len(self._streams) >= self._settings.streams_max:
                raise OverloadedError("the server has too many open streams", most=self._settings.streams_max)
            if self._peer_streams[peer] >= self._settings.peer_streams_max:
                most = self._settings.peer_streams_max
                raise OverloadedError("the connection has too many open streams; close some", most=most)
            self._streams.add(stream)
            self._peer_streams[peer] += 1
        try:
            yield stream
        finally:
            with self._changed:
                self._streams.discard(stream)
                _take(self._peer_streams, peer, 1)

    @contextmanager
    def call(self, stream: Stream) -> Iterator[None]:
        """Note that a stream's call is at hand, from its arrival to the end of its reply."""
        stream.idle_since_ms = None
        stream.calls += 1
        with self._changed:
            self._working["call"] += 1
        try:
            yield
        finally:
            stream.idle_since_ms = self._clock.monotonic_ms()
            with self._changed:
                self._working["call"] -= 1
                self._changed.notify_all()

    @contextmanager
    def sending(self, stream: Stream) -> Iterator[None]:
        """Note that a reply is on its way; a client that does not take it is found by this."""
        stream.sending_since_ms = self._clock.monotonic_ms()
        try:
            yield
        finally:
            stream.sending_since_ms = None

    @contextmanager
    def holding(self, peer: str, size: int) -> Iterator[None]:
        """Hold bytes for a connection.

        Raises:
            OverloadedError: there are too many in flight, of all or of this connection.
        """
        settings = self._settings
        with self._changed:
            if self._bytes + size > settings.memory_bytes_max:
                raise OverloadedError("the server has too much in flight; try again", most=settings.memory_bytes_max)
            if self._peer_bytes[peer] + size > settings.peer_memory_bytes_max:
                most = settings.peer_memory_bytes_max
                raise OverloadedError("the connection has too much in flight; try again", most=most)
            self._bytes += size
            self._peer_bytes[peer] += size
        try:
            yield
        finally:
            with self._changed:
                self._bytes -= size
                _take(self._peer_bytes, peer, size)

    @contextmanager
    def working(self, kind: str, most: int) -> Iterator[None]:
        """Take one of the places for a kind of work.

        Raises:
            OverloadedError: all places are taken.
            UnavailableError: the server is stopping.
        """
        with self._changed:
            self._check_open()
            if self._working[kind] >= most:
                raise OverloadedError(f"the server has too many {kind} under way; try again", most=most)
            self._working[kind] += 1
        try:
            yield
        finally:
            with self._changed:
                self._working[kind] -= 1

    @property
    def closed(self) -> bool:
        """Tell whether the server is stopping."""
        return self._closed

    def close(self, wait_ms: int) -> bool:
        """Let nobody in any more and wait for the calls at hand; tell whether all of them ended."""
        with self._changed:
            self._closed = True
            return self._changed.wait_for(lambda: not self._working["call"], wait_ms / 1000)

    def overdue(self) -> set[str]:
        """Return the connections that leave a reply unread, or hold streams without a call, for too long."""
        now_ms = self._clock.monotonic_ms()
        with self._changed:
            streams = list(self._streams)
        late: set[str] = set()
        busy: set[str] = set()
        for stream in streams:
            sending, idle = stream.sending_since_ms, stream.idle_since_ms
            if sending is not None and now_ms - sending >= self._settings.stall_ms:
                late.add(stream.peer)
            elif idle is None or now_ms - idle < self._settings.idle_ms:
                busy.add(stream.peer)
        return late | ({stream.peer for stream in streams} - busy)

    def counts(self) -> dict[str, int]:
        """Return how much is inside now."""
        with self._changed:
            return {"streams": len(self._streams), "calls": self._working["call"], "bytes": self._bytes}

    def _check_open(self) -> None:
        if self._closed:
            raise UnavailableError("the server is stopping; try again later")


def _take(counter: Counter[str], key: str, amount: int) -> None:
    # Connections come and go for ever: a count that is down to nothing must not stay.
    counter[key] -= amount
    if not counter[key]:
        del counter[key]
