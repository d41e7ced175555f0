"""A directory is opened to read again and again while another process writes it and is killed."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

from tests.process.read_only_child import CALLS_A_DAY, ROWS, days

import penstock
from penstock.errors import UnavailableError

SECONDS = float(os.environ.get("PENSTOCK_READ_ONLY_SECONDS", "15"))
OPENS_MIN = 20


def check_t(table: penstock.Table, at_least: int) -> int:
    """Check the table of calls that replace each other; return how many calls are there."""
    found = table.scan().to_arrow().to_pydict()
    values = dict(zip(found["id"], found["v"], strict=True))
    newest = {values[n] for n in range(ROWS)}
    assert len(newest) == 1, f"a call is there in part: {newest}"
    calls = newest.pop() + 1
    assert calls >= at_least, "an acknowledged call is missing"
    assert len(values) == ROWS * (calls + 1), (len(values), calls)
    assert all(values[ROWS * (n // ROWS + 1) + n % ROWS] == n // ROWS for n in range(ROWS * calls))
    asked = [0, ROWS * calls, ROWS * calls + ROWS - 1, ROWS * (calls + 1)]
    looked = table.lookup({"id": asked}).to_pydict()
    assert looked["_found"] == [True, True, True, False]
    assert looked["v"] == [calls - 1, calls - 1, calls - 1, None]
    return calls


def check_p(table: penstock.Table, at_least: int) -> None:
    """Check the table of calls that each write two partitions, of which old ones are dropped."""
    found = table.scan().to_arrow().to_pydict()
    rows: Counter[tuple[str, int]] = Counter(
        (day, id // ROWS) for day, id in zip(found["day"], found["id"], strict=True)
    )
    if not rows:
        assert at_least == 0
        return
    last = max(call for _, call in rows)
    assert last + 1 >= at_least, "an acknowledged call is missing"
    oldest = min(day for day, _ in rows)
    wanted = {
        (day, call): ROWS
        for call in range(max(0, last - 2 * CALLS_A_DAY), last + 1)
        for day in days(call)
        if day > oldest
    }
    assert {key: rows[key] for key in wanted} == wanted, "a call is there in part"


class Writer:
    """The process that writes, killed and started again at random moments."""

    def __init__(self, directory: Path, seed: int) -> None:
        self.data = directory / "data"
        self._random = random.Random(seed)
        self._file = directory / "acknowledged"
        self._file.write_bytes(bytes(8))
        self._start()

    @property
    def acknowledged(self) -> int:
        """Return how many calls were acknowledged."""
        return int.from_bytes(self._file.read_bytes(), "little")

    def disturb(self) -> None:
        """Kill the process if it did enough, and start another, or let the directory lie for one opening first."""
        if self.acknowledged >= self._kill_at:
            self.end()
            if self._random.random() < 0.5:
                with penstock.connect(self.data, read_only=True) as reader:
                    assert check_t(reader.table("t"), self.acknowledged) <= self.acknowledged + 1
            self._start()
        assert self._process.poll() is None, "the writer failed"

    def end(self) -> None:
        """Kill the process."""
        self._process.kill()
        self._process.wait()

    def _start(self) -> None:
        child = Path(__file__).with_name("read_only_child.py")
        seed = str(self._random.randrange(1 << 30))
        self._process = subprocess.Popen([sys.executable, str(child), str(self.data), str(self._file), seed])
        self._kill_at = self.acknowledged + self._random.randrange(1, 80)


def opens_whole(writer: Writer) -> bool:
    """Open the directory and check all tables; False if files went while they were read."""
    at_least = writer.acknowledged
    with penstock.connect(writer.data, read_only=True) as reader:
        try:
            check_t(reader.table("t"), at_least)
            check_p(reader.table("p"), at_least)
            logged = Counter(reader.table("log").scan().to_arrow()["n"].to_pylist())
        except UnavailableError as error:
            if "open the directory again" not in str(error):
                raise
            return False
    assert set(logged) >= set(range(at_least))
    assert all(count % ROWS == 0 for count in logged.values()), "a call is there in part"
    return True


def test_every_opening_shows_all_that_was_acknowledged_and_no_half_of_a_call(tmp_path: Path) -> None:
    seed = random.randrange(1 << 30)
    print(f"seed={seed}")
    writer = Writer(tmp_path, seed)
    opened: Counter[bool] = Counter()
    end = time.monotonic() + SECONDS
    try:
        while time.monotonic() < end or opened.total() < OPENS_MIN:
            writer.disturb()
            if writer.acknowledged:
                opened[opens_whole(writer)] += 1
    finally:
        writer.end()
    print(f"opened whole={opened[True]}, files went meanwhile={opened[False]}, calls={writer.acknowledged}")
    assert opened[True] > opened[False]
