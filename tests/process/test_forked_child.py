"""A process that has a directory open forks: the child ends as it wants to, the parent goes on."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PARENT = """
import gc, os, sys
from pathlib import Path
import penstock

directory = Path(sys.argv[1])
connection = penstock.connect(directory / "first")
table = connection.create_table("t", "id BIGINT, v BIGINT, PRIMARY KEY (id)")
table.upsert([{"id": 1, "v": 1}])
child = os.fork()
if child == 0:
    exec(sys.argv[2])
    sys.exit(7)
print("child", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
table.upsert([{"id": 1, "v": 2}])
print(table.get(id=1))
connection.close()
print(penstock.connect(directory / "first").table("t").get(id=1))
"""


def run(directory: Path, child: str) -> str:
    finished = subprocess.run(
        [sys.executable, "-c", PARENT, str(directory), child], capture_output=True, text=True, check=False, timeout=60
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr
    return finished.stdout


@pytest.mark.parametrize(
    "child",
    [
        pytest.param("pass", id="at-once"),
        pytest.param("del connection, table; gc.collect()", id="after-dropping-the-connection"),
        pytest.param("connection.close()", id="after-closing-the-connection"),
        pytest.param("os.fork() and os.wait()", id="after-forking-again"),
    ],
)
def test_child_of_a_fork_exits_with_its_own_code_and_the_parent_goes_on(child: str, tmp_path: Path) -> None:
    said = run(tmp_path, child)

    assert said.splitlines() == ["child 7", "{'id': 1, 'v': 2}", "{'id': 1, 'v': 2}"]


def test_child_of_a_fork_is_told_why_it_cannot_use_or_open_a_directory(tmp_path: Path) -> None:
    child = """
for attempt in (lambda: table.get(id=1), lambda: penstock.connect(directory / "second")):
    try:
        attempt()
    except penstock.errors.PenstockError as error:
        print(type(error).__name__, error, flush=True)
"""

    said = run(tmp_path, child)

    assert "ClosedError an open data directory does not survive a fork; start the process by spawn instead" in said
    assert "UnsupportedError a process forked from one that had a data directory open cannot open one" in said
    assert "child 7" in said


def test_child_of_a_fork_before_anything_was_opened_opens_directories(tmp_path: Path) -> None:
    program = """
import os, sys, penstock
child = os.fork()
with penstock.connect(sys.argv[1] + ("/parent" if child else "/child")) as connection:
    connection.create_table("t", "id BIGINT, PRIMARY KEY (id)").upsert([{"id": 1}])
if child:
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""

    finished = subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=False, timeout=60)

    assert finished.returncode == 0
