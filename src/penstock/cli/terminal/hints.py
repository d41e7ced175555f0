"""What may help after a failure: one line, for the cause that the error names."""

from __future__ import annotations

import shlex
from typing import Final

from penstock.errors import (
    DatabaseNotFoundError,
    DirectoryInUseError,
    InternalError,
    LeaseNotFoundError,
    PartitionNotFoundError,
    PenstockError,
    PermissionDeniedError,
    TableNotFoundError,
    UnavailableError,
    UnknownOrExpiredScannerError,
)
from penstock.model.node.ports import FLIGHT_PORT

# The first that fits; the errors' own messages say the rest.
_HINTS: Final[tuple[tuple[type[PenstockError], str], ...]] = (
    (DatabaseNotFoundError, "`penstock database list` shows the databases that are there"),
    (TableNotFoundError, "`penstock table list` shows the tables that are there"),
    (PartitionNotFoundError, "`penstock partition list TABLE` shows the partitions that are there"),
    (LeaseNotFoundError, "`penstock lease list` shows the leases that are there"),
    (UnknownOrExpiredScannerError, "`penstock scanner list` shows the sessions that are open"),
    (InternalError, "run it again as `penstock --debug ...` and report what it prints"),
)
_MAKES_TOKENS: Final = "`penstock token create NAME --token-file FILE` beside the server makes one"


def find_hint(error: PenstockError) -> str | None:
    """Return what may help, None if the message says it all."""
    if isinstance(error, DirectoryInUseError):
        return _holder(str(error.facts.get("command", "")))
    if isinstance(error, PermissionDeniedError):
        return _MAKES_TOKENS if error.reached and "token" in error.message else None
    if isinstance(error, UnavailableError):
        # A server that is not reached was told about already; what it answers itself may be of its machine.
        return "`penstock doctor` on its machine looks for what is wrong" if "url" not in error.facts else None
    hint = next((hint for kind, hint in _HINTS if isinstance(error, kind)), None)
    return None if hint is not None and hint.split("`")[1].split(" TABLE")[0] in error.message else hint


def _holder(command: str) -> str:
    words = _words(command)
    if "serve" not in words and "penstock.server" not in words:
        return f"end that process, or serve the directory and say --url penstock://127.0.0.1:{FLIGHT_PORT}"
    host, port = _option(words, "--host") or "127.0.0.1", _option(words, "--port") or str(FLIGHT_PORT)
    if port == "0":
        return "that is a server; connect to the url that it said when it was ready, with --url"
    scheme = "penstock+tls" if _option(words, "--tls-cert") else "penstock"
    return f"that is a server; connect to it: --url {scheme}://{'127.0.0.1' if host == '0.0.0.0' else host}:{port}"


def _words(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError:
        return command.split()


def _option(words: list[str], name: str) -> str | None:
    for word, after in zip(words, [*words[1:], ""], strict=True):
        if word == name:
            return after
        if word.startswith(f"{name}="):
            return word.partition("=")[2]
    return None
