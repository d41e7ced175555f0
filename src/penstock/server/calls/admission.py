"""Admission: counts the streams, calls and bytes of each caller, and refuses what is over a limit.

Everything a client can make a server hold is counted here before it is held: streams, calls, waits,
bytes. Over a limit the caller gets `OverloadedError` and the others are served on. A caller with a name
has a share of each limit (`penstock.model.node.share`), however many connections it opens.

What happens on every call is plain methods under one plain lock: as context managers they were a
quarter of what a small call costs.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from penstock.errors import OverloadedError, UnavailableError
from penstock.model.node.principal import LOCAL
from penstock.model.node.share import Share
from penstock.runtime.clock import Clock
from penstock.server.settings import ServerSettings
from penstock.wire.piece import Assembly

OPENED_MAX: Final = 256
"""How many of the sessions opened on a stream are remembered; most are long gone by then."""


@dataclass(eq=False, slots=True)
class Stream:
    """One open stream: whose it is, since when it waits for the next call, since when for its reply to be read.

    `held` is the bytes of the request or reply at hand; `large_bytes` those reserved for a request in pieces, or for
    a reply that is as large; `failed` whether the latest call failed; `tables` those that it was on, where requests
    are written about; `opened` the scan sessions that were opened on it last.
    """

    peer: str
    principal: str
    idle_since_ms: int | None
    sending_since_ms: int | None = None
    held: int = 0
    large_bytes: int = 0
    assembly: Assembly | None = None
    calls: int = 0
    rows: int = 0
    failed: bool = False
    tables: tuple[int | str, ...] = ()
    ended: bool = False
    opened: deque[str] = field(default_factory=lambda: deque(maxlen=OPENED_MAX))


class Admission:
    """The counts of one server. Thread-safe by one lock."""

    def __init__(self, settings: ServerSettings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._streams: set[Stream] = set()
        self._peer_streams: dict[str, int] = {}
        self._peer_bytes: dict[str, int] = {}
        # Callers with a name are few, and stay: their counts may be left at nothing.
        self._caller_streams: Counter[str] = Counter()
        self._caller_bytes: Counter[str] = Counter()
        self._caller_large_bytes: Counter[str] = Counter()
        self._caller_slots: Counter[tuple[str, str]] = Counter()
        self._bytes = 0
        self._large_bytes = 0
        self._calls = 0
        self._slots: Counter[str] = Counter()
        # How often each connection got through: streams that were let in, and calls that arrived whole.
        self._arrivals: Counter[str] = Counter()
        self._closed = False

    @contextmanager
    def stream(self, peer: str, principal: str = LOCAL) -> Iterator[Stream]:
        """Let a stream of a caller in.

        Raises:
            OverloadedError: the server, this connection or the caller has as many as it may.
            UnavailableError: the server is stopping.
        """
        stream = Stream(peer, principal, self._clock.monotonic_ms())
        share = Share(principal, self._settings.streams_max)
        with self._lock:
            self._check_open()
            if not share.fits(self._caller_streams[principal]):
                raise share.refusal(OverloadedError, "the server's streams", "close some connections")
            if len(self._streams) >= self._settings.streams_max:
                raise OverloadedError("the server has too many open streams", most=self._settings.streams_max)
            if self._peer_streams.get(peer, 0) >= self._settings.peer_streams_max:
                most = self._settings.peer_streams_max
                raise OverloadedError("the connection has too many open streams; close some", most=most)
            self._streams.add(stream)
            self._arrivals[peer] += 1
            _count(self._peer_streams, peer, 1)
            self._caller_streams[principal] += 1
        try:
            yield stream
        finally:
            self.release_large(stream)
            with self._lock:
                self._streams.discard(stream)
                _count(self._peer_streams, peer, -1)
                self._caller_streams[principal] -= 1

    def begin_call(self, stream: Stream) -> None:
        """Note that a call has arrived on a stream."""
        stream.idle_since_ms = None
        stream.calls += 1
        with self._lock:
            self._calls += 1
            self._arrivals[stream.peer] += 1

    def hold(self, stream: Stream, size: int) -> None:
        """Hold so many bytes for a stream's call, in place of those held before.

        Raises:
            OverloadedError: there are too many in flight, of all, of this connection or of its caller; what was held
                is held on.
        """
        settings = self._settings
        with self._lock:
            more = size - stream.held
            if more > 0:
                share = Share(stream.principal, settings.memory_bytes_max)
                if not share.fits(self._caller_bytes[stream.principal] - stream.held, size):
                    raise share.refusal(OverloadedError, "the bytes in flight", "try again when other calls are done")
                if self._bytes + more > settings.memory_bytes_max:
                    most = settings.memory_bytes_max
                    raise OverloadedError("the server has too much in flight; try again", most=most)
                if self._peer_bytes.get(stream.peer, 0) + more > settings.peer_memory_bytes_max:
                    most = settings.peer_memory_bytes_max
                    raise OverloadedError("the connection has too much in flight; try again", most=most)
            self._note_held(stream, size)

    def reserve_large(self, stream: Stream, size: int, gone: Callable[[], bool]) -> None:
        """Reserve bytes for a request in pieces, or a reply that is as large; wait until other calls release theirs.

        Raises:
            OverloadedError: they did not release enough for as long as a call may wait.
            UnavailableError: the server is stopping, or the client went away.
        """
        settings = self._settings
        # A call that is larger than the limit, by its header, or because it was allowed, reserves all there is.
        size = min(size, settings.call_bytes_max)
        end_ms = self._clock.monotonic_ms() + settings.wait_ms_max
        principal = stream.principal
        share = Share(principal, settings.call_bytes_max)
        self.release_large(stream)
        with self._changed:
            while self._large_bytes + size > settings.call_bytes_max or not share.fits(
                self._caller_large_bytes[principal], size
            ):
                self._check_open()
                if gone():
                    raise UnavailableError("the client went away while its large call waited for memory")
                if self._clock.monotonic_ms() >= end_ms:
                    if not share.fits(self._caller_large_bytes[principal], size):
                        raise share.refusal(OverloadedError, "the memory for large calls", "try again")
                    most = settings.call_bytes_max
                    raise OverloadedError("the server has too many large calls under way; try again", most=most)
                self._changed.wait(settings.wait_slice_ms / 1000)
            self._check_open()
            stream.large_bytes = size
            self._large_bytes += size
            self._caller_large_bytes[principal] += size

    def release_large(self, stream: Stream) -> None:
        """Release the large bytes of a stream, and forget the pieces in them; idempotent."""
        stream.assembly = None
        if stream.large_bytes:
            with self._changed:
                self._large_bytes -= stream.large_bytes
                self._caller_large_bytes[stream.principal] -= stream.large_bytes
                stream.large_bytes = 0
                self._changed.notify_all()

    def begin_send(self, stream: Stream) -> None:
        """Note that a reply is on its way; a client that does not take it is found by this."""
        stream.sending_since_ms = self._clock.monotonic_ms()

    def end_send(self, stream: Stream) -> None:
        """Note that the reply was taken."""
        stream.sending_since_ms = None

    def end_call(self, stream: Stream) -> None:
        """Note that a call was answered; nothing is held for it any more."""
        stream.sending_since_ms = None
        stream.idle_since_ms = self._clock.monotonic_ms()
        if stream.assembly is None:
            self.release_large(stream)
        with self._lock:
            self._note_held(stream, 0)
            self._calls -= 1
            if self._closed:
                self._changed.notify_all()

    def reserve_slot(self, kind: str, most: int, principal: str = LOCAL) -> None:
        """Reserve one of the slots for a kind of work, for a caller; `release_slot` ends it.

        Raises:
            OverloadedError: all slots are taken, or all that the caller may have.
            UnavailableError: the server is stopping.
        """
        share = Share(principal, most)
        with self._lock:
            self._check_open()
            if not share.fits(self._caller_slots[kind, principal]):
                raise share.refusal(OverloadedError, f"the {kind} under way", "try again")
            if self._slots[kind] >= most:
                raise OverloadedError(f"the server has too many {kind} under way; try again", most=most)
            self._slots[kind] += 1
            self._caller_slots[kind, principal] += 1

    def release_slot(self, kind: str, principal: str = LOCAL) -> None:
        """Release a slot of a caller."""
        with self._lock:
            self._slots[kind] -= 1
            self._caller_slots[kind, principal] -= 1

    @property
    def closed(self) -> bool:
        """Tell whether the server is stopping."""
        return self._closed

    def close(self, wait_ms: int) -> bool:
        """Refuse new streams and wait for the calls under way; tell whether all of them ended."""
        with self._changed:
            self._closed = True
            return self._changed.wait_for(lambda: not self._calls, wait_ms / 1000)

    def overdue(self) -> set[str]:
        """Return the connections that leave a reply unread, a request in pieces, or streams without a call too long."""
        now_ms = self._clock.monotonic_ms()
        with self._lock:
            streams = list(self._streams)
        late: set[str] = set()
        busy: set[str] = set()
        for stream in streams:
            sending, idle = stream.sending_since_ms, stream.idle_since_ms
            waits = idle if sending is None and stream.large_bytes else sending
            if waits is not None and now_ms - waits >= self._settings.stall_ms:
                late.add(stream.peer)
            elif idle is None or now_ms - idle < self._settings.idle_ms:
                busy.add(stream.peer)
        return late | ({stream.peer for stream in streams} - busy)

    def arrivals(self) -> dict[str, int]:
        """Return how often each connection got through so far; `forget` those that are gone."""
        with self._lock:
            return dict(self._arrivals)

    def forget(self, peers: Iterable[str]) -> None:
        """Drop the counts of connections that are gone."""
        with self._lock:
            for peer in peers:
                self._arrivals.pop(peer, None)

    def counts(self) -> dict[str, int]:
        """Return how many streams, calls and bytes there are now."""
        with self._lock:
            held = self._bytes + self._large_bytes
            return {"streams": len(self._streams), "calls": self._calls, "bytes": held}

    def _note_held(self, stream: Stream, size: int) -> None:
        more = size - stream.held
        if more:
            self._bytes += more
            _count(self._peer_bytes, stream.peer, more)
            self._caller_bytes[stream.principal] += more
            stream.held = size

    def _check_open(self) -> None:
        if self._closed:
            raise UnavailableError("the server is stopping; try again later")


def _count(counts: dict[str, int], key: str, amount: int) -> None:
    # Connections come and go for ever: a count that is down to nothing must not stay.
    left = counts.get(key, 0) + amount
    if left:
        counts[key] = left
    else:
        del counts[key]
