"""Authentication of the HTTP port: which callers may read the metrics, and whether the port speaks TLS.

The port asks what the Flight port asks: for a token, or else for a client certificate. `/health` asks for
nothing: its answer is one word, and a load balancer has no token.
"""

from __future__ import annotations

import socket
import ssl
from pathlib import Path
from typing import Final

from penstock.errors import InvalidError, PermissionDeniedError
from penstock.server.access.token_file import TokenFile

_CLIENT_HELLO: Final = b"\x16"


class HttpAuthentication:
    """Lets in callers with a known token or certificate; all callers where the server asks for neither."""

    def __init__(
        self,
        tokens: TokenFile | None = None,
        *,
        cert: str | Path | None = None,
        key: str | Path | None = None,
        ca: str | Path | None = None,
    ) -> None:
        """Ask for what the Flight port asks for.

        Raises:
            InvalidError: certificate, key or CA cannot be used.
        """
        self._tokens = tokens
        self._ca = ca
        self._tls = None if cert is None else _context(cert, key, ca)

    @property
    def scheme(self) -> str:
        """Return what the port speaks."""
        return "http" if self._tls is None else "https"

    def secured(self, connection: socket.socket) -> socket.socket:
        """Return the connection, behind TLS if that is how the client begins.

        Raises:
            OSError: the client broke off, or does not speak TLS well.
        """
        if self._tls is None or connection.recv(1, socket.MSG_PEEK) != _CLIENT_HELLO:
            return connection
        secured = self._tls.wrap_socket(connection, server_side=True, do_handshake_on_connect=False)
        try:
            secured.do_handshake()
        except OSError:
            secured.close()
            raise
        return secured

    def check(self, connection: socket.socket, authorization: str) -> None:
        """Refuse a caller that may not read the metrics.

        Raises:
            PermissionDeniedError: there is no known token or certificate, or it travelled in the clear.
        """
        secured = isinstance(connection, ssl.SSLSocket)
        if self._tokens is not None:
            self._tokens.principal(authorization)
        elif self._ca is not None and not (isinstance(connection, ssl.SSLSocket) and connection.getpeercert()):
            raise PermissionDeniedError("metrics are for callers with a client certificate; ask over https")
        if self._tokens is not None and self._tls is not None and not secured:
            raise PermissionDeniedError("the token travelled in the clear; ask over https")


def _context(cert: str | Path, key: str | Path | None, ca: str | Path | None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(cert, key)
        if ca is not None:
            # Asked for, not demanded: health needs none.
            context.verify_mode = ssl.CERT_OPTIONAL
            context.load_verify_locations(ca)
    except OSError as error:
        raise InvalidError(
            "certificate, key or ca cannot be used; they are pem files that belong together", cause=str(error)
        ) from error
    return context
