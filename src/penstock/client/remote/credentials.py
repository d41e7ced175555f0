"""What a client shows to a server: its token, its certificate."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from penstock.errors import InvalidError, NotFoundError

_TLS_FILES: Final = {"ca": "tls_root_certs", "cert": "cert_chain", "key": "private_key"}


def token_bytes(token: str) -> bytes:
    """Return a token as it travels.

    Raises:
        InvalidError: it cannot travel.
    """
    # Anything else gRPC would refuse call by call, as if the connection broke.
    if not token.isascii() or not token.isprintable():
        raise InvalidError("a token is printable ASCII on one line; was it read with its line end?")
    return token.encode()


def read_tls_files(tls: Mapping[str, str | Path]) -> dict[str, bytes]:
    """Return the bytes of the files ca, cert and key, by the names that Flight has for them.

    Raises:
        InvalidError: there are others.
        NotFoundError: one cannot be read.
    """
    unknown = tls.keys() - _TLS_FILES.keys()
    if unknown:
        raise InvalidError("tls takes the files ca, cert and key", unknown=", ".join(sorted(unknown)))
    try:
        return {_TLS_FILES[name]: Path(path).read_bytes() for name, path in tls.items()}
    except OSError as error:
        raise NotFoundError("a tls file cannot be read", path=error.filename, cause=error.strerror) from error
