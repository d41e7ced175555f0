"""What a server allows, in numbers."""

from __future__ import annotations

from dataclasses import dataclass, fields

from penstock.errors import InvalidError
from penstock.wire.frame import FRAME_BYTES_MAX


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """The limits of a server, all positive.

    A request above `request_bytes_max` is refused once it has arrived; Flight cannot refuse it before. A reply
    with rows above `reply_bytes_max` is not sent. A request
    that comes in pieces has up to `call_bytes_max`, which is also what all of them may hold together.
    `memory_bytes_max` is what all requests and replies in flight may hold together,
    `peer_memory_bytes_max` those of one connection. An open stream holds a thread that mostly sleeps.
    A client that leaves a reply unread for `stall_ms`, or holds streams without a call for `idle_ms`,
    loses its connection. `wait_slice_ms` is how often a call that waits for changes looks whether its
    client is still there; `drain_ms` how long calls in flight may go on when the server stops.
    A connection that no call has come through in `stranger_ms`, or that has sent `stranger_bytes_max` before
    one did, is cut; so is one that sends `peer_memory_bytes_max` without a whole call among it.
    """

    request_bytes_max: int = 64 << 20
    reply_bytes_max: int = FRAME_BYTES_MAX
    call_bytes_max: int = 1 << 30
    memory_bytes_max: int = 1 << 30
    peer_memory_bytes_max: int = 256 << 20
    streams_max: int = 1_024
    peer_streams_max: int = 256
    exports_max: int = 8
    calls_max: int = 256
    waits_max: int = 128
    wait_ms_max: int = 30_000
    wait_slice_ms: int = 500
    stall_ms: int = 30_000
    idle_ms: int = 600_000
    drain_ms: int = 10_000
    stranger_ms: int = 10_000
    stranger_bytes_max: int = 1 << 20

    def __post_init__(self) -> None:
        for setting in fields(self):
            if getattr(self, setting.name) <= 0:
                raise InvalidError("a server's limits are positive", setting=setting.name)
