"""Pieces: a request that is larger than a server takes at once, as its bytes one after the other.

The request is encoded as a frame like any other. The first piece has no bytes and says how many there
will be, so a server that has no room says so before any of them travels; each other one says where
its bytes belong. Each is answered, the last one by the answer to the request. All go over one stream,
and end with it: a request that is sent again is sent from its first byte.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pyarrow as pa

from penstock.errors import InvalidError
from penstock.model.place.change import OFFSET_MAX
from penstock.wire.frame import WORD_BYTES, Draft, Frame, FrameKind, bytes_ahead, encode_header, frame_of

PIECE_BYTES_MAX: Final = 64 << 20
"""No piece is larger, however large a request the server takes."""

HEADER_BYTES_MAX: Final = 256
"""What a piece has besides its bytes, at most."""


class Pieces:
    """The pieces of one request."""

    def __init__(self, call_id: int, request: Draft, bytes_max: int) -> None:
        """Cut a request so that each piece is a message of so many bytes at most."""
        self._call_id = call_id
        self._request = request
        self._part_bytes = min(bytes_max, PIECE_BYTES_MAX) - HEADER_BYTES_MAX
        assert self._part_bytes > 0

    def __iter__(self) -> Iterator[tuple[pa.Buffer, bool]]:
        """Yield each piece, and whether it is the last; the request is encoded when the second is asked for."""
        announced = encode_header({"id": self._call_id, "total": self._request.size})
        yield pa.py_buffer(frame_of(FrameKind.PIECE, announced)), False
        whole = self._request.encode()
        for start in range(0, whole.size, self._part_bytes):
            part = whole.slice(start, min(self._part_bytes, whole.size - start))
            header = {"id": self._call_id, "start": start, "bodies": [part.size]}
            head = frame_of(FrameKind.PIECE, encode_header(header))
            piece = pa.allocate_buffer(len(head) + part.size)
            with pa.FixedSizeBufferWriter(piece) as sink:
                sink.write(head)
                sink.write(part)
            yield piece, start + part.size == whole.size


class Assembly:
    """A request of which pieces have come."""

    def __init__(self, first: Frame) -> None:
        """Begin with the first piece.

        Raises:
            InvalidError: it is not the first piece of a request.
        """
        total = first.header.get("total")
        if type(total) is not int or not 0 < total <= OFFSET_MAX or first.bodies:
            raise InvalidError("malformed message: the first piece says how many bytes follow, and has none")
        self.total: int = total
        self._call_id = first.header.get("id")
        self._buffer: pa.Buffer | None = None
        self._sink: pa.NativeFile | None = None
        self._come = 0

    def add(self, piece: Frame) -> bool:
        """Put the next piece where it belongs; tell whether it was the last.

        Raises:
            InvalidError: it is another piece than the next one of this request.
        """
        header = piece.header
        if len(piece.bodies) != 1 or header.get("id") != self._call_id or header.get("start") != self._come:
            raise InvalidError("a piece of the request was lost; send all of it again", expected=self._come)
        (part,) = piece.bodies
        if not 0 < part.size <= self.total - self._come:
            raise InvalidError("a piece of the request has other bytes than were announced", bytes=part.size)
        if self._sink is None:
            # Memory is taken by what is written into it, not by what is announced.
            ahead = bytes_ahead(self.total) % WORD_BYTES
            self._buffer = pa.allocate_buffer(ahead + self.total)
            self._sink = pa.FixedSizeBufferWriter(self._buffer)
            self._sink.write(bytes(ahead))
        self._sink.write(part)
        self._come += part.size
        return self._come == self.total

    @property
    def request(self) -> pa.Buffer:
        """Return the request, once all pieces have come; its columns lie where they would in a message."""
        assert self._buffer is not None
        assert self._come == self.total
        return self._buffer.slice(bytes_ahead(self.total) % WORD_BYTES)
