"""Names that a shell completes: tables, databases, partitions, leases, scan sessions.

The shell waits for them, so they come within a moment or not at all, and nothing is ever said: no server, a
wrong token, a directory that another process holds are no names.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final

from penstock.cli.commands.access import Access, open_connection
from penstock.errors import PenstockError

if TYPE_CHECKING:
    from penstock.client.connection import Connection

COMPLETION_SECONDS_MAX: Final = 2.0
SECONDS_VARIABLE: Final = "PENSTOCK_COMPLETION_SECONDS"
"""Where a machine or a network is slow, so long is waited instead."""
Names = Callable[["Connection", Any, str], Iterable[str]]


def complete_names(command: Any) -> None:
    """Have a command's parameters that are names completed from what is there."""
    for parameter in command.params:
        names = _NAMES.get(str(parameter.metavar or parameter.name).removesuffix("..."))
        if names is not None and parameter.param_type_name == "argument":
            parameter._custom_shell_complete = _completion(names)


def _completion(names: Names) -> Callable[[Any, Any, str], list[str]]:
    def complete(context: Any, _parameter: Any, incomplete: str) -> list[str]:
        found: list[str] = []
        look = threading.Thread(target=_look, args=(names, context, incomplete, found), daemon=True)
        look.start()
        look.join(_patience())
        return [name for name in list(found) if name.startswith(incomplete)]

    return complete


def _patience() -> float:
    try:
        return max(0.0, float(os.environ[SECONDS_VARIABLE]))
    except (KeyError, ValueError):
        return COMPLETION_SECONDS_MAX


def _look(names: Names, context: Any, incomplete: str, found: list[str]) -> None:
    logging.disable(logging.CRITICAL)
    said = context.find_root().params
    if context.obj is None:
        tls = {name: said.get(f"tls_{name}") for name in ("ca", "cert", "key")}
        context.obj = Access.of(said.get("url"), said.get("token"), said.get("token_file"), **tls)
    try:
        with open_connection(context, context.params.get("url") or said.get("url")) as connection:
            found.extend(names(connection, context, incomplete))
    except (PenstockError, OSError):
        return


def _tables(connection: Connection, _context: Any, incomplete: str) -> Iterable[str]:
    database, point, _ = incomplete.partition(".")
    databases = [database] if point else connection.list_databases()
    return [f"{found}.{name}" for found in databases for name in connection.list_tables(found)]


def _databases(connection: Connection, _context: Any, _incomplete: str) -> Iterable[str]:
    return connection.list_databases()


def _partitions(connection: Connection, context: Any, _incomplete: str) -> Iterable[str]:
    return connection.table(context.params["table"]).list_partitions()


def _ids(connection: Connection, context: Any, _incomplete: str) -> Iterable[str]:
    if context.parent.info_name == "lease":
        return [found.id for found in connection.list_leases()]
    if context.parent.info_name == "owner":
        return [found.owner for found in connection.list_owners()]
    return [found.scanner_id for found in connection.list_scanners()]


_NAMES: Final[dict[str, Names]] = {
    "TABLE": _tables,
    "DATABASE": _databases,
    "PARTITION": _partitions,
    "ID": _ids,
}
