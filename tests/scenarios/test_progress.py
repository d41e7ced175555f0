"""Long reads and writes say how far they are."""

from __future__ import annotations

from contextlib import ExitStack
from itertools import count
from pathlib import Path

import pytest

import penstock
from penstock import Progress

SCHEMA = "id BIGINT, PRIMARY KEY (id)"


@pytest.mark.parametrize("served", [False, True], ids=["embedded", "server"])
def test_scan_and_writer_tell_how_far_they_are(tmp_path: Path, served: bool) -> None:
    told: list[Progress] = []
    with ExitStack() as stack:
        server = stack.enter_context(penstock.serve(tmp_path / "data")) if served else None
        with penstock.connect(tmp_path / "data" if server is None else server.url, progress=told.append) as connection:
            # Each look at this clock is a second later.
            connection._link.monotonic = count(0.0).__next__
            table = connection.create_table("t", SCHEMA, buckets=2)
            with table.writer(batch_rows=100) as writer:
                for start in range(0, 1_000, 100):
                    writer.upsert({"id": range(start, start + 100)})
            written, told[:] = list(told), []

            rows = table.scan().to_arrow().num_rows

    assert [progress.rows for progress in written if progress.ended] == [1_000]
    assert {progress.what for progress in written} == {"write to"}
    assert rows == told[-1].rows == 1_000
    assert told[-1].ended
    assert told[-1].fraction == 1.0
    fractions = [progress.fraction for progress in told if progress.fraction is not None]
    assert fractions == sorted(fractions)


def test_scan_that_is_closed_early_is_not_told_to_be_whole(tmp_path: Path) -> None:
    told: list[Progress] = []
    with penstock.connect(tmp_path / "data", progress=told.append) as connection:
        connection._link.monotonic = count(0.0).__next__
        table = connection.create_table("t", SCHEMA, buckets=4)
        table.upsert({"id": range(1_000)})

        with table.scan() as scan:
            next(scan)

    assert told[-1].ended
    assert told[-1].fraction is None


def test_nothing_is_shown_unless_it_is_asked_for(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with penstock.connect(tmp_path / "data") as connection:
        connection._link.monotonic = count(0.0).__next__
        table = connection.create_table("t", SCHEMA)
        table.upsert({"id": range(1_000)})
        table.scan().to_arrow()

    assert capfd.readouterr() == ("", "")
