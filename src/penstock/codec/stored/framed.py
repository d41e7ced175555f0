"""The frame around every small stored file: manifests, saved ends, checkpoints.

magic (4) | version (u16) | payload length (u64) | crc32c (u32) | payload

The checksum covers magic, version, length and payload, so every byte of a file is covered by it,
and the length leaves no room for anything before or after.
"""

from __future__ import annotations

import struct
from typing import Final

import google_crc32c

from penstock.errors import CorruptionError, UnsupportedError

_HEAD: Final = struct.Struct("<4sHQ")
_CRC: Final = struct.Struct("<I")
FRAME_BYTES: Final = _HEAD.size + _CRC.size
"""What a frame adds to its payload."""


def frame(magic: bytes, version: int, payload: bytes) -> bytes:
    """Return the payload as the bytes of a whole file."""
    assert len(magic) == 4
    head = _HEAD.pack(magic, version, len(payload))
    crc = google_crc32c.extend(google_crc32c.value(head), payload)
    return b"".join((head, _CRC.pack(crc), payload))


def framed_length(data: bytes | memoryview) -> int:
    """Return the length that the frame at the start of `data` claims; 0 if there is no room for one.

    The claim is unchecked: cut `data` there and let `unframe` judge.
    """
    if len(data) < FRAME_BYTES:
        return 0
    return FRAME_BYTES + int(_HEAD.unpack_from(data)[2])


def unframe(magic: bytes, version_max: int, data: bytes | memoryview, *, name: str) -> tuple[int, bytes]:
    """Return the version and the payload of a framed file; `name` is for the error.

    Raises:
        CorruptionError: the file is damaged, cut short or longer than it was written.
        UnsupportedError: the file is intact, and of a later version than `version_max`.
    """
    data = bytes(data)
    if len(data) < FRAME_BYTES:
        raise CorruptionError("file is cut short; restore it", file=name, bytes=len(data))
    found, version, length = _HEAD.unpack_from(data)
    if found != magic:
        raise CorruptionError("file does not begin with its magic; restore it", file=name)
    payload = data[FRAME_BYTES:]
    (crc,) = _CRC.unpack_from(data, _HEAD.size)
    if len(payload) != length:
        raise CorruptionError("file has the wrong length; restore it", file=name, bytes=len(payload), expected=length)
    if google_crc32c.extend(google_crc32c.value(data[: _HEAD.size]), payload) != crc:
        raise CorruptionError("file fails its checksum; restore it", file=name)
    if version > version_max:
        raise UnsupportedError(
            "file was written by a newer version; upgrade", file=name, version=version, supported=version_max
        )
    return version, payload
