"""`penstock doctor`: what is wrong on this machine, and what to do."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Final

import typer

from penstock.cli.commands.access import URL_VARIABLE
from penstock.cli.operate.checkup import Finding, Grade, examine
from penstock.cli.terminal.exit_codes import ExitCode
from penstock.cli.terminal.options import Output, OutputFormat, shows_text
from penstock.cli.terminal.words import examples
from penstock.model.node.ports import FLIGHT_PORT, HTTP_PORT

PORTS: Final = (FLIGHT_PORT, HTTP_PORT)
_COLORS: Final = {Grade.OK: typer.colors.GREEN, Grade.WARN: typer.colors.YELLOW, Grade.FAIL: typer.colors.RED}

app = typer.Typer(rich_markup_mode="rich", add_completion=False)


@app.command(epilog=examples("penstock doctor", "penstock doctor --data ./data", "penstock doctor --output json"))
def doctor(
    *,
    data: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="The data directory to look at; by default the one in PENSTOCK_URL, or here."),
    ] = None,
    url: Annotated[str | None, typer.Option("--url", "-u", envvar=URL_VARIABLE, hidden=True)] = None,
    output: Output = None,
) -> None:
    """Look for what is wrong on this machine, and say what to do.

    Looks at Python, packages, Java (for Spark), disk, ports, clock and the data directory. Ends with exit
    code 1 if something will not work; a warning is no failure.
    """
    if data is None and url and "://" not in url:
        data = Path(url)
    found = list(examine(data, ports=PORTS))
    if shows_text(output):
        for finding in found:
            _show(finding)
    else:
        _write(found, output or OutputFormat.NDJSON)
    if any(finding.grade is Grade.FAIL for finding in found):
        raise typer.Exit(ExitCode.FAILED)


def _show(finding: Finding) -> None:
    grade = f"{finding.grade:<4}"
    if not os.environ.get("NO_COLOR"):
        grade = typer.style(grade, fg=_COLORS[finding.grade], bold=True)
    typer.echo(f"{grade}  {finding.check:<14} {finding.found}")
    if finding.advice:
        typer.echo(f"      {'':<14} -> {finding.advice}")


def _write(found: list[Finding], output: OutputFormat) -> None:
    # Here, not above: the page can be shown where Arrow itself is what is missing.
    import pyarrow as pa  # noqa: PLC0415

    from penstock.cli.terminal.output import write_records  # noqa: PLC0415

    schema = pa.schema([(name, pa.string()) for name in ("check", "grade", "found", "do")])
    records = [{"check": f.check, "grade": f.grade.value, "found": f.found, "do": f.advice or None} for f in found]
    write_records(output, schema, records)
