"""To what a command connects, and who it says it is."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import typer

from penstock.errors import InvalidError, NotFoundError, UnavailableError
from penstock.model.node.ports import FLIGHT_PORT

if TYPE_CHECKING:
    from penstock.client.connection import Connection
    from penstock.client.table import Table

URL_VARIABLE: Final = "PENSTOCK_URL"
TOKEN_VARIABLE: Final = "PENSTOCK_TOKEN"
CONNECT_SECONDS_MAX: Final = 5.0
_SCHEMES: Final = ("penstock://", "penstock+tls://")


@dataclass(frozen=True, slots=True)
class Access:
    """What was said before the command: where the tables are, and what a secured server asks for."""

    url: str | None = None
    token_file: Path | None = None
    tls: dict[str, str | Path] = field(default_factory=dict)

    @classmethod
    def of(cls, url: str | None, token_file: Path | None, **tls: Path | None) -> Access:
        """Return the access that options describe."""
        return cls(url, token_file, {name: path for name, path in tls.items() if path is not None})

    def token(self) -> str | None:
        """Return the token of the file or the environment, if there is one.

        Raises:
            NotFoundError: the file cannot be read.
        """
        if self.token_file is None:
            return os.environ.get(TOKEN_VARIABLE)
        try:
            return self.token_file.read_text().strip()
        except OSError as error:
            raise NotFoundError(
                "the token file cannot be read", path=str(self.token_file), cause=error.strerror
            ) from error


def open_connection(context: typer.Context, url: str | None, *, create: bool = False) -> Connection:
    """Connect to the server, or open the directory, that `url` names; an absent directory only to `create` it.

    Raises:
        InvalidError: neither option nor environment names one.
        PenstockError: it cannot be reached or opened.
    """
    # Here, not above: the root command has no use for Arrow.
    from penstock.client.connection import connect  # noqa: PLC0415

    access = context.find_object(Access) or Access()
    url = url or access.url or os.environ.get(URL_VARIABLE)
    if not url:
        raise InvalidError(
            "say which server or directory: --url penstock://127.0.0.1:9123 or --url ./data, or set PENSTOCK_URL"
        )
    if not url.startswith(_SCHEMES):
        # A slip in a path would else leave an empty data directory behind, and find no table in it.
        if not create and "://" not in url and not Path(url).is_dir():
            raise NotFoundError("no such data directory; `penstock table create` makes one", directory=url)
        return connect(url)
    _require_listener(url)
    return connect(url, token=access.token(), tls=access.tls or None)


def open_table(connection: Connection, path: str, lease_id: str | None) -> Table:
    """Return the table of that path, or what a lease holds of it.

    Raises:
        NotFoundError: there is no such table, or the lease is unknown or does not hold it.
    """
    return connection.table(path) if lease_id is None else connection.lease(lease_id).table(path)


def _require_listener(url: str) -> None:
    # A program waits for a server that restarts; who types a command wants to know at once.
    parts = urlsplit(url)
    try:
        address = (parts.hostname or "", parts.port or FLIGHT_PORT)
    except ValueError as error:
        raise InvalidError("a server's url is penstock://host:port", url=url) from error
    try:
        socket.create_connection(address, timeout=CONNECT_SECONDS_MAX).close()
    except OSError as error:
        raise UnavailableError(
            "no server answers; start one with `penstock serve`, or check host and port",
            url=url,
            cause=error.strerror or str(error),
        ) from error
