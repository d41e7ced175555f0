"""The screen of `penstock top`: tables by how much they change, who reads, who writes, what is held."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table as Grid
from rich.text import Text

from penstock.cli.terminal.words import count, count_bytes
from penstock.model.place.bucket import bucket_key
from penstock.model.words.quantity import format_duration_ms

if TYPE_CHECKING:
    from penstock.cli.operate.top_sample import Sample
    from penstock.model.node.owner import OwnerInfo

ROWS_MAX: Final = 15
"""Of scanners, owners and leases each; their commands list all of them."""
# What is shown from which width of the terminal on; the names come first, and give way last.
_TABLES: Final = {
    "rows": 0,
    "changes": 120,
    "changes_per_s": 0,
    "bytes": 0,
    "buckets": 120,
    "scanners": 76,
    "leases": 76,
    "pins": 120,
    "rows_pending": 100,
}
_OWNERS: Final = {"committed": 100, "open": 76, "rows pending": 0, "expires in": 0}
_LEASES: Final = {"buckets": 76, "bytes": 0, "until": 0}
_SCANNERS: Final = {"rows": 0, "pages": 90, "idle": 0}
_WIDE: Final = 100


def draw(sample: Sample, earlier: Sample | None, width: int = 200) -> RenderableType:
    """Return the figures of a moment, with rates since an earlier one, in a width of the terminal."""
    parts = (
        _tables(sample, earlier, width),
        _owners(sample, width),
        _leases(sample, width),
        _scanners(sample, width),
        Text("q ends", style="dim"),
    )
    return Group(*(part for part in parts if part is not None))


def query_name(owner: OwnerInfo) -> str:
    """Return what people call an owner: the name of its Spark query where it has one, else its id."""
    name, at, _ = owner.holder.rpartition(" at ")
    return name if at else owner.owner


def _tables(sample: Sample, earlier: Sample | None, width: int) -> Grid:
    title = (
        f"{count(len(sample.tables), 'table')}, {count(len(sample.scanners), 'scanner')}   {time.strftime('%H:%M:%S')}"
    )
    names = _fitting(_TABLES, width)
    grid = _grid(title, ("table",), tuple(name.replace("_per_s", "/s").replace("_", " ") for name in names))
    for row in sorted(sample.rates_since(earlier), key=lambda row: (-(row["changes_per_s"] or 0), row["table"])):
        grid.add_row(row["table"], *(_figure(row[name], name) for name in names))
    return grid


def _owners(sample: Sample, width: int) -> Grid | None:
    names = _fitting(_OWNERS, width)
    words = ("owner", "holder", "table", "columns") if width >= _WIDE else ("owner", "table")
    grid = _grid(_title("owners", sample.owners), words, names)
    for owner in sample.owners[:ROWS_MAX]:
        said = {"owner": query_name(owner), "holder": owner.holder.rpartition(" at ")[2], "table": owner.table}
        said["columns"] = ", ".join(owner.columns)
        figures = {
            "committed": _figure(None if owner.committed_epoch < 0 else owner.committed_epoch),
            "open": _figure(owner.open_epoch),
            "rows pending": _figure(owner.rows_pending),
            "expires in": _seconds(owner.expires_in_ms) if owner.held else "-",
        }
        grid.add_row(*(said[word] for word in words), *(figures[name] for name in names))
    return grid if sample.owners else None


def _leases(sample: Sample, width: int) -> Grid | None:
    names = _fitting(_LEASES, width)
    words = ("lease", "of", "tables") if width >= _WIDE else ("lease", "tables")
    grid = _grid(_title("leases", sample.leases), words, names)
    for lease, kept in sample.leases[:ROWS_MAX]:
        said = {"lease": lease.id, "of": lease.owner}
        said["tables"] = ", ".join(sorted({bucket.table for bucket in lease.snapshots}))
        figures = {
            "buckets": _figure(len(lease.snapshots)),
            "bytes": _figure(kept, "bytes"),
            "until": f"{lease.expires_at:%F %T}" if width >= _WIDE else f"{lease.expires_at:%d. %H:%M}",
        }
        grid.add_row(*(said[word] for word in words), *(figures[name] for name in names))
    return grid if sample.leases else None


def _scanners(sample: Sample, width: int) -> Grid | None:
    names = _fitting(_SCANNERS, width)
    words = ("scanner", "of", "table", "bucket") if width >= _WIDE else ("scanner", "table")
    grid = _grid(_title("scanners", sample.scanners), words, names)
    for found in sample.scanners[:ROWS_MAX]:
        said = {"scanner": found.scanner_id, "of": found.principal, "table": found.bucket.table}
        said["bucket"] = bucket_key(found.bucket)
        figures = {"rows": _figure(found.rows), "pages": _figure(found.pages), "idle": _seconds(found.idle_ms)}
        grid.add_row(*(said[word] for word in words), *(figures[name] for name in names))
    return grid if sample.scanners else None


def _fitting(figures: Mapping[str, int], width: int) -> tuple[str, ...]:
    return tuple(name for name, least in figures.items() if width >= least)


def _title(noun: str, found: tuple[Any, ...]) -> str:
    return noun if len(found) <= ROWS_MAX else f"{noun}, {ROWS_MAX} of {len(found)}"


def _grid(title: str, words: tuple[str, ...], figures: tuple[str, ...]) -> Grid:
    # Figures keep the width that they need; names share what is left.
    grid = Grid(title=title, title_justify="left", expand=True, box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in words:
        grid.add_column(heading, no_wrap=True, overflow="ellipsis", ratio=1)
    for heading in figures:
        grid.add_column(heading, justify="right", no_wrap=True)
    return grid


def _figure(value: Any, name: str = "") -> str:
    if value is None:
        return "-"
    return count_bytes(value) if name == "bytes" else f"{value:,.0f}"


def _seconds(duration_ms: int) -> str:
    return format_duration_ms(duration_ms // 1000 * 1000) if duration_ms >= 1000 else "0s"
