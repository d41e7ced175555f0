"""The whole demo: real Spark, a real server, both killed."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.kit.waiting import wait_until

START = "from penstock.cli.main import main; main()"


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_demo_ends_exact(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", START, "demo", "--orders", "10000", "--keep", str(tmp_path / "demo")],
        capture_output=True,
        text=True,
        timeout=880,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "EXACT" in done.stdout
    assert "of its rows visible" in done.stderr
    assert "server is back" in done.stderr


def processes_about(words: str) -> list[str]:
    """Return the command lines of the processes that name something."""
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            found.append(file.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
    return [line for line in found if words in line]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_demo_that_is_ended_leaves_no_process_behind(tmp_path: Path, number: signal.Signals) -> None:
    directory = tmp_path / "demo"
    demo = subprocess.Popen(
        [sys.executable, "-c", START, "demo", "--orders", "10000", "--keep", str(directory)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert demo.stderr is not None
    said = ""
    while "Spark job started" not in said:
        said += (line := demo.stderr.readline())
        assert line, said
    wait_until(lambda: any("demo.job" in line for line in processes_about(str(directory))))

    demo.send_signal(number)
    _, rest = demo.communicate(timeout=120)

    assert demo.returncode == 130
    assert f"data and logs are in {directory}" in rest
    # Spark's workers end by themselves once their JVM is gone.
    wait_until(lambda: processes_about(str(directory)) == [])


def test_demo_keeps_nothing_in_a_directory_that_is_there(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", START, "demo", "--keep", str(tmp_path)], capture_output=True, text=True, check=False
    )

    assert done.returncode == 1
    said = "--keep names a new directory, and this one is there; choose another"
    assert done.stderr == f"penstock: {said} directory={tmp_path}\n"
