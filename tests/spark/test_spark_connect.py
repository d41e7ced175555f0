"""Everything works through Spark Connect as it does without, also when it is killed and started again."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path
from types import TracebackType

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.kit.waiting import wait_until

import penstock

CLIENT = Path(__file__).with_name("connect_client.py")
SOURCE = Path(__file__).parents[2] / "src"
FILES = 6
ROWS = 300


class Client:
    """A Connect client with a Spark of its own, in processes that can all be killed. A context manager."""

    def __init__(self, url: str, home: Path, *steps: str) -> None:
        self._words = home / "client.log"
        with self._words.open("ab") as words:
            self._process = subprocess.Popen(
                [sys.executable, str(CLIENT), url, str(home), *steps],
                stdout=subprocess.PIPE,
                stderr=words,
                text=True,
                env=os.environ | {"PYTHONPATH": str(SOURCE), "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_TESTING": "1"},
            )

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process.poll() is None:
            self.kill()

    def check_running(self) -> None:
        assert self._process.poll() is None, self._words.read_text()[-3000:]

    def finish(self) -> None:
        """Wait for the end."""
        self._process.communicate()
        assert self._process.returncode == 0, self._words.read_text()[-3000:]

    def kill(self) -> str:
        """End the client, Spark and its workers with SIGKILL; return what was printed."""
        everyone = psutil.Process(self._process.pid).children(recursive=True)
        self._process.kill()
        for process in everyone:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        return self._process.communicate()[0]


@pytest.mark.timeout(900)
def test_reads_writes_and_a_killed_stream_work_through_connect(
    url: str, connection: penstock.Connection, orders: penstock.Table, tmp_path: Path
) -> None:
    (tmp_path / "files").mkdir()
    for number in range(FILES):
        numbers = range(number * ROWS, (number + 1) * ROWS)
        rows = pa.table({"k": [n % 20 for n in numbers], "total": list(numbers), "n": [1] * ROWS})
        pq.write_table(rows, tmp_path / "files" / f"{number}.parquet")
    newest = connection.create_table(f"{orders.path}_newest", "k BIGINT, total BIGINT, n BIGINT, PRIMARY KEY (k)")
    sums = connection.create_table(
        f"{orders.path}_sums", "k BIGINT, total BIGINT SUM, n BIGINT COUNT, PRIMARY KEY (k)", buckets=2
    )

    steps = (f"read={orders.path}", f"help={orders.path}", f"write={newest.path}", f"stream={sums.path}")
    with Client(url, tmp_path, *steps) as killed:

        def is_committed() -> bool:
            killed.check_running()
            return any(o.committed_epoch >= 1 for o in connection.list_owners() if o.table == sums.path)

        wait_until(is_committed)
        seen = killed.kill()
    (left,) = [owner for owner in connection.list_owners() if owner.table == sums.path]
    with Client(url, tmp_path, steps[-1]) as again:
        again.finish()

    read, helped = map(json.loads, seen.splitlines()[-2:])
    assert read == {"counted": [990, 990], "streamed": 990, "joined": 2, "changes": 1050}
    assert helped.pop("rows") > 0
    assert helped == {"total": 1000, "behind": 0, "placed": 50, "since": 0, "then": 990}
    assert {row["k"]: row["total"] for row in newest.scan().to_arrow().to_pylist()} == {
        **{k: 900 + k for k in range(100)},
        100: 7,
    }
    assert left.committed_epoch < FILES - 1, "the kill came in the middle"
    (owner,) = [owner for owner in connection.list_owners() if owner.table == sums.path]
    assert (owner.committed_epoch, owner.open_epoch, owner.rows_pending) == (FILES - 1, None, 0)
    assert owner.owner == left.owner
    numbers = range(FILES * ROWS)
    assert {row["k"]: (row["total"], row["n"]) for row in sums.scan().to_arrow().to_pylist()} == {
        k: (sum(numbers[k::20]), FILES * ROWS // 20) for k in range(20)
    }
