"""Run the jobs and print one table: `python -m bench --rows 1000000 --only scan`."""

from __future__ import annotations

import argparse
import signal
import sys
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from tempfile import gettempdir

from bench import pages
from bench.peers.roster import call_roll, modules
from bench.report import Report, merged, read
from bench.runner import LONG, jobs, run
from bench.workload import Workload

RESULTS = Path(__file__).parent / "results"
QUICK_ROWS = 100_000


def main() -> int:
    """Parse the command line, run, print; return 1 if a job failed."""
    asked = _parser().parse_args()
    if asked.read is not None:
        return _show(merged([read(path.read_text()) for path in asked.read]), write_docs=asked.write_docs)
    # Ended from outside, the peers must still be stopped: as an exit, their contexts see it.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    count = asked.rows or (QUICK_ROWS if asked.quick else 1_000_000)
    work = Workload(count, asked.batch_rows, asked.seed, asked.root, asked.repeats, growth=asked.growth)
    chosen = [job for job in asked.only or jobs() if asked.only or job not in (LONG if asked.quick else ())]
    chosen = [job for job in chosen if job not in (asked.without or ())]
    roster = call_roll(work, asked.peer)
    for name, why in roster.absent.items():
        print(f"{name} does not take part: {why}", file=sys.stderr)
    asked.results.mkdir(parents=True, exist_ok=True)
    target = asked.results / f"{datetime.now(UTC):%Y%m%dT%H%M%S}.json"
    keep = partial(_keep, target)
    report, failed = run(replace(work, peers=tuple(roster.present)), chosen, roster, keep)
    _show(report, write_docs=asked.write_docs and not failed)
    print(f"written to {target}", file=sys.stderr)
    for job, why in failed.items():
        print(f"FAILED: {job}: {why}", file=sys.stderr)
    return 1 if failed else 0


def _keep(target: Path, report: Report) -> None:
    """Write the figures so far: a run that is ended keeps what it has."""
    target.write_text(report.document())


def _show(report: Report, *, write_docs: bool) -> int:
    print(report.markdown())
    if write_docs:
        for path in pages.write(report, Path(__file__).parents[1]):
            print(f"written: {path}", file=sys.stderr)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument("--rows", type=int, help="rows of a job (default 1,000,000)")
    parser.add_argument(
        "--quick", action="store_true", help=f"{QUICK_ROWS:,} rows, and without {', '.join(LONG)}: some minutes"
    )
    parser.add_argument("--batch-rows", type=int, default=20_000, help="rows of a batch (default 20,000)")
    parser.add_argument("--repeats", type=int, default=3, help="how often each work is measured (default 3)")
    parser.add_argument("--growth", type=int, default=4, choices=(1, 4, 16), help="scaling: times its first size")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", action="append", choices=jobs(), help="run this job only; may be repeated")
    parser.add_argument("--without", action="append", choices=jobs(), help="leave this job out; may be repeated")
    parser.add_argument("--peer", action="append", choices=modules(), help="with this peer only; may be repeated")
    parser.add_argument("--root", type=Path, default=Path(gettempdir()), help="where the data goes")
    parser.add_argument("--results", type=Path, default=RESULTS, help="where the JSON goes")
    parser.add_argument("--write-docs", action="store_true", help="write the figures into README and docs")
    parser.add_argument("--read", type=Path, nargs="+", help="run nothing: show, or write, the figures of these JSONs")
    return parser


if __name__ == "__main__":
    sys.exit(main())
