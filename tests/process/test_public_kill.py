"""A process that writes through the public API, in several threads, is killed at random moments.

Run as a script, this file is the killer: lean and single-threaded, so that it may fork. It knows of
every call whether it began and whether it was acknowledged; each child opens the directory, checks
every bucket, sends again what can be sent again, checks once more, and goes on writing.
"""

from __future__ import annotations

import os
import select
import signal
import struct
import subprocess
import sys
import threading
import traceback
from pathlib import Path
from random import Random
from typing import Final, NoReturn

import pytest
from tests.kit.doomed_writers import DoomedWriter, doomed_writers

import penstock
from penstock.engine.engine import Engine

REPOSITORY = Path(__file__).parents[2]
KILLS: Final = 60
CALLS_MAX: Final = 400
_REPORT: Final = struct.Struct("<cBI")
OPENED, CHECKED, BEGUN, ACKNOWLEDGED = b"o", b"c", b"b", b"a"
SETTINGS: Final = {"log.segment-bytes": "16KB", "checkpoint.interval": "100ms"}


class Killer:
    """Forks children, kills them, and keeps account of their calls."""

    def __init__(self, directory: Path, seed: int) -> None:
        self.directory = directory
        self.random = Random(seed)
        self.writers = doomed_writers()
        self.last = [0] * len(self.writers)
        """The newest call of each writer that began."""
        self.possible: list[set[int]] = [{0} for _ in self.writers]
        """The calls of each writer of which a bucket may have the rows."""
        self.created = False

    def play(self, seed: int) -> bool:
        """Play one round; tell whether the child was killed before it had done everything."""
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(read)
            _child(self, Random(seed), write)
        os.close(write)
        # Most often in the middle of writing; now and then while it opens, or checks and sends again.
        reports = self.random.choice((0, 1, 2, 4, 30, 60, 100, 150))
        self._hear(read, reports, patience=self.random.random() * 0.004)
        os.kill(child, signal.SIGKILL)
        self._hear(read, None)
        os.close(read)
        _, status = os.waitpid(child, 0)
        if os.waitstatus_to_exitcode(status) > 0:
            sys.exit(f"child failed round={seed}")
        return os.waitstatus_to_exitcode(status) == -signal.SIGKILL

    def _hear(self, pipe: int, count: int | None, patience: float = 0) -> None:
        """Take note of so many reports, or of all until the pipe ends."""
        heard = 0
        while (count is None or heard < count) and (data := os.read(pipe, _REPORT.size)):
            heard += 1
            kind, writer, n = _REPORT.unpack(data)
            if kind == OPENED:
                self.created = True
            elif kind == BEGUN:
                self.last[writer] = n
                self.possible[writer].add(n)
            elif kind == ACKNOWLEDGED:
                self.possible[writer] = {n}
        select.select([], [], [], patience)


class Child:
    """Opens what the child before it left, checks it, and writes until it is killed."""

    def __init__(self, killer: Killer, random: Random, pipe: int) -> None:
        self._killer = killer
        self._random = random
        self._pipe = pipe
        self._connection = penstock.connect(killer.directory, settings=SETTINGS)
        if not killer.created:
            DoomedWriter.create_tables(self._connection)
        self._report(OPENED)

    def check(self) -> None:
        """Check every bucket; complete the calls in doubt that can be sent again, and check them exactly."""
        killer = self._killer
        for number, writer in enumerate(killer.writers):
            writer.check(self._connection, killer.possible[number])
            if writer.retries and len(killer.possible[number]) > 1:
                n = max(killer.possible[number])
                writer.open(self._connection)(n)
                self._report(ACKNOWLEDGED, number, n)
                writer.check(self._connection, {n})
        self._report(CHECKED)

    def write(self) -> None:
        """Write in a thread for each writer, and look after the tables meanwhile."""
        threads = [threading.Thread(target=self._write, args=(number,)) for number in range(len(self._killer.writers))]
        for thread in threads:
            thread.start()
        node = self._connection._link.node
        assert isinstance(node, Engine)
        while any(thread.is_alive() for thread in threads):
            threads[0].join(0.01)
            live = self._random.choice(node._tables.all())
            # Of a log table everything would be everything.
            node.maintenance.compact_now(live, everything=live.info.keyed and self._random.random() < 0.5)

    def _write(self, number: int) -> None:
        try:
            write = self._killer.writers[number].open(self._connection)
            for n in range(self._killer.last[number] + 1, self._killer.last[number] + CALLS_MAX):
                self._report(BEGUN, number, n)
                write(n)
                self._report(ACKNOWLEDGED, number, n)
        except BaseException:  # noqa: BLE001 - the killer is told by the exit code
            traceback.print_exc()
            os._exit(1)

    def _report(self, kind: bytes, writer: int = 0, n: int = 0) -> None:
        os.write(self._pipe, _REPORT.pack(kind, writer, n))


def _child(killer: Killer, random: Random, pipe: int) -> NoReturn:
    try:
        child = Child(killer, random, pipe)
        child.check()
        child.write()
    except BaseException:  # noqa: BLE001 - the killer is told by the exit code
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def test_killed_process_loses_no_acknowledged_call_and_tears_none(tmp_path: Path) -> None:
    finished = subprocess.run(
        [sys.executable, "-m", "tests.process.test_public_kill", str(tmp_path / "data"), "1", str(KILLS)],
        capture_output=True,
        text=True,
        check=False,
        cwd=REPOSITORY,
        timeout=280,
    )

    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert f"kills={KILLS}" in finished.stdout


@pytest.mark.slow
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("seed", range(10, 14))
def test_process_killed_many_times_loses_no_acknowledged_call_and_tears_none(seed: int, tmp_path: Path) -> None:
    finished = subprocess.run(
        [sys.executable, "-m", "tests.process.test_public_kill", str(tmp_path / "data"), str(seed), "400"],
        check=False,
        cwd=REPOSITORY,
    )

    assert finished.returncode == 0


def main(directory: Path, seed: int, kills: int) -> None:
    killer = Killer(directory, seed)
    killed = rounds = 0
    while killed < kills:
        killed += killer.play(1_000 * seed + rounds)
        rounds += 1
        assert rounds < 2 * kills, "children finish before they are killed"
    print(f"kills={killed} calls={killer.last}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
