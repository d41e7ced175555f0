"""`penstock token`: the tokens that a server's token file knows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import pyarrow as pa
import typer

from penstock.cli.terminal.confirmation import confirm
from penstock.cli.terminal.options import Output, ResultOutput, Yes
from penstock.cli.terminal.output import write_records, write_result
from penstock.cli.terminal.words import count, examples, say
from penstock.errors import NotFoundError
from penstock.server.access.token_lines import TokenLines

TOKENS: Final = pa.schema([("name", pa.string())])

Name = Annotated[str, typer.Argument(metavar="NAME", help="The caller's name: letters, digits, and _ . @ -.")]
TokenFile = Annotated[
    Path, typer.Option("--token-file", metavar="FILE", help="The server's token file, as `penstock serve` has it.")
]

app = typer.Typer(rich_markup_mode="rich", add_completion=False, no_args_is_help=True)


@app.callback()
def token() -> None:
    """Make, list and revoke the tokens of a server."""


@app.command(
    epilog=examples(
        "penstock token create etl --token-file tokens",
        "PENSTOCK_TOKEN=$(penstock token create etl --token-file tokens)",
        "penstock serve --data ./data --host 0.0.0.0 --token-file tokens --tls-cert server.pem --tls-key server.key",
    )
)
def create(name: Name, *, token_file: TokenFile, output: ResultOutput = None) -> None:
    """Make a token, add its hash to the file, and write the token to stdout, this once.

    The file is made if it is not there, for its owner alone to read and write. A server that runs takes the new
    token within a second.
    """
    made = TokenLines(token_file).add(name)
    say(f"{name} is in {token_file}; the token is shown only now:")
    if output is None:
        typer.echo(made)
    write_result(output, {"name": name, "token": made})


@app.command("list", epilog=examples("penstock token list --token-file tokens"))
def list_tokens(*, token_file: TokenFile, output: Output = None) -> None:
    """List the names of the tokens in a file; the tokens themselves are nowhere."""
    if not token_file.is_file():
        raise NotFoundError("no such token file; `penstock token create` makes one", path=str(token_file))
    write_records(output, TOKENS, [{"name": name} for name in TokenLines(token_file).names()])


@app.command(epilog=examples("penstock token revoke etl --token-file tokens"))
def revoke(
    names: Annotated[list[str], typer.Argument(metavar="NAME...", help="As `penstock token list` shows them.")],
    *,
    token_file: TokenFile,
    yes: Yes = False,
    output: ResultOutput = None,
) -> None:
    """Take tokens out of the file: a server that runs refuses them within a second, on open connections too."""
    confirm(f"Revoke {count(len(names), 'token')}: {', '.join(names)}?", "revoked", yes=yes)
    TokenLines(token_file).remove(names)
    say(f"revoked {', '.join(names)}")
    write_result(output, *({"name": name} for name in names))
