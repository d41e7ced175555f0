"""`penstock`: the root command."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from penstock.cli.commands.access import Access
from penstock.cli.terminal.command_group import CommandGroup
from penstock.cli.terminal.options import Url
from penstock.cli.terminal.pipes import closed_output_is_no_failure
from penstock.cli.terminal.words import examples
from penstock.runtime.packages import CLIENT

_SECURITY = "Secured servers"

app = typer.Typer(
    cls=CommandGroup,
    rich_markup_mode="rich",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["--help", "-h"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        # Here, not above: it costs more than all the rest of the help.
        from importlib.metadata import version  # noqa: PLC0415

        sys.stdout.write(f"penstock {version(CLIENT)}\n")
        raise typer.Exit


@app.callback(
    epilog=examples(
        "penstock serve --data ./data",
        "export PENSTOCK_URL=penstock://127.0.0.1:9123",
        'penstock table create shop.orders "id BIGINT, city STRING, amount DOUBLE, PRIMARY KEY (id)"',
        "penstock put shop.orders orders.csv",
        'penstock sql "SELECT city, sum(amount) FROM shop.orders GROUP BY city"',
    )
)
def penstock(
    context: typer.Context,
    *,
    url: Url = None,
    debug: Annotated[
        bool, typer.Option("--debug", envvar="PENSTOCK_DEBUG", help="Show where an error came from.")
    ] = False,
    token_file: Annotated[
        Path | None,
        typer.Option(
            help="A file with your token; or set PENSTOCK_TOKEN to the token itself.", rich_help_panel=_SECURITY
        ),
    ] = None,
    tls_ca: Annotated[
        Path | None,
        typer.Option(envvar="PENSTOCK_TLS_CA", help="Who signed the server, PEM.", rich_help_panel=_SECURITY),
    ] = None,
    tls_cert: Annotated[
        Path | None,
        typer.Option(envvar="PENSTOCK_TLS_CERT", help="Your certificate, PEM.", rich_help_panel=_SECURITY),
    ] = None,
    tls_key: Annotated[
        Path | None, typer.Option(envvar="PENSTOCK_TLS_KEY", help="Its key, PEM.", rich_help_panel=_SECURITY)
    ] = None,
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Streaming storage with real-time primary-key tables.

    Every command takes a server or a directory: [bold]--url[/bold] penstock://127.0.0.1:9123, [bold]--url[/bold]
    ./data, or PENSTOCK_URL. Rows go to stdout, words and progress to stderr. Exit codes: 0 ok, 1 failed, 2 usage,
    3 not found, 4 denied, 5 unavailable.
    """
    context.obj = Access.of(url, token_file, ca=tls_ca, cert=tls_cert, key=tls_key)


def main() -> None:
    """Run the command line of this process."""
    with closed_output_is_no_failure():
        app(prog_name="penstock")
