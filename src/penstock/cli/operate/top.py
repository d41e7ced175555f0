"""`penstock top`: tables as they work."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Annotated, Final

import pyarrow as pa
import typer

from penstock.cli.commands.access import open_connection
from penstock.cli.operate.top_sample import Sample, take_sample
from penstock.cli.terminal.keys import Keys
from penstock.cli.terminal.options import Output, Url
from penstock.cli.terminal.output import write_records
from penstock.cli.terminal.words import examples
from penstock.errors import InvalidError

if TYPE_CHECKING:
    from penstock.client.connection import Connection

FIGURES: Final = pa.schema(
    [
        ("table", pa.string()),
        ("rows", pa.int64()),
        ("bytes", pa.int64()),
        ("buckets", pa.int32()),
        ("changes", pa.int64()),
        ("changes_per_s", pa.float64()),
        ("scanners", pa.int32()),
        ("pins", pa.int32()),
        ("leases", pa.int32()),
        ("rows_pending", pa.int64()),
    ]
)

app = typer.Typer(rich_markup_mode="rich", add_completion=False)


@app.command(epilog=examples("penstock top", "penstock top --interval 5", "penstock top --once --output json"))
def top(
    context: typer.Context,
    *,
    once: Annotated[bool, typer.Option("--once", help="Show it once, as rows, and end.")] = False,
    interval: Annotated[float, typer.Option(min=0.1, help="Seconds between two looks.")] = 1.0,
    output: Output = None,
    url: Url = None,
) -> None:
    """Watch tables: rows, rates, scanners, leases, owners.

    It shows what fits the terminal, more on a wide one. q or Ctrl-C ends it.
    """
    with open_connection(context, url) as connection:
        if once:
            write_records(output, FIGURES, take_sample(connection).rates_since(None))
            return
        if not sys.stdout.isatty():
            raise InvalidError("top needs a terminal; say --once for rows")
        try:
            _watch(connection, interval)
        except KeyboardInterrupt:
            return


def _watch(connection: Connection, interval: float) -> None:
    # Here, not above: `top --once` in a pipe needs no screen.
    from rich.live import Live  # noqa: PLC0415

    from penstock.cli.operate.top_screen import draw  # noqa: PLC0415

    earlier: Sample | None = None
    with Keys() as keys, Live(screen=True, auto_refresh=False) as live:
        while True:
            sample = take_sample(connection)
            live.update(draw(sample, earlier, live.console.width), refresh=True)
            earlier = sample
            end = time.monotonic() + interval
            while (left := end - time.monotonic()) > 0:
                if (keys.wait(left) or "").lower() == "q":
                    return
