"""Which connections are cut because nothing whole comes through them.

gRPC collects a message before any code of ours sees it: a client that begins one and never ends it, or sends it to a
method that is not offered, makes the server hold it, without a token and without a time limit. What the
kernel counts as received on a connection, beside the calls that came out of it, tells such connections apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from penstock.runtime.clock import Clock
from penstock.server.calls.connections import Address
from penstock.server.settings import ServerSettings

PART_BYTES_MIN: Final = 64 << 10
"""Less than this may be the transport's own talk (pings, windows) and not the beginning of a message."""


@dataclass(slots=True)
class _Seen:
    """A connection when something last came through it: when, and after how many bytes."""

    since_ms: int
    bytes: int
    arrivals: int = 0


class ConnectionWatch:
    """Remembers how the connections of a port got on. Not thread-safe: one task looks."""

    def __init__(self, settings: ServerSettings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._seen: dict[Address, _Seen] = {}

    def look(self, received: Mapping[Address, int], arrivals: Mapping[Address, int]) -> set[Address]:
        """Return the connections to cut.

        `received` has the bytes that came in on each connection there is, `arrivals` how many streams and calls
        came out of them.
        """
        now_ms = self._clock.monotonic_ms()
        self._seen = {peer: seen for peer, seen in self._seen.items() if peer in received}
        return {peer for peer, size in received.items() if self._is_stuck(peer, size, arrivals.get(peer, 0), now_ms)}

    def _is_stuck(self, peer: Address, size: int, arrivals: int, now_ms: int) -> bool:
        seen = self._seen.setdefault(peer, _Seen(now_ms, 0))
        if arrivals != seen.arrivals:
            seen.since_ms, seen.bytes, seen.arrivals = now_ms, size, arrivals
            return False
        waited_ms, waiting = now_ms - seen.since_ms, size - seen.bytes
        if not arrivals:
            return waited_ms >= self._settings.stranger_ms or waiting > self._settings.stranger_bytes_max
        if waiting > self._settings.peer_memory_bytes_max:
            return True
        return waiting > PART_BYTES_MIN and waited_ms >= self._settings.stall_ms
