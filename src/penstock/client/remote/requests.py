"""Requests to a server: sent at once, or in pieces if they are larger than the server takes at once.

How much a server takes at once is its own setting. A client begins with the default, and learns of a smaller one
from the server's refusal.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final

from penstock.client.remote.call_streams import CallStreams
from penstock.client.remote.raw_reply import RawReply
from penstock.errors import LimitError, PenstockError
from penstock.wire.fault import read_fault
from penstock.wire.frame import Draft, FrameKind, decode_frame, is_reply
from penstock.wire.piece import HEADER_BYTES_MAX, PIECE_BYTES_MAX, Pieces

BYTES_EACH_MS: Final = 10_000
"""The least that a server does of a large call in a millisecond: 10 MB in a second."""


class Requests:
    """The requests of one connection. Thread-safe."""

    def __init__(self, streams: CallStreams) -> None:
        self._streams = streams
        self._bytes_max = PIECE_BYTES_MAX

    def ask(self, call_id: int, request: Draft, *, rows: int, timeout_ms: int, affinity: Hashable = None) -> RawReply:
        """Return the answer to a request that writes so many rows.

        Raises:
            PenstockError: as `CallStream.ask` has it.
        """
        while True:
            bytes_max = self._bytes_max
            frame = request.encode() if request.size <= bytes_max else None
            with self._streams.lend(affinity) as stream:
                if frame is not None:
                    answer = stream.ask(frame, rows=rows, timeout_ms=timeout_ms)
                else:
                    patient_ms = timeout_ms + request.size // BYTES_EACH_MS
                    for piece, last in Pieces(call_id, request, bytes_max):
                        answer = stream.ask(piece, rows=rows if last else 0, timeout_ms=patient_ms)
                        if not is_reply(answer.frame):
                            break
            if is_reply(answer.frame) or not self._learn(answer, bytes_max):
                return answer

    def travels_at_once(self, request: Draft) -> bool:
        """Tell whether a request needs no pieces, as far as is known."""
        return request.size <= self._bytes_max

    def _learn(self, answer: RawReply, bytes_max: int) -> bool:
        """Note how much the server takes at once, if it refuses a request for that; tell whether it is less."""
        most = _told(answer)
        # Several threads may learn at once, and a server may have been started anew: the latest counts.
        if most is None or not 2 * HEADER_BYTES_MAX < most < bytes_max:
            return False
        self._bytes_max = most
        return True


def _told(answer: RawReply) -> int | None:
    try:
        frame = decode_frame(answer.frame)
        refusal = read_fault(frame.header.get("error")) if frame.kind is FrameKind.ERROR else None
    except PenstockError:
        return None  # decoding the answer says what is wrong with it
    most = refusal.facts.get("request_bytes_max") if isinstance(refusal, LimitError) else None
    return most if type(most) is int else None
