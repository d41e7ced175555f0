"""`penstock`: the root command."""

from __future__ import annotations

import os
import sys
from typing import Annotated, Final

import typer

from penstock.cli.commands.access import Access
from penstock.cli.root.command_group import CommandGroup
from penstock.cli.root.shared_options import DEBUG, Debug, TlsCa, TlsCert, TlsKey, Token, TokenFile
from penstock.cli.terminal.options import Output, Url
from penstock.cli.terminal.pipes import closed_output_is_no_failure
from penstock.cli.terminal.words import examples
from penstock.runtime.packages import CLIENT

DEBUG_VARIABLE: Final = "PENSTOCK_DEBUG"

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
    output: Output = None,
    token: Token = None,
    token_file: TokenFile = None,
    tls_ca: TlsCa = None,
    tls_cert: TlsCert = None,
    tls_key: TlsKey = None,
    debug: Debug = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Streaming storage with real-time primary-key tables.

    Every command takes a server or a directory: [bold]--url[/bold] penstock://127.0.0.1:9123, [bold]--url[/bold]
    ./data, or PENSTOCK_URL. These options stand before the command or after it. Rows go to stdout, words and
    progress to stderr. Exit codes: 0 ok, 1 failed, 2 usage, 3 not found, 4 denied, 5 unavailable, 130 interrupted.
    """
    context.meta[DEBUG] = debug or bool(os.environ.get(DEBUG_VARIABLE))
    context.obj = Access.of(url, token, token_file, ca=tls_ca, cert=tls_cert, key=tls_key)


def main() -> None:
    """Run the command line of this process."""
    with closed_output_is_no_failure():
        app(prog_name="penstock")
