"""To what a command connects, and who it says it is."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

import typer

from penstock.cli.link.server_probe import require_server
from penstock.cli.link.server_url import ServerUrl
from penstock.cli.terminal.words import say
from penstock.errors import DirectoryInUseError, InvalidError, NotFoundError

if TYPE_CHECKING:
    from penstock.client.connection import Connection
    from penstock.client.table import Table

URL_VARIABLE: Final = "PENSTOCK_URL"
TOKEN_VARIABLE: Final = "PENSTOCK_TOKEN"
TLS_VARIABLES: Final = "PENSTOCK_TLS_"


@dataclass(frozen=True, slots=True)
class Access:
    """What was said beside the command: where the tables are, and what a secured server asks for."""

    url: str | None = None
    token_given: str | None = None
    token_file: Path | None = None
    tls: dict[str, str | Path] = field(default_factory=dict)

    @classmethod
    def of(cls, url: str | None, token: str | None, token_file: Path | None, **tls: Path | None) -> Access:
        """Return the access that options describe, and where they are silent the environment."""
        found = {name: path or os.environ.get(f"{TLS_VARIABLES}{name.upper()}") for name, path in tls.items()}
        return cls(url, token, token_file, {name: path for name, path in found.items() if path})

    def token(self) -> str | None:
        """Return the token that was given, or that of the file or the environment, if there is one.

        Raises:
            NotFoundError: the file cannot be read.
        """
        if self.token_given is not None:
            return self.token_given
        if self.token_file is None:
            return os.environ.get(TOKEN_VARIABLE) or None
        try:
            return self.token_file.read_text().strip()
        except OSError as error:
            raise NotFoundError(
                "the token file cannot be read", path=str(self.token_file), cause=error.strerror
            ) from error


def open_connection(
    context: typer.Context, url: str | None, *, create: bool = False, read_only: bool | None = None
) -> Connection:
    """Connect to the server, or open the directory, that `url` names; an absent directory only to `create` it.

    `read_only` says whether --read-only was given; None where the command does not have it.

    Raises:
        InvalidError: neither option nor environment names one.
        DirectoryInUseError: another process has the directory open.
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
    server = ServerUrl.parse(url)
    if server is None:
        # A slip in a path would else leave an empty data directory behind, and find no table in it.
        if not create and "://" not in url and not Path(url).is_dir():
            raise NotFoundError("no such data directory; `penstock table create` makes one", directory=url)
        try:
            return connect(url, read_only=read_only is True)
        except DirectoryInUseError as error:
            raise DirectoryInUseError(_in_use(beside=read_only is not None), **error.facts) from error
    if read_only:
        raise InvalidError("--read-only goes with a data directory; leave it out, the server takes care", url=url)
    require_server(server, access.tls)
    token = access.token()
    if token is not None and server.overheard is not None:
        say(
            f"warning: your token goes to {server.overheard} without tls, readable on the way; "
            f"have the server speak tls and say --url {server.with_scheme(secure=True)}"
        )
    return connect(url, token=token, tls=access.tls or None)


def _in_use(*, beside: bool) -> str:
    other = ", or read what is durable beside it with --read-only" if beside else ""
    return f"directory is open in another process; if that is a server, connect to it with --url{other}"


def open_table(connection: Connection, path: str, lease_id: str | None) -> Table:
    """Return the table of that path, or what a lease holds of it.

    Raises:
        NotFoundError: there is no such table, or the lease is unknown or does not hold it.
    """
    return connection.table(path) if lease_id is None else connection.lease(lease_id).table(path)
