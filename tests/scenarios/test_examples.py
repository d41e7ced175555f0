"""Every example runs as it stands, and ends as it says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
ENDS = {
    "backfill_under_lease": ["exported 20000 rows, amounts {1}", "the table has 10000 rows, amounts {2}"],
    "cdc_to_duckdb": ["after the snapshot: same", "after the changes: same", "nothing is left to do: True"],
    "crash_recovery": [
        *("killed in batch 1", "killed in batch 1", "killed in batch 4", "loader ended, 0"),
        "sums are exact",
    ],
    "debezium": ["the table has 0: Kiel, 2: Ulm, 3: Bonn"],
    "airflow_load": ["first try: the source is gone", "second try: loaded", "third try: skipped", "sum: 45"],
    "fastapi_service": ["order 2: 404", 'data: [{"_change_type": "+I", "id": 1, "city": "Ulm", "amount": 9.5}]'],
    "live_dashboard": ["every scan saw the same total"],
}


def test_every_example_is_run() -> None:
    # Those with Spark are run beside the other tests of Spark.
    found = {path.stem for path in EXAMPLES.glob("*.py") if not path.stem.startswith("spark_")}

    assert found == set(ENDS)


@pytest.mark.parametrize("name", ENDS)
def test_example_ends_as_it_says(name: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, EXAMPLES / f"{name}.py", tmp_path],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-len(ENDS[name]) :] == ENDS[name]
