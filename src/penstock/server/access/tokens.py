"""Who may come in: bearer tokens, kept as hashes.

A token file has one `name:hash` per line, where the hash is the SHA-256 of the token in hex; empty
lines and lines that start with `#` are skipped. Tokens are random and long, so a plain hash tells
nothing about them; short ones that people choose are not meant to stand here.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import secrets
from pathlib import Path
from typing import Final

from penstock.errors import InvalidError, NotFoundError, PermissionDeniedError
from penstock.model.node.principal import UNNAMED

TOKEN_LENGTH_MAX: Final = 4_096
_BEARER: Final = "bearer "
_WRITABLE_BY_OTHERS: Final = 0o022
_LINE: Final = re.compile(r"([A-Za-z0-9][\w.@-]{0,127}):([0-9a-f]{64})", re.ASCII)


def make_token() -> str:
    """Return a new random token."""
    return secrets.token_urlsafe(32)


def hash_token(token: str) -> str:
    """Return what a token file keeps of a token."""
    return hashlib.sha256(token.encode()).hexdigest()


class Tokens:
    """The tokens that a server knows, by principal."""

    def __init__(self, hashes: dict[str, str]) -> None:
        self._hashes = hashes

    @classmethod
    def load(cls, path: str | Path) -> Tokens:
        """Return the tokens of a file.

        Raises:
            InvalidError: others may write the file, a line is no `name:hash`, a name stands twice or is none to give,
                or there is no token at all.
            NotFoundError: the file cannot be read.
        """
        try:
            with Path(path).open() as file:
                mode = os.fstat(file.fileno()).st_mode
                lines = file.read().splitlines()
        except OSError as error:
            raise NotFoundError("the token file cannot be read", path=str(path), cause=error.strerror) from error
        if mode & _WRITABLE_BY_OTHERS:
            raise InvalidError("others may write the token file and let themselves in; chmod go-w", path=str(path))
        hashes: dict[str, str] = {}
        for number, line in enumerate(lines, 1):
            text = line.strip()
            if not text or text.startswith("#"):
                continue
            match = _LINE.fullmatch(text)
            if match is None or match[1] in hashes:
                raise InvalidError(
                    "a line of the token file is not name:sha256hex with a name of its own", path=str(path), line=number
                )
            if match[1] in UNNAMED:
                raise InvalidError(
                    "the name stands for callers that show no token; choose another", path=str(path), line=number
                )
            hashes[match[1]] = match[2]
        if not hashes:
            raise InvalidError("the token file has no token; add a line name:sha256hex", path=str(path))
        return cls(hashes)

    def principal(self, authorization: str) -> str:
        """Return whose token an authorization header carries.

        Raises:
            PermissionDeniedError: it carries none that is known.
        """
        if authorization[: len(_BEARER)].lower() == _BEARER and len(authorization) <= TOKEN_LENGTH_MAX:
            given = hash_token(authorization[len(_BEARER) :].strip())
            # Every hash is compared, each in constant time, so that time tells nothing.
            found = [name for name, known in self._hashes.items() if hmac.compare_digest(given, known)]
            if found:
                return found[0]
        if not authorization:
            raise PermissionDeniedError("the server asks for a token; pass token=, on the command line PENSTOCK_TOKEN")
        raise PermissionDeniedError("the server does not know this token; pass token= as its token file has it")
