from __future__ import annotations

from pathlib import Path

import penstock
from penstock.cli.bench import FIGURES, measure


def test_every_work_is_done_and_timed(tmp_path: Path) -> None:
    with penstock.connect(tmp_path / "data") as connection:
        ddl = "id BIGINT, city STRING, amount DOUBLE, day DATE, note STRING, PRIMARY KEY (id)"
        table = connection.create_table("t", ddl, buckets=2)

        figures = list(measure(table, rows=1_000, batch_rows=300))

        assert [set(row) for row in figures] == [set(FIGURES.names)] * 6
        assert all(row["rows_per_s"] > 0 for row in figures)
        assert table.scan().to_arrow().num_rows == 1_000
        assert sum(batch.num_rows for batch in table.changes()) == 3_000
