"""`penstock lease`: what readers keep readable."""

from __future__ import annotations

from typing import Annotated, Any, Final

import pyarrow as pa
import typer

from penstock.cli.commands.access import open_connection
from penstock.cli.commands.snapshot import SNAPSHOTS, snapshot_records
from penstock.cli.terminal.exit_codes import ExitCode
from penstock.cli.terminal.options import Output, ResultOutput, Url
from penstock.cli.terminal.output import write_records, write_result
from penstock.cli.terminal.words import count, examples, say
from penstock.client.leases.lease import Lease
from penstock.errors import LeaseNotFoundError
from penstock.model.place.bucket import bucket_key

LEASES: Final = pa.schema(
    [
        ("lease_id", pa.string()),
        ("owner", pa.string()),
        ("expires", pa.timestamp("ms", "UTC")),
        ("tables", pa.string()),
        ("buckets", pa.int64()),
        ("bytes", pa.int64()),
    ]
)

LeaseId = Annotated[str, typer.Argument(metavar="ID", help="As `penstock lease list` shows it.")]
Duration = Annotated[str, typer.Option("--duration", "-d", help="How long it lasts, from now on: 30min, 2h, 1d.")]

app = typer.Typer(rich_markup_mode="rich", add_completion=False, no_args_is_help=True)


@app.callback()
def lease() -> None:
    """Take, renew, give back and list leases."""


@app.command("list", epilog=examples("penstock lease list", "penstock lease list --output json"))
def list_leases(context: typer.Context, *, output: Output = None, url: Url = None) -> None:
    """List all leases: whose they are, how long they last, what they cost."""
    with open_connection(context, url) as connection:
        write_records(output, LEASES, [_record(found) for found in connection.list_leases()])


@app.command(epilog=examples("penstock lease show job-7"))
def show(context: typer.Context, lease_id: LeaseId, *, output: Output = None, url: Url = None) -> None:
    """Show what a lease holds."""
    with open_connection(context, url) as connection:
        found = connection.lease(lease_id)
        say(f"lease {found.id} of {found.owner}, until {found.expires_at:%F %T} UTC, keeps {found.bytes} bytes")
        write_records(output, SNAPSHOTS, snapshot_records(found.snapshots.values()))


@app.command(
    epilog=examples(
        "penstock lease acquire job-7 shop.orders shop.items --duration 2h", "penstock lease acquire job-8 orders --cut"
    )
)
def acquire(
    context: typer.Context,
    lease_id: LeaseId,
    tables: Annotated[list[str], typer.Argument(metavar="TABLE...", help="The tables to keep readable.")],
    *,
    cut: Annotated[bool, typer.Option("--cut", help="Lease the present cut rather than the newest snapshots.")] = False,
    duration: Duration = "1h",
    output: Output = None,
    url: Url = None,
) -> None:
    """Lease the newest snapshots of tables, which are taken if there are none. Fails if a bucket cannot be had."""
    with open_connection(context, url) as connection:
        handles = [connection.table(name) for name in tables]
        what = [handle.cut() if cut or not handle.info.keyed else handle.latest_snapshots for handle in handles]
        found = connection.acquire_lease(lease_id, what, duration)
        say(f"leased until {found.expires_at:%F %T} UTC")
        write_records(output, SNAPSHOTS, snapshot_records(found.snapshots.values()))
        for bucket, reason in found.unavailable.items():
            say(f"not leased: {bucket.table} {bucket_key(bucket)}: {reason}")
        if found.unavailable:
            raise typer.Exit(ExitCode.FAILED)


@app.command(epilog=examples("penstock lease renew job-7 --duration 2h"))
def renew(
    context: typer.Context,
    lease_id: LeaseId,
    *,
    duration: Duration = "1h",
    output: ResultOutput = None,
    url: Url = None,
) -> None:
    """Have a lease last that long from now on."""
    with open_connection(context, url) as connection:
        found = connection.lease(lease_id)
        found.renew(duration)
        say(f"renewed until {found.expires_at:%F %T} UTC")
        write_result(output, {"lease_id": lease_id, "expires": found.expires_at})


@app.command(epilog=examples("penstock lease release job-7 shop.orders"))
def release(
    context: typer.Context,
    lease_id: LeaseId,
    tables: Annotated[list[str], typer.Argument(metavar="TABLE...", help="The tables to give back.")],
    *,
    output: ResultOutput = None,
    url: Url = None,
) -> None:
    """Give some tables of a lease back; the rest stays held."""
    with open_connection(context, url) as connection:
        found = connection.lease(lease_id)
        known = {bucket.table.removeprefix("default."): bucket.table for bucket in found.snapshots}
        paths = {known.get(name, name) for name in tables}
        buckets = [bucket for bucket in found.snapshots if bucket.table in paths]
        found.release(buckets)
        say(f"gave back {count(len(buckets), 'bucket')}, {len(found.snapshots)} stay held")
        write_result(output, {"lease_id": lease_id, "buckets_released": len(buckets), "buckets": len(found.snapshots)})


@app.command(epilog=examples("penstock lease drop job-7"))
def drop(
    context: typer.Context,
    lease_ids: Annotated[list[str], typer.Argument(metavar="ID...", help="As `penstock lease list` shows them.")],
    *,
    output: ResultOutput = None,
    url: Url = None,
) -> None:
    """Give leases back, with everything that they hold."""
    with open_connection(context, url) as connection:
        for lease_id in lease_ids:
            connection.lease(lease_id).drop()
            say(f"dropped {lease_id}")
        write_result(output, *({"lease_id": lease_id} for lease_id in lease_ids))


def kept_bytes(found: Lease) -> int | None:
    """Return what a lease keeps, None if it has ended since it was listed."""
    try:
        return found.bytes
    except LeaseNotFoundError:
        return None


def _record(found: Lease) -> dict[str, Any]:
    return {
        "lease_id": found.id,
        "owner": found.owner,
        "expires": found.expires_at,
        "tables": ", ".join(sorted({bucket.table for bucket in found.snapshots})),
        "buckets": len(found.snapshots),
        "bytes": kept_bytes(found),
    }
