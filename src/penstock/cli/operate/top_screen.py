"""The screen of `penstock top`: tables by how much they change, who reads, who writes, what is held."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from rich.console import Group, RenderableType
from rich.table import Table as Grid

from penstock.cli.terminal.words import count, count_bytes
from penstock.model.place.bucket import bucket_key
from penstock.model.words.quantity import format_duration_ms

if TYPE_CHECKING:
    from penstock.cli.operate.top_sample import Sample
    from penstock.model.node.owner import OwnerInfo

ROWS_MAX: Final = 15
"""Of scanners, owners and leases each; their commands list all of them."""
_TABLES: Final = ("rows", "changes", "changes_per_s", "bytes", "buckets", "scanners", "leases", "pins", "rows_pending")


def draw(sample: Sample, earlier: Sample | None) -> RenderableType:
    """Return the figures of a moment, with rates since an earlier one."""
    parts = (_tables(sample, earlier), _owners(sample), _leases(sample), _scanners(sample))
    return Group(*(part for part in parts if part is not None))


def query_name(owner: OwnerInfo) -> str:
    """Return what people call an owner: the name of its Spark query where it has one, else its id."""
    name, at, _ = owner.holder.rpartition(" at ")
    return name if at else owner.owner


def _tables(sample: Sample, earlier: Sample | None) -> Grid:
    title = (
        f"{count(len(sample.tables), 'table')}, {count(len(sample.scanners), 'scanner')}   {time.strftime('%H:%M:%S')}"
    )
    grid = _grid(title, ("table",), tuple(name.replace("_per_s", "/s").replace("_", " ") for name in _TABLES))
    for row in sorted(sample.rates_since(earlier), key=lambda row: (-(row["changes_per_s"] or 0), row["table"])):
        grid.add_row(row["table"], *(_figure(row[name], name) for name in _TABLES))
    return grid


def _owners(sample: Sample) -> Grid | None:
    words, figures = ("owner", "holder", "table", "columns"), ("committed", "open", "rows pending", "expires in")
    grid = _grid(_title("owners", sample.owners), words, figures)
    for owner in sample.owners[:ROWS_MAX]:
        left = _seconds(owner.expires_in_ms) if owner.held else "-"
        epochs = (None if owner.committed_epoch < 0 else owner.committed_epoch, owner.open_epoch, owner.rows_pending)
        names = (query_name(owner), owner.holder.rpartition(" at ")[2], owner.table, ", ".join(owner.columns))
        grid.add_row(*names, *map(_figure, epochs), left)
    return grid if sample.owners else None


def _leases(sample: Sample) -> Grid | None:
    grid = _grid(_title("leases", sample.leases), ("lease", "of", "tables"), ("buckets", "bytes", "until"))
    for lease, kept in sample.leases[:ROWS_MAX]:
        held = ", ".join(sorted({bucket.table for bucket in lease.snapshots}))
        figures = (_figure(len(lease.snapshots)), _figure(kept, "bytes"), f"{lease.expires_at:%F %T}")
        grid.add_row(lease.id, lease.owner, held, *figures)
    return grid if sample.leases else None


def _scanners(sample: Sample) -> Grid | None:
    grid = _grid(_title("scanners", sample.scanners), ("scanner", "of", "table", "bucket"), ("rows", "pages", "idle"))
    for found in sample.scanners[:ROWS_MAX]:
        names = (found.scanner_id, found.principal, found.bucket.table, bucket_key(found.bucket))
        grid.add_row(*names, _figure(found.rows), _figure(found.pages), _seconds(found.idle_ms))
    return grid if sample.scanners else None


def _title(noun: str, found: tuple[Any, ...]) -> str:
    return noun if len(found) <= ROWS_MAX else f"{noun}, {ROWS_MAX} of {len(found)}"


def _grid(title: str, words: tuple[str, ...], figures: tuple[str, ...]) -> Grid:
    grid = Grid(title=title, title_justify="left", expand=True)
    for heading in words:
        grid.add_column(heading, overflow="fold")
    for heading in figures:
        grid.add_column(heading, justify="right")
    return grid


def _figure(value: Any, name: str = "") -> str:
    if value is None:
        return "-"
    return count_bytes(value) if name == "bytes" else f"{value:,.0f}"


def _seconds(duration_ms: int) -> str:
    return format_duration_ms(duration_ms // 1000 * 1000) if duration_ms >= 1000 else "0s"
