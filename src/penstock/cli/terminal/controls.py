"""Control characters on a terminal: shown, not sent, for a stored value must not command the terminal of its reader."""

from __future__ import annotations

import io
import re
from typing import Any, BinaryIO, Final

_SHOWN: Final = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160))}
_SHOWN_IN_CELLS: Final = _SHOWN | {9: "\\t", 10: "\\n", 13: "\\r"}
_SHOWN_IN_TEXT: Final = {code: text for code, text in _SHOWN.items() if chr(code) not in "\t\n\r"}
# In UTF-8 the controls from 128 on have a byte of their own in front.
_BYTES: Final = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]|\xc2[\x80-\x9f]")


def shown_cell(text: str) -> str:
    """Return a text as it stands in a cell of a table: on one line, without controls."""
    return text if text.isprintable() else text.translate(_SHOWN_IN_CELLS)


def shown_text(text: str) -> str:
    """Return a text as it stands on a terminal: its lines and tabs are its own."""
    return text.translate(_SHOWN_IN_TEXT)


class ControlsShown(io.RawIOBase):
    """A stream of bytes to a terminal in which controls, but for ends of lines and tabs, are shown."""

    def __init__(self, stream: BinaryIO) -> None:
        super().__init__()
        self._stream = stream

    def writable(self) -> bool:
        """Tell that it can be written."""
        return True

    def write(self, data: Any, /) -> int:
        """Write bytes."""
        given = bytes(data)
        self._stream.write(_BYTES.sub(lambda found: b"\\x%02x" % found[0][-1], given))
        return len(given)

    def flush(self) -> None:
        """Flush what is underneath."""
        self._stream.flush()
