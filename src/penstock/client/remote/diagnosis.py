"""Why a server is not reached, as far as that can be found out from here."""

from __future__ import annotations

import socket
import ssl
from typing import Final

from penstock.errors import PenstockError
from penstock.wire.fault import HANGS_UP

PROBE_SECONDS_MAX: Final = 0.5


def explain(error: PenstockError, url: str, address: tuple[str, int], *, secure: bool) -> PenstockError:
    """Return what a connection reports, with where it was to go, and what to do about it."""
    message = error.message
    if not error.reached and str(error.facts.get("cause", "")).lower().endswith(HANGS_UP):
        message = _why_hung_up(address, secure) or message
    told = type(error)(message, url=url, **error.facts)
    told.reached = error.reached
    return told


def _why_hung_up(address: tuple[str, int], secure: bool) -> str | None:
    if secure:
        return "the server hangs up; if it asks for a client's certificate, pass cert and key by tls="
    return "the server speaks tls; use penstock+tls://" if _speaks_tls(address) else None


def _speaks_tls(address: tuple[str, int]) -> bool:
    context = ssl.create_default_context()
    # Nothing is sent and nothing believed: whether a server shakes hands is all that is asked.
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    try:
        with (
            socket.create_connection(address, timeout=PROBE_SECONDS_MAX) as plain,
            context.wrap_socket(plain, server_hostname=address[0]),
        ):
            return True
    except (OSError, ValueError):
        return False
