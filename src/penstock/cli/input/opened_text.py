"""A text file, looked at before it is read: its byte order mark is taken off, and what is no UTF-8 is said so."""

from __future__ import annotations

import codecs
import io
import zlib
from typing import Any, BinaryIO, Final, cast

from penstock.errors import SchemaMismatchError

_LOOK_BYTES: Final = 64
# The longer marks first: that of UTF-32 begins as that of UTF-16 does.
_OTHERS: Final = (
    (codecs.BOM_UTF32_LE, "UTF-32"),
    (codecs.BOM_UTF32_BE, "UTF-32"),
    (codecs.BOM_UTF16_LE, "UTF-16"),
    (codecs.BOM_UTF16_BE, "UTF-16"),
)


def opened_text(stream: BinaryIO, file: str) -> io.BufferedReader | None:
    """Return the stream at its first character, None if it has none.

    Raises:
        SchemaMismatchError: it is text of another encoding, or no text.
    """
    begun: io.BufferedReader = io.BufferedReader(cast(Any, _Unpacked(stream, file)))
    opening = begun.peek(_LOOK_BYTES)[:_LOOK_BYTES]
    encoding = next((name for mark, name in _OTHERS if opening.startswith(mark)), None)
    if encoding is not None:
        raise SchemaMismatchError(
            f"the file is {encoding}, not utf-8; convert it: iconv -f {encoding} -t UTF-8", file=file
        )
    if b"\0" in opening:
        raise SchemaMismatchError("the file is no text; say what it is with --format", file=file)
    if opening.startswith(codecs.BOM_UTF8):
        begun.read(len(codecs.BOM_UTF8))
    return begun if begun.peek(1) else None


class _Unpacked(io.RawIOBase):
    """A stream that hands out what is there, and says of a damaged archive that it is one."""

    def __init__(self, stream: BinaryIO, file: str) -> None:
        super().__init__()
        self._stream = cast(io.BufferedReader, stream)
        self._file = file

    def readable(self) -> bool:
        """Tell that it can be read."""
        return True

    def readinto(self, buffer: Any, /) -> int:
        """Read some bytes."""
        try:
            found = self._stream.read1(len(buffer))
        except (EOFError, zlib.error) as error:
            raise SchemaMismatchError("not a readable gzip file", file=self._file, reason=str(error)) from error
        buffer[: len(found)] = found
        return len(found)
