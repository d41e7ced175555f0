"""A process that writes to a bucket, on a real disk and with RocksDB, is killed at random moments.

Run as a script, this file is the killer: lean and single-threaded, so that it may fork. It keeps the
oracle; each child opens the bucket, compares it with the oracle as it was forked, and goes on.
RocksDB is open in children only.
"""

from __future__ import annotations

import os
import select
import signal
import struct
import subprocess
import sys
import traceback
from pathlib import Path
from random import Random
from typing import Final, NoReturn

import pytest
from tests.kit.oracle import Oracle
from tests.kit.tablet_rig import TabletRig
from tests.kit.tablet_writes import COLUMNS, KEY, RandomWrites, TabletWrite

from penstock.index.front.front import FrontedKeyIndex
from penstock.index.front.front_settings import FrontSettings
from penstock.index.key_index import KeyIndex
from penstock.index.rocks.index import RocksKeyIndex
from penstock.model.table.merge_engine import MergeEngine
from penstock.runtime.local_disk import LocalDisk
from penstock.tablet.steps.checkpointing import checkpoint
from penstock.tablet.steps.compaction import compact
from penstock.tablet.steps.sealing import seal

REPOSITORY = Path(__file__).parents[2]
KILLS: Final = 110
GROUPS_MAX: Final = 40
TINY: Final = FrontSettings(table_bytes_max=2_000, dirty_bytes_max=500, drain_rows_max=3)
_REPORT: Final = struct.Struct("<q")


class Round:
    """What one child does: known from its seed, to the child and to the killer."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        writes = RandomWrites(Random(seed + 1), MergeEngine.LAST_ROW, writers=0)
        self.groups: list[list[TabletWrite]] = [
            [writes.next(COLUMNS) for _ in range(self.random.randint(1, 2))] for _ in range(GROUPS_MAX)
        ]


class Killer:
    """Forks children, kills them, and keeps the oracle in step with what they acknowledged."""

    def __init__(self, directory: Path, seed: int) -> None:
        self.directory = directory
        self.random = Random(seed)
        self.oracle = Oracle(COLUMNS, (KEY,))
        self.in_doubt: list[int] = [0]

    def play(self, seed: int) -> bool:
        """Play one round; tell whether the child was killed before it had done everything."""
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(read)
            _child(self, Round(seed), write)
        os.close(write)
        acks, patience = self.random.choice((-1, 0, 1, 2, 4, 8)), self.random.random() * 0.004
        reports = _reports(read, acks + 1, patience)
        os.kill(child, signal.SIGKILL)
        reports += _reports(read, GROUPS_MAX + 2, None)
        os.close(read)
        _, status = os.waitpid(child, 0)
        if os.waitstatus_to_exitcode(status) > 0:
            sys.exit(f"child failed round={seed}")
        self._settle(seed, reports)
        return os.waitstatus_to_exitcode(status) == -signal.SIGKILL

    def _settle(self, seed: int, reports: list[int]) -> None:
        if not reports:
            return  # killed before it had opened the bucket: nothing is known, nothing was written
        self.oracle.cut(reports[0])
        groups = Round(seed).groups
        for group in groups[: len(reports) - 1]:
            _tell(self.oracle, group)
        assert self.oracle.end == reports[-1]
        self.in_doubt = [self.oracle.end]
        for group in groups[len(reports) - 1 : len(reports)]:
            for one in group:
                one.tell(self.oracle)
                self.in_doubt.append(self.oracle.end)


def _tell(oracle: Oracle, group: list[TabletWrite]) -> None:
    for write in group:
        write.tell(oracle)


def _reports(pipe: int, count: int, patience: float | None) -> list[int]:
    """Read up to that many reports, then wait for a moment; without patience, until the pipe ends."""
    found: list[int] = []
    while len(found) < count and (data := os.read(pipe, _REPORT.size)):
        found += _REPORT.unpack(data)
    if patience is not None:
        select.select([], [], [], patience)
    return found


def _child(killer: Killer, round_: Round, pipe: int) -> NoReturn:
    try:
        # Each child has a front of another size, or none, and finds what the one before left.
        front = round_.random.choice((None, TINY, FrontSettings()))
        below = RocksKeyIndex(killer.directory / "index")
        index = below if front is None else FrontedKeyIndex(below, front)
        rig = TabletRig(LocalDisk(killer.directory / "files"), index, oracle=killer.oracle)
        visible = rig.tablet.view.visible
        assert visible in killer.in_doubt, f"visible={visible} acknowledged={killer.in_doubt}"
        rig.oracle.cut(visible)
        rig.check(round_.random, looks=1)
        os.write(pipe, _REPORT.pack(visible))
        for group in round_.groups:
            rig.write(group)
            os.write(pipe, _REPORT.pack(rig.oracle.end))
            _look_after(rig, index, round_.random)
    except BaseException:  # noqa: BLE001 - the killer is told by the exit code
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def _look_after(rig: TabletRig, index: KeyIndex, random: Random) -> None:
    if random.random() < 0.2:
        seal(rig.tablet, active_too=random.random() < 0.5)
    if random.random() < 0.15:
        checkpoint(rig.tablet, index.flush)
    if random.random() < 0.15:
        compact(rig.tablet, rig.oracle.end)


@pytest.mark.parametrize("seed", [1, 2])
def test_killed_child_loses_nothing_acknowledged(seed: int, tmp_path: Path) -> None:
    finished = subprocess.run(
        [sys.executable, "-m", "tests.process.test_tablet_kill", str(tmp_path), str(seed), str(KILLS)],
        capture_output=True,
        text=True,
        check=False,
        cwd=REPOSITORY,
        timeout=240,
    )

    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert f"kills={KILLS}" in finished.stdout


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10, 14))
def test_child_killed_many_times_loses_nothing_acknowledged(seed: int, tmp_path: Path) -> None:
    finished = subprocess.run(
        [sys.executable, "-m", "tests.process.test_tablet_kill", str(tmp_path), str(seed), "500"],
        check=False,
        cwd=REPOSITORY,
    )

    assert finished.returncode == 0


def main(directory: Path, seed: int, kills: int) -> None:
    (directory / "files").mkdir()
    killer = Killer(directory, seed)
    killed = rounds = 0
    while killed < kills:
        killed += killer.play(1_000 * seed + rounds)
        rounds += 1
        assert rounds < 2 * kills, "children finish before they are killed"
    print(f"kills={killed} changes={killer.oracle.end}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
