"""`penstock top`: tables as they work."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final

import pyarrow as pa
import typer

from penstock.cli.commands.access import open_connection
from penstock.cli.commands.lease import kept_bytes
from penstock.cli.terminal.options import Output, Url
from penstock.cli.terminal.output import write_records
from penstock.cli.terminal.words import examples
from penstock.errors import TableNotFoundError

if TYPE_CHECKING:
    from penstock.client.connection import Connection
    from penstock.client.leases.lease import Lease
    from penstock.model.node.calls import ScannerInfo
    from penstock.model.node.owner import OwnerInfo

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


@dataclass(frozen=True, slots=True)
class Sample:
    """The figures of every table at one moment."""

    seconds: float
    tables: dict[str, dict[str, Any]]
    scanners: tuple[ScannerInfo, ...] = ()
    leases: tuple[tuple[Lease, int | None], ...] = ()
    owners: tuple[OwnerInfo, ...] = ()

    def rates_since(self, earlier: Sample | None) -> list[dict[str, Any]]:
        """Return the figures with the changes a second since an earlier sample; none before there was one."""
        records = []
        for path, figures in self.tables.items():
            before = None if earlier is None else earlier.tables.get(path)
            rate = None
            if earlier is not None and before is not None:
                rate = (figures["changes"] - before["changes"]) / max(self.seconds - earlier.seconds, 0.001)
            records.append(figures | {"table": path, "changes_per_s": rate})
        return records


@app.command(epilog=examples("penstock top", "penstock top --interval 5", "penstock top --once --output json"))
def top(
    context: typer.Context,
    *,
    once: Annotated[bool, typer.Option("--once", help="Show it once, as rows, and end.")] = False,
    interval: Annotated[float, typer.Option(min=0.1, help="Seconds between two looks.")] = 1.0,
    output: Output = None,
    url: Url = None,
) -> None:
    """Watch tables: rows, rates, scanners, leases, owners. Ctrl-C ends it."""
    with open_connection(context, url) as connection:
        if once:
            write_records(output, FIGURES, take_sample(connection).rates_since(None))
            return
        try:
            _watch(connection, interval)
        except KeyboardInterrupt:
            return


def take_sample(connection: Connection) -> Sample:
    """Look at every table once."""
    sessions = connection.list_scanners()
    leases, owners = connection.list_leases(), connection.list_owners()
    tables: dict[str, dict[str, Any]] = {}
    for database in connection.list_databases():
        for name in connection.list_tables(database):
            path = f"{database}.{name}"
            try:
                stats = connection.table(path).stats()
            except TableNotFoundError:
                # Dropped since it was listed.
                continue
            tables[path] = {
                "rows": stats.live_rows,
                "bytes": stats.bytes,
                "buckets": len(stats.buckets),
                "changes": sum(found.visible - found.bucket.first_offset(found.visible) for found in stats.buckets),
                "scanners": sum(session.bucket.table == path for session in sessions),
                "pins": sum(len(bucket.pins) for bucket in stats.buckets),
                "leases": sum(any(held.table == path for held in lease.snapshots) for lease in leases),
                "rows_pending": sum(owner.rows_pending for owner in owners if owner.table == path),
            }
    kept = tuple((lease, kept_bytes(lease)) for lease in leases)
    return Sample(time.monotonic(), tables, tuple(sessions), kept, tuple(owners))


def _watch(connection: Connection, interval: float) -> None:
    # Here, not above: `top --once` in a pipe needs no screen.
    from rich.live import Live  # noqa: PLC0415

    from penstock.cli.operate.top_screen import draw  # noqa: PLC0415

    earlier: Sample | None = None
    with Live(screen=True, auto_refresh=False) as live:
        while True:
            sample = take_sample(connection)
            live.update(draw(sample, earlier), refresh=True)
            earlier = sample
            time.sleep(interval)
