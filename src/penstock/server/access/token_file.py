"""A token file that is read again when it changes: a token that is taken out stops being one."""

from __future__ import annotations

import logging
import os
import threading
from pathlib import Path
from typing import Final

from penstock.errors import PenstockError
from penstock.runtime.clock import Clock, SystemClock
from penstock.server.access.tokens import Tokens

LOOK_AGAIN_MS: Final = 1_000
_log = logging.getLogger("penstock")


def file_stamp(path: str | Path) -> tuple[int, int, int] | None:
    """Return what changes when a file is replaced or written, None if it is not there."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


class TokenFile:
    """The tokens that a file has now. Thread-safe by one lock.

    A file that cannot be read, or has a bad line, changes nothing: the tokens of before stay, and the log says
    so. Otherwise an editor that writes a file in two steps would lock everybody out.
    """

    def __init__(self, path: str | Path, clock: Clock | None = None) -> None:
        """Read the file.

        Raises:
            InvalidError: a line is wrong, or there is no token at all.
            NotFoundError: the file cannot be read.
        """
        self._path = Path(path)
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()
        self._stamp = file_stamp(self._path)
        self._looked_ms = self._clock.monotonic_ms()
        self._tokens = Tokens.load(path)

    def principal(self, authorization: str) -> str:
        """Return whose token an authorization header carries.

        Raises:
            PermissionDeniedError: it carries none that is known.
        """
        return self.tokens.principal(authorization)

    @property
    def tokens(self) -> Tokens:
        """Return the tokens of the file, looked at a moment ago; another object if they changed."""
        with self._lock:
            now_ms = self._clock.monotonic_ms()
            if now_ms - self._looked_ms >= LOOK_AGAIN_MS:
                self._looked_ms = now_ms
                self._look()
            return self._tokens

    def _look(self) -> None:
        stamp = file_stamp(self._path)
        if stamp == self._stamp:
            return
        self._stamp = stamp
        try:
            self._tokens = Tokens.load(self._path)
        except PenstockError as error:
            _log.error("the token file changed and is wrong; the tokens of before stay valid error=%s", error)
        else:
            _log.info("the token file changed and was read again")
