"""Run the jobs and print one table: `python -m bench --rows 1000000 --only scans`."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import platform
import sys
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from tempfile import gettempdir

from bench.measurement import Measurement, markdown
from bench.workload import Workload

RESULTS = Path(__file__).parent / "results"


def main() -> int:
    """Parse the command line, run, print."""
    jobs = sorted(path.stem.removeprefix("job_") for path in Path(__file__).parent.glob("job_*.py"))
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows of a job (default 1,000,000)")
    parser.add_argument("--batch-rows", type=int, default=20_000, help="rows of a batch (default 20,000)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", action="append", choices=jobs, help="run this job only; may be repeated")
    parser.add_argument("--root", type=Path, default=Path(gettempdir()), help="where the data goes")
    asked = parser.parse_args()
    work = Workload(asked.rows, asked.batch_rows, asked.seed, asked.root)
    measurements: list[Measurement] = []
    for job in asked.only or jobs:
        print(f"running {job} ...", file=sys.stderr, flush=True)
        measurements += importlib.import_module(f"bench.job_{job}").run(work)
    facts = _facts(work)
    print("\n".join(f"{name}: {value}" for name, value in facts.items()) + "\n")
    print(markdown(measurements))
    RESULTS.mkdir(exist_ok=True)
    document = {"facts": facts, "measurements": [asdict(m) | {"ratio": m.ratio} for m in measurements]}
    target = RESULTS / f"{datetime.now(UTC):%Y%m%dT%H%M%S}.json"
    target.write_text(json.dumps(document, indent=2))
    return 0


def _facts(work: Workload) -> dict[str, str]:
    packages = ("pyarrow", "numpy", "rocksdict")
    return {
        "date": f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}",
        "versions": ", ".join(f"{name} {version(name)}" for name in packages),
        "rows": f"{work.rows:,} in batches of {work.batch_rows:,}, seed {work.seed}",
    }


if __name__ == "__main__":
    sys.exit(main())
