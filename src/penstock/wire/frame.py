"""A frame: what travels in one Flight message, as its application metadata.

Layout, little-endian: magic "PS" (2), protocol version (1), kind (1), header length (4), header
(JSON in UTF-8), bodies. The header's `bodies` lists the length of each body, one Arrow IPC stream.
The first follows the header, each other one starts a multiple of 8 behind the first's start. The
sender fills the header up with spaces, so that the first lies at a word once the transport has put
the message down: where columns lie otherwise, the receiver has to copy them.

A request travels in the metadata of a message without data: there a stream is not tied to the schema
of its first batch, so one stream serves every call, and Flight decodes nothing before we looked at it.
A reply may have its batches beside it instead (`penstock.wire.reply`).
"""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final

import pyarrow as pa

from penstock.errors import InvalidError, LimitError, UnsupportedError
from penstock.wire.body import Body

PROTOCOL_VERSION: Final = 3
MAGIC: Final = b"PS"
CALL_STREAM: Final = b"penstock.calls"
"""The descriptor of a stream that carries frames; after a slash the id of the database that is meant may follow."""

FRAME_BYTES_MAX: Final = 1 << 30
"""No frame that travels at once is larger, from a client or a server; servers set a lower limit for requests."""

HEADER_BYTES_MAX: Final = 16 << 20
HEADER_VALUES_MAX: Final = 1_000_000
"""How many values a header may have: 16 MB of empty lists would become 700 MB in memory."""

BODIES_MAX: Final = 65_536
_HEAD: Final = struct.Struct("<2sBBI")
HEAD_BYTES: Final = _HEAD.size
WORD_BYTES: Final = 8
"""Columns lie at multiples of this."""

_FROM_JSON: Final = json.JSONDecoder()
_JSON: Final = json.JSONEncoder(separators=(",", ":"), allow_nan=False, check_circular=False)


class FrameKind(IntEnum):
    """Why a frame is sent."""

    REQUEST = 0
    REPLY = 1
    ERROR = 2
    END = 3
    PIECE = 4


_KINDS: Final = tuple(FrameKind)


@dataclass(frozen=True, slots=True)
class Frame:
    """A decoded frame: its header, and its bodies as bytes that are not yet read."""

    kind: FrameKind
    header: dict[str, Any]
    bodies: tuple[pa.Buffer, ...] = ()


class Draft:
    """A frame whose size is known before it is encoded."""

    __slots__ = ("_bodies", "_text", "kind", "size")

    def __init__(self, kind: FrameKind, header: dict[str, Any], batches: Sequence[pa.RecordBatch] = ()) -> None:
        self.kind = kind
        self._bodies = [Body(batch) for batch in batches]
        text = encode_header({**header, "bodies": [body.size for body in self._bodies]} if batches else header)
        behind = 0
        for body in self._bodies:
            behind = _aligned(behind) + body.size
        self._text = text + b" " * (_filling(HEAD_BYTES + len(text), behind) if batches else 0)
        self.size = HEAD_BYTES + len(self._text) + behind

    def encode(self) -> pa.Buffer:
        """Return the bytes of the frame; each batch is copied once, straight into them.

        Raises:
            LimitError: the header is larger than any may be.
        """
        if not self._bodies:
            return pa.py_buffer(frame_of(self.kind, self._text))
        frame = pa.allocate_buffer(self.size)
        with pa.FixedSizeBufferWriter(frame) as sink:
            sink.write(frame_of(self.kind, self._text))
            position = 0
            for body in self._bodies:
                sink.write(bytes(_aligned(position) - position))
                body.write_to(sink)
                position = _aligned(position) + body.size
        return frame


def call_stream(database: str | None) -> bytes:
    """Return the descriptor of a stream of calls to a database, None for whichever there is."""
    return CALL_STREAM if database is None else CALL_STREAM + b"/" + database.encode()


def encode_frame(kind: FrameKind, header: dict[str, Any], batches: Sequence[pa.RecordBatch] = ()) -> pa.Buffer:
    """Return the bytes of a frame that travels at once.

    Raises:
        LimitError: the frame would be larger than any may be.
    """
    return check_travels(Draft(kind, header, batches)).encode()


def check_travels(draft: Draft) -> Draft:
    """Return a frame that is small enough to travel at once.

    Raises:
        LimitError: it is not.
    """
    if draft.size > FRAME_BYTES_MAX:
        raise LimitError("the message is too large; ask for less, or send smaller batches", bytes=draft.size)
    return draft


def encode_header(header: dict[str, Any]) -> bytes:
    """Return a header as text, behind which blanks may follow."""
    return _JSON.encode(header).encode()


def frame_of(kind: FrameKind, text: bytes) -> bytes:
    """Return the bytes of a frame up to the end of its header.

    Raises:
        LimitError: the header is larger than any may be.
    """
    if len(text) > HEADER_BYTES_MAX:
        raise LimitError("the message is too large; ask for less, or send smaller batches", bytes=len(text))
    return _HEAD.pack(MAGIC, PROTOCOL_VERSION, kind, len(text)) + text


def decode_frame(frame: pa.Buffer) -> Frame:
    """Return what the bytes say; bodies are slices of them.

    Raises:
        InvalidError: the bytes are no frame.
        LimitError: its header is too large.
        UnsupportedError: the other end speaks a newer protocol.
    """
    if frame.size < _HEAD.size:
        raise InvalidError("the message is no frame: it is too short", bytes=frame.size)
    magic, version, kind, header_bytes = _HEAD.unpack_from(frame)
    if magic != MAGIC:
        raise InvalidError("the message is no frame: it begins with other bytes")
    if version != PROTOCOL_VERSION:
        raise UnsupportedError(
            "the other end speaks another protocol; upgrade the older one", protocol=version, known=PROTOCOL_VERSION
        )
    if kind >= len(_KINDS):
        raise InvalidError("the message is a frame of no known kind", kind=kind)
    header = _read_header(frame, header_bytes)
    return Frame(_KINDS[kind], header, _read_bodies(frame, _HEAD.size + header_bytes, header.pop("bodies", [])))


def is_reply(frame: pa.Buffer) -> bool:
    """Tell whether a frame is an answer that is no error, without decoding it."""
    return bool(frame.size >= _HEAD.size and frame[3] == FrameKind.REPLY)


def _read_header(frame: pa.Buffer, header_bytes: int) -> dict[str, Any]:
    if header_bytes > HEADER_BYTES_MAX:
        raise LimitError("the message's header is too large", bytes=header_bytes, most=HEADER_BYTES_MAX)
    if header_bytes > frame.size - _HEAD.size:
        raise InvalidError("the message ends inside its header", bytes=frame.size)
    text = frame.slice(_HEAD.size, header_bytes).to_pybytes()
    # Commas within texts count too: this errs on the safe side, and no call of ours comes near.
    values = text.count(b",") + text.count(b"[") + text.count(b"{")
    if values > HEADER_VALUES_MAX:
        raise LimitError("the message's header has too many values", values=values, most=HEADER_VALUES_MAX)
    try:
        header = _FROM_JSON.decode(text.decode())
    except (ValueError, RecursionError) as error:
        raise InvalidError("the message's header is no json") from error
    if not isinstance(header, dict):
        raise InvalidError("the message's header is no json object")
    return header


def _read_bodies(frame: pa.Buffer, start: int, sizes: object) -> tuple[pa.Buffer, ...]:
    if not isinstance(sizes, list) or len(sizes) > BODIES_MAX:
        raise InvalidError("the message lists its bodies wrongly")
    bodies = []
    first = end = start
    for size in sizes:
        start = first + _aligned(end - first)
        if type(size) is not int or not 0 <= size <= frame.size - start:
            raise InvalidError("the message ends inside a body", bytes=frame.size)
        bodies.append(frame.slice(start, size))
        end = start + size
    if end != frame.size:
        raise InvalidError("the message goes on after its last body", bytes=frame.size, expected=end)
    return tuple(bodies)


def _filling(start: int, behind: int) -> int:
    """Return how many bytes a header lacks for what is behind it to lie at a word on arrival."""
    return -(bytes_ahead(start + behind) + start) % WORD_BYTES


def bytes_ahead(size: int) -> int:
    """Return how far behind a word Flight puts a frame of that size: a tag of one byte, its length as a varint."""
    return 1 + -(-size.bit_length() // 7)


def _aligned(position: int) -> int:
    return -(-position // WORD_BYTES) * WORD_BYTES
