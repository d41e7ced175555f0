"""The benchmarks run, compare what their peers hold, and write their pages."""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from bench import pages
from bench.agreement import DisagreementError, agree, fingerprint
from bench.drawing import MARK, Drawing
from bench.job_scaling import widened
from bench.measurement import Figure, Measurement, Point, Score, timing
from bench.peers import penstock_embedded, sqlite_file
from bench.peers.roster import Roster
from bench.picture import draw
from bench.report import Report, merged, read, verdict
from bench.runner import ORDER, jobs, run
from bench.workload import Workload, rows

FIGURES = [
    Figure("in process", "Penstock", False, Score("bulk insert", "rows/s", 100.0, 5.0, 3)),
    Figure("in process", "Other", False, Score("bulk insert", "rows/s", 250.0, 1.0, 3, "no changelog")),
    Figure("in process", "bare file", True, Score("bulk insert", "rows/s", 900.0)),
    Figure("in process", "Penstock", False, Score("recovery", "ms", 10.0, less_is_better=True)),
    Figure("in process", "Other", False, Score("recovery", "ms", 20.0, less_is_better=True)),
]
POINTS = [
    Point("table grows (rows)", "upsert", 1, 1.0),
    Point("table grows (rows)", "upsert", 4, 2.0),
    Point("batches shrink (rows)", "upsert", 10, 1.0, share=10),
    Point("batches shrink (rows)", "upsert", 1, 9.0, share=1),
]


def report() -> Report:
    facts = {"date": "today", "machine": "a machine", "rows": "1 row"}
    measured = [Measurement("one job", "rows/s", 1.0, "a bound", 2.0)]
    return Report(facts, {"Other": "1.0; as it comes"}, {"Third": "is not here"}, FIGURES, measured, POINTS)


def test_run_prints_a_table_and_keeps_its_figures(repository: Path, tmp_path: Path) -> None:
    job = ("--only", "random_upsert", "--peer", "penstock_embedded", "--peer", "sqlite_file", "--peer", "plain_file")
    sizes = (
        "--rows",
        "400",
        "--batch-rows",
        "100",
        "--repeats",
        "2",
        "--root",
        str(tmp_path),
        "--results",
        str(tmp_path),
    )

    done = subprocess.run(
        [sys.executable, "-m", "bench", *job, *sizes], cwd=repository, capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stderr
    assert "| job | unit | Penstock | SQLite | *plain file* |" in done.stdout
    (kept,) = tmp_path.glob("*.json")
    found = read(kept.read_text())
    assert [figure.peer for figure in found.figures] == ["Penstock", "plain file", "SQLite"]
    assert all(figure.score.value > 0 for figure in found.figures)
    assert list(tmp_path.iterdir()) == [kept]


def test_run_that_is_ended_leaves_nothing_behind(repository: Path, tmp_path: Path) -> None:
    arguments = ("--only", "bulk_insert", "--peer", "penstock_served", "--rows", "50000", "--root", str(tmp_path))
    command = [sys.executable, "-m", "bench", *arguments, "--repeats", "1000", "--results", str(tmp_path)]
    with subprocess.Popen(command, cwd=repository, stderr=subprocess.PIPE, text=True) as bench:
        assert bench.stderr is not None
        for line in bench.stderr:
            if line.startswith("bulk_insert"):
                break
        os.kill(bench.pid, signal.SIGTERM)
        said = bench.stderr.read()

    assert bench.returncode == 143, said
    assert list(tmp_path.iterdir()) == []


def test_run_that_is_ended_goes_not_on_with_the_next_job_if_a_peer_fails_to_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ended_while_measuring(_: Workload) -> list[Figure]:
        try:
            sys.exit(143)
        finally:
            raise OSError("the peer cannot be stopped")

    monkeypatch.setitem(sys.modules, "bench.job_ended", SimpleNamespace(run=ended_while_measuring))

    with pytest.raises(SystemExit) as end:
        run(Workload(10, 10, seed=1, root=tmp_path), ["ended", "bulk_insert"], Roster(), lambda _: None)

    assert end.value.code == 143


@pytest.mark.parametrize("job", [job for job in ORDER if job != "scaling"])
def test_job_measures_peers_that_hold_the_same_rows(job: str, tmp_path: Path) -> None:
    peers = (penstock_embedded.PEER, sqlite_file.PEER)
    work = Workload(1_000, 250, seed=1, root=tmp_path, repeats=2, peers=peers)

    figures: list[Figure] = importlib.import_module(f"bench.job_{job}").run(work)

    expected = {"Penstock"} if job == "table_formats" else {"Penstock", "SQLite"}
    assert {figure.peer for figure in figures} == expected
    assert list(tmp_path.iterdir()) == []


def test_wide_rows_have_as_many_columns_as_asked() -> None:
    wide = widened(rows(np.arange(3)), 50)

    assert wide.num_columns == 50
    assert wide.schema.names[:2] == ["id", "city0"]


def test_every_job_has_a_place() -> None:
    assert len(jobs()) == len(set(jobs()))
    assert {"bulk_insert", "scaling", "spark", "recovery"} <= set(jobs())


def test_fingerprint_sees_values_swapped_between_rows() -> None:
    batch = rows(np.arange(10))
    swapped = batch.set_column(2, "amount", batch.column("amount").take(pa.array([1, 0, *range(2, 10)])))

    assert fingerprint(batch) == fingerprint(batch.take(pa.array(range(9, -1, -1))))
    assert fingerprint(batch) != fingerprint(swapped)
    with pytest.raises(DisagreementError, match="a peer holds"):
        agree("a peer", fingerprint(swapped), fingerprint(batch))


def test_timing_is_the_median_and_how_far_the_slowest_is() -> None:
    took = timing([1.0, 2.0, 3.0])

    assert (took.seconds, took.spread, took.repeats) == (2.0, 50.0, 3)


def test_accident_among_many_runs_is_not_their_spread() -> None:
    assert timing([1.0] * 38 + [1.5, 60.0]).spread == 0.0
    assert timing([1.0] * 37 + [1.5, 1.5, 60.0]).spread == 50.0


def test_table_shows_the_best_real_peer_in_bold_also_when_it_is_not_ours() -> None:
    lines = report().table("in process").splitlines()

    assert lines[0] == "| job | unit | Penstock | Other | *bare file* |"
    assert lines[2] == "| bulk insert | rows/s | 100 ±5% | **250** ±1% (no changelog) | 900 |"
    assert lines[3] == "| recovery | ms | **10** | 20 |  |"


def test_what_is_worse_than_linear_is_named() -> None:
    assert verdict(POINTS) == "Worse than linear: upsert as table grows (rows) (2.0 times linear)."
    assert verdict(POINTS[2:]) == "Nothing is worse than linear."


def test_marks_that_would_hide_each_other_are_drawn_apart() -> None:
    aside = Drawing.apart({"near": 100.0, "nearer": 103.0, "far": 200.0})

    assert aside["far"] == 0
    assert aside["nearer"] - aside["near"] == MARK


def test_legend_that_is_too_long_goes_on_below() -> None:
    names = ["a system with a long name"] * 4

    assert Drawing(860, "", "").legend(26, 72, names[:2]) == 72
    assert Drawing(860, "", "").legend(26, 72, names) > 72


def test_report_survives_its_json() -> None:
    assert read(report().document()) == report()
    assert json.loads(report().document())["absent"] == {"Third": "is not here"}


def test_runs_are_merged_and_the_last_wins() -> None:
    again = Figure("in process", "Other", False, Score("bulk insert", "rows/s", 260.0))
    later = replace(report(), facts={**report().facts, "date": "later"}, figures=[again])

    both = merged([report(), later])

    assert both.facts["date"] == "today and later"
    assert [f.score.value for f in both.figures if f.peer == "Other" and f.score.unit == "rows/s"] == [260.0]
    assert len(both.figures) == len(FIGURES)
    assert both.points == POINTS


def test_many_runs_are_dated_by_their_first_and_last() -> None:
    runs = [replace(report(), facts={**report().facts, "date": f"2026-01-0{day}"}) for day in (2, 1, 3)]

    assert merged(runs).facts["date"] == "2026-01-01 to 2026-01-03"


def test_what_was_too_little_to_be_measured_has_no_mark() -> None:
    nothing = Figure("in process", "Other", False, Score("memory", "MB", 0.0, less_is_better=True))
    ours = Figure("in process", "Penstock", False, Score("memory", "MB", 1.0, less_is_better=True))

    assert ">memory<" not in draw([*FIGURES, nothing, ours], {})
    assert ">recovery<" in draw([*FIGURES, nothing, ours], {})


def test_pages_get_the_figures_of_a_run_and_keep_their_words(tmp_path: Path) -> None:
    (tmp_path / "docs" / "images").mkdir(parents=True)
    for page in ("README.md", "docs/performance.md"):
        (tmp_path / page).write_text(f"before\n{pages.BEGIN}\nold\n{pages.END}\nafter\n")

    written = pages.write(report(), tmp_path)

    for page in ("README.md", "docs/performance.md"):
        text = (tmp_path / page).read_text()
        assert text.startswith("before\n")
        assert text.endswith("after\n")
        assert "\nold\n" not in text
        assert "**250**" in text
    pictures = [path for path in written if path.suffix == ".svg"]
    assert {path.name for path in pictures} == {"bench.svg", "bench-table-grows.svg", "bench-batches-shrink.svg"}
    for path in pictures:
        assert ET.parse(path).getroot().tag.endswith("svg")
