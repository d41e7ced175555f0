"""Run jobs one after the other, and keep going when one fails: it is told at the end, and the run fails."""

from __future__ import annotations

import importlib
import os
import platform
import sys
import time
import traceback
from collections.abc import Callable
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import psutil

from bench.measurement import SECONDS_MAX, Figure, Measurement, Point
from bench.peers.roster import Roster
from bench.report import Report
from bench.workload import Workload

ORDER = (
    "bulk_insert",
    "random_upsert",
    "partial_update",
    "aggregate",
    "scan",
    "scan_while_writing",
    "history_scan",
    "bootstrap",
    "point_reads",
    "restart",
    "disk",
    "resident",
    "table_formats",
    "scaling",
)
LONG = ("readers",)
"""Jobs that take long whatever the number of rows."""


def jobs() -> list[str]:
    """Return the names of all jobs: those with peers in the order of the table, then the others."""
    found = {path.stem.removeprefix("job_") for path in Path(__file__).parent.glob("job_*.py")}
    return [*ORDER, *sorted(found - set(ORDER))]


def run(
    work: Workload, chosen: list[str], roster: Roster, keep: Callable[[Report], None]
) -> tuple[Report, dict[str, str]]:
    """Run these jobs, keeping the report after each; return what they found, and which failed and why."""
    report = Report(facts(work), roster.settings, dict(roster.absent), [], [], [])
    failed: dict[str, str] = {}
    for job in chosen:
        print(f"{job} ...", file=sys.stderr, flush=True)
        start = time.perf_counter()
        try:
            found: list[object] = importlib.import_module(f"bench.job_{job}").run(work)
        except ModuleNotFoundError as error:
            report.absent[f"job {job}"] = str(error)
            continue
        except Exception as error:  # noqa: BLE001
            _end_if_ending(error)
            # Hours of other figures must not be lost with one job; it is told at the end.
            traceback.print_exc()
            failed[job] = f"{type(error).__name__}: {error}"
            continue
        report.figures.extend(item for item in found if isinstance(item, Figure))
        report.measurements.extend(item for item in found if isinstance(item, Measurement))
        report.points.extend(item for item in found if isinstance(item, Point))
        keep(report)
        print(f"{job}: {time.perf_counter() - start:.0f} s", file=sys.stderr, flush=True)
    return report, failed


def _end_if_ending(error: BaseException) -> None:
    """End the run if it was ending when this was raised: a peer that fails while it is stopped is no failed job."""
    context = error.__context__
    while context is not None:
        if isinstance(context, SystemExit):
            raise context
        context = context.__context__


def facts(work: Workload) -> dict[str, str]:
    """Return where, when and with what this was measured."""
    memory = psutil.virtual_memory().total / 2**30
    packages = ("penstock-db-client", "pyarrow", "numpy", "rocksdict")
    return {
        "date": f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        "machine": f"{_processor()}, {os.cpu_count()} cores, {memory:.0f} GB, {platform.system()}",
        "versions": ", ".join(
            [f"Python {platform.python_version()}", *(f"{name} {version(name)}" for name in packages)]
        ),
        "rows": f"{work.rows:,} rows in batches of {work.batch_rows:,}, seed {work.seed}",
        "repeats": f"{work.repeats}, or fewer when over {SECONDS_MAX:.0f} s; ± is the slowest from the median",
        "load when it began": f"{os.getloadavg()[0]:.1f}",
    }


def _processor() -> str:
    described = Path("/proc/cpuinfo")
    names = (
        [line.partition(":")[2].strip() for line in described.read_text().splitlines() if "model name" in line]
        if described.exists()
        else []
    )
    return names[0] if names else platform.machine()
