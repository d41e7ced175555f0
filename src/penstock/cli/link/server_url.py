"""A server's URL on the command line: its addresses, and whether what is said there can be overheard."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from penstock.errors import InvalidError
from penstock.model.node.ports import FLIGHT_PORT

PLAIN: Final = "penstock"
SECURE: Final = "penstock+tls"
_HOST_AND_PORT: Final = re.compile(r"(\[[0-9A-Fa-f:]+\]|[A-Za-z0-9][A-Za-z0-9.-]*):\d{1,5}")
_ALMOST: Final = re.compile(r"penstock(\+tls)?:/?(?!/)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ServerUrl:
    """A server's URL, or a cluster's: `penstock://host:port`, `penstock+tls://a:9123,b:9123`."""

    text: str
    secure: bool
    addresses: tuple[tuple[str, int], ...]

    @classmethod
    def parse(cls, text: str) -> ServerUrl | None:
        """Return the URL, None if the text names a directory.

        Raises:
            InvalidError: it looks like a server, and is none that can be reached.
        """
        scheme, separator, place = text.partition("://")
        if not separator:
            _check_no_server_was_meant(text)
            return None
        if scheme not in (PLAIN, SECURE):
            return None
        return cls(text, scheme == SECURE, tuple(_address(text, part) for part in place.split(",")))

    @property
    def overheard(self) -> str | None:
        """Return a host to which what is said travels readable through a network, None if there is none."""
        if self.secure:
            return None
        return next((host for host, _ in self.addresses if not _is_loopback(host)), None)

    def with_scheme(self, *, secure: bool) -> str:
        """Return the URL, with TLS or without."""
        return f"{SECURE if secure else PLAIN}://{self.text.partition('://')[2]}"


def _address(text: str, part: str) -> tuple[str, int]:
    try:
        found = urlsplit(f"//{part}")
        host, port = found.hostname, found.port or FLIGHT_PORT
    except ValueError:
        host = None
    if not host:
        raise InvalidError("a server's url is penstock://host:port", url=text)
    return host, port


def _check_no_server_was_meant(text: str) -> None:
    if Path(text).exists():
        return
    if _ALMOST.match(text):
        raise InvalidError(f"a server's url has two slashes: --url {PLAIN}://{text.lstrip('/').split('/')[-1]}")
    if _HOST_AND_PORT.fullmatch(text) or _is_address(text):
        raise InvalidError(f"that looks like a server, and its scheme is missing: --url {PLAIN}://{text}")


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
