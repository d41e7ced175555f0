from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from penstock.cli.terminal.row_progress import watch_rows

BATCHES = [pa.record_batch({"id": [1, 2]}), pa.record_batch({"id": [3]})]


def test_nobody_is_asked_for_a_total_where_nobody_watches() -> None:
    def total() -> int:
        pytest.fail("asked")

    assert list(watch_rows(BATCHES, total)) == BATCHES


def test_bar_is_on_the_terminal_and_rows_are_in_the_file(tmp_path: Path) -> None:
    code = (
        "import pyarrow as pa\nfrom penstock.cli.terminal.row_progress import watch_rows\n"
        "for batch in watch_rows([pa.record_batch({'id': [1, 2]})] * 3, lambda: 6): print(batch.num_rows)"
    )
    screen, terminal = pty.openpty()
    with (tmp_path / "rows").open("w") as rows:
        subprocess.run([sys.executable, "-c", code], stdout=rows, stderr=terminal, check=True, timeout=60)
    os.close(terminal)

    assert (tmp_path / "rows").read_text() == "2\n2\n2\n"
    assert "6/6" in os.read(screen, 1 << 16).decode()
    os.close(screen)
