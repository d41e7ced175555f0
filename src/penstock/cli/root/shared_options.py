"""Options that every command takes, before its name and after it: where to connect, and as whom.

After the name they stand in the command's help under a heading of their own; what is said there counts more
than what is said before the name, and both more than the environment.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from typer.main import get_command

from penstock.cli.commands.access import Access

DEBUG: Final = "penstock-debug"
CONNECTION: Final = "Connection"
_TLS: Final = {"tls_ca": "ca", "tls_cert": "cert", "tls_key": "key"}
# Of two ways to give a token, the one that is said last counts.
_TOKENS: Final = {"token": ("token_given", "token_file"), "token_file": ("token_file", "token_given")}

Token = Annotated[
    str | None,
    typer.Option(
        metavar="TOKEN",
        help="Your token. Others on this machine can see it here: rather set PENSTOCK_TOKEN, or say --token-file.",
        rich_help_panel=CONNECTION,
        show_default=False,
    ),
]
TokenFile = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="A file with your token.", rich_help_panel=CONNECTION, show_default=False),
]
TlsCa = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Certificates to trust for the server, PEM; or set PENSTOCK_TLS_CA.",
        rich_help_panel=CONNECTION,
        show_default=False,
    ),
]
TlsCert = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Your certificate, PEM; or set PENSTOCK_TLS_CERT.",
        rich_help_panel=CONNECTION,
        show_default=False,
    ),
]
TlsKey = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="Its key, PEM; or set PENSTOCK_TLS_KEY.", rich_help_panel=CONNECTION, show_default=False
    ),
]
Debug = Annotated[bool, typer.Option("--debug", help="Show where an error came from; or set PENSTOCK_DEBUG.")]


def _declared(
    *,
    token: Token = None,
    token_file: TokenFile = None,
    tls_ca: TlsCa = None,
    tls_cert: TlsCert = None,
    tls_key: TlsKey = None,
    debug: Debug = False,
) -> None:
    """Declare the options; nothing runs this."""


def add_shared_options(command: Any) -> None:
    """Let a command take the shared options; one that connects to nothing takes `--debug` only."""
    own_url: Any = next((found for found in command.params if found.name == "url"), None)
    connects = own_url is not None and not own_url.hidden
    if connects:
        own_url.rich_help_panel = CONNECTION
    for option in _options():
        if option.name == "debug" or connects:
            command.params.append(option)


def output_everywhere(command: Any, output: str) -> dict[str, Any]:
    """Return defaults with which a command, and those below it, write their rows in this format."""
    inner: dict[str, Any] = getattr(command, "commands", None) or {}
    return {"output": output} | {name: output_everywhere(below, output) for name, below in inner.items()}


def _options() -> list[Any]:
    carrier = typer.Typer(add_completion=False)
    carrier.command()(_declared)
    options: list[Any] = get_command(carrier).params
    for option in options:
        # The command's function does not take it: it changes what the command connects to.
        option.expose_value = False
        option.callback = _keep
    return options


def _keep(context: Any, option: Any, value: Any) -> Any:
    if value is None or value is False:
        return value
    access = context.find_object(Access) or Access()
    if option.name == "debug":
        context.meta[DEBUG] = True
    elif option.name in _TLS:
        context.obj = replace(access, tls=access.tls | {_TLS[option.name]: value})
    else:
        name, other = _TOKENS[option.name]
        context.obj = replace(access, **{name: value, other: None})
    return value
