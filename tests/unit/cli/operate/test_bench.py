from __future__ import annotations

from pathlib import Path

import pytest

import penstock
from penstock.cli.operate.bench import FIGURES, measure, run_beside_peers
from penstock.errors import NotFoundError


def test_every_work_is_done_and_timed(tmp_path: Path) -> None:
    with penstock.connect(tmp_path / "data") as connection:
        ddl = "id BIGINT, city STRING, amount DOUBLE, day DATE, note STRING, PRIMARY KEY (id)"
        table = connection.create_table("t", ddl, buckets=2)

        figures = list(measure(table, rows=1_000, batch_rows=300))

        assert [set(row) for row in figures] == [set(FIGURES.names)] * 6
        assert all(row["rows_per_s"] > 0 for row in figures)
        assert table.scan().to_arrow().num_rows == 1_000
        assert sum(batch.num_rows for batch in table.changes()) == 3_000


def test_peers_are_measured_by_the_harness_of_the_source_tree(tmp_path: Path) -> None:
    (tmp_path / "bench").mkdir()
    (tmp_path / "bench" / "__main__.py").write_text("import sys; sys.exit(7 if '--rows=1000' in sys.argv else 1)")

    assert run_beside_peers({"rows": 1_000}, tmp_path) == 7


def test_installed_package_says_where_the_harness_is(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="make bench"):
        run_beside_peers({}, tmp_path)
