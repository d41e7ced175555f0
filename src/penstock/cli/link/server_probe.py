"""What answers at a server's address, found out in a moment: a person at a terminal wants the real cause at once.

A program waits for a server that restarts, and tries again whatever the cause; so the probe is the command
line's own. It shakes hands as a client does (TLS, then the opening of HTTP/2) and sends nothing else. What it
cannot tell for sure is no failure: the connection finds out.
"""

from __future__ import annotations

import os
import socket
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from penstock.cli.link.server_url import ServerUrl
from penstock.errors import InvalidError, NotFoundError, PermissionDeniedError, UnavailableError

PROBE_SECONDS_MAX: Final = 5.0
ROOTS_VARIABLE: Final = "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH"
# The client's opening of HTTP/2, and an empty SETTINGS frame.
_OPENING: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"
_FRAME_BYTES: Final = 9
_SETTINGS: Final = 4
_TLS_ALERT: Final = 0x15
_NO_TLS: Final = ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE", "UNEXPECTED_EOF_WHILE_READING")
_WANTS_CERTIFICATE: Final = ("CERTIFICATE_REQUIRED", "HANDSHAKE_FAILURE", "UNKNOWN_CA", "BAD_CERTIFICATE")


def require_server(url: ServerUrl, tls: Mapping[str, str | Path]) -> None:
    """Make sure, as far as can be seen, that a server of this kind answers; of several addresses one will do.

    Raises:
        UnavailableError: nothing listens there.
        InvalidError: what answers speaks something else.
        PermissionDeniedError: one of both ends does not trust the other's certificate.
        NotFoundError: a file of a certificate cannot be read.
    """
    failure: Exception | None = None
    for address in url.addresses:
        try:
            _probe(url, address, tls)
        except (UnavailableError, InvalidError, PermissionDeniedError) as error:
            failure = failure or error
        else:
            return
    if failure is not None:
        raise failure


def _probe(url: ServerUrl, address: tuple[str, int], tls: Mapping[str, str | Path]) -> None:
    try:
        plain = socket.create_connection(address, timeout=PROBE_SECONDS_MAX)
    except OSError as error:
        raise UnavailableError(
            "no server answers; start one with `penstock serve`, or check host and port",
            url=url.text,
            cause=error.strerror or str(error),
        ) from error
    with plain:
        if url.secure:
            _shake_hands(plain, url, address, tls)
            return
        answer = _opened(plain)
    if answer[:5] == b"HTTP/" or answer[:1] == b"<":
        raise InvalidError(_http_port(address), url=url.text)
    if answer and answer[0] != _TLS_ALERT:
        return
    # Cut off, or answered with an alert: that is how an end that wants TLS takes something else.
    protocol = _tls_protocol(address)
    if protocol == "h2":
        raise InvalidError(f"the server speaks tls; say --url {url.with_scheme(secure=True)}", url=url.text)
    if protocol is not None:
        raise InvalidError(_http_port(address), url=url.text)


def _shake_hands(plain: socket.socket, url: ServerUrl, address: tuple[str, int], tls: Mapping[str, str | Path]) -> None:
    try:
        with _context(tls).wrap_socket(plain, server_hostname=address[0]) as secured:
            if secured.selected_alpn_protocol() != "h2":
                raise InvalidError(_http_port(address), url=url.text)
            if not _opened(secured):
                # With TLS 1.3 a server that wants another certificate hangs up after the hands are shaken.
                raise _wants_certificate(url, given="cert" in tls)
    except ssl.SSLCertVerificationError as error:
        raise _distrusted(error, url, address, own="ca" not in tls) from error
    except ssl.SSLError as error:
        reason = error.reason or ""
        if reason in _NO_TLS and _speaks_http2(address):
            raise InvalidError(
                f"the server does not speak tls; say --url {url.with_scheme(secure=False)}", url=url.text
            ) from error
        if reason == "WRONG_VERSION_NUMBER":
            raise InvalidError(_http_port(address), url=url.text) from error
        if any(word in reason for word in _WANTS_CERTIFICATE):
            raise _wants_certificate(url, given="cert" in tls) from error
    except ConnectionError as error:
        if _tls_protocol(address) is not None:
            raise _wants_certificate(url, given="cert" in tls) from error
    except TimeoutError:
        return


def _context(tls: Mapping[str, str | Path]) -> ssl.SSLContext:
    for name, path in tls.items():
        if not os.access(path, os.R_OK):
            raise NotFoundError("the file cannot be read", option=f"--tls-{name}", path=str(path))
    context = ssl.create_default_context(cafile=tls.get("ca") or os.environ.get(ROOTS_VARIABLE))
    # Newer Pythons ask more of a certificate than gRPC does: what gRPC takes is not refused here.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.set_alpn_protocols(["h2"])
    if "cert" in tls and "key" in tls:
        try:
            context.load_cert_chain(tls["cert"], tls["key"])
        except ssl.SSLError as error:
            raise InvalidError(
                "certificate and key do not belong together, or are not pem", cert=tls["cert"], key=tls["key"]
            ) from error
    return context


def _opened(end: socket.socket) -> bytes:
    """Return the first bytes that come back; nothing if it hangs up, or a SETTINGS frame if it is silent."""
    try:
        end.sendall(_OPENING)
        return end.recv(_FRAME_BYTES)
    except TimeoutError:
        # Busy or paused: the connection waits for it.
        return bytes((0, 0, 0, _SETTINGS))
    except ssl.SSLError:
        raise
    except OSError:
        if isinstance(end, ssl.SSLSocket):
            raise
        return b""


def _speaks_http2(address: tuple[str, int]) -> bool:
    try:
        with socket.create_connection(address, timeout=PROBE_SECONDS_MAX) as plain:
            return _opened(plain)[3:4] == bytes((_SETTINGS,))
    except OSError:
        return False


def _tls_protocol(address: tuple[str, int]) -> str | None:
    """Return what is spoken under TLS there, an empty text if that is not said, None if TLS is not spoken."""
    context = ssl.create_default_context()
    # Nothing is sent and nothing believed: who shakes hands is all that is asked.
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    try:
        with (
            socket.create_connection(address, timeout=PROBE_SECONDS_MAX) as plain,
            context.wrap_socket(plain, server_hostname=address[0]) as secured,
        ):
            return secured.selected_alpn_protocol() or ""
    except (OSError, ValueError):
        return None


def _http_port(address: tuple[str, int]) -> str:
    return (
        f"port {address[1]} is no port for calls; is it the server's http port? `penstock serve` says both when "
        "it is ready, and calls go to the one after url="
    )


def _distrusted(
    error: ssl.SSLCertVerificationError, url: ServerUrl, address: tuple[str, int], *, own: bool
) -> PermissionDeniedError:
    cause = error.verify_message.lower().rstrip(".") or "it cannot be verified"
    if "expired" in cause or "not yet valid" in cause:
        message = "the server's certificate is not valid at this time; check the certificate, and this machine's clock"
    elif "mismatch" in cause or "doesn't match" in cause:
        message = f"the server's certificate is not for {address[0]}; name the server as its certificate does"
    elif own:
        message = "the server's certificate is not trusted; name who signed it: --tls-ca FILE"
    else:
        message = "the server's certificate is not signed by the one that --tls-ca names"
    refused = PermissionDeniedError(message, url=url.text, cause=cause)
    refused.reached = False
    return refused


def _wants_certificate(url: ServerUrl, *, given: bool) -> PermissionDeniedError:
    message = (
        "the server does not trust your certificate; use one that its ca signed"
        if given
        else "the server asks for a certificate of yours; give it with --tls-cert FILE and --tls-key FILE"
    )
    refused = PermissionDeniedError(message, url=url.text)
    refused.reached = False
    return refused
