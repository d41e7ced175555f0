from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.errors import DirectoryInUseError
from penstock.runtime.directory_lock import DirectoryLock
from penstock.testing.manual_clock import ManualClock

HOLDER = """
import sys
from penstock.runtime.directory_lock import DirectoryLock
lock = DirectoryLock(sys.argv[1])
lock.acquire()
print("held", flush=True)
sys.stdin.read()
"""


def start_holder(directory: Path) -> subprocess.Popen[str]:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(directory)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    return holder


def end(process: subprocess.Popen[str]) -> None:
    process.communicate()


def test_another_process_is_named_in_the_refusal(tmp_path: Path) -> None:
    holder = start_holder(tmp_path)

    with pytest.raises(DirectoryInUseError) as caught:
        DirectoryLock(tmp_path).acquire()
    end(holder)

    assert caught.value.message == "directory is open in another process; close it or use a server"
    assert caught.value.facts["directory"] == str(tmp_path)
    assert caught.value.facts["pid"] == holder.pid
    assert str(tmp_path) in caught.value.facts["command"]
    assert caught.value.facts["since"].endswith("+00:00")


def test_the_lock_goes_with_a_killed_process_and_the_file_stays(tmp_path: Path) -> None:
    holder = start_holder(tmp_path)
    holder.send_signal(signal.SIGKILL)
    end(holder)

    with DirectoryLock(tmp_path, clock=ManualClock(wall_ms=1_700_000_000_000)) as lock:
        assert lock.held
        written = json.loads((tmp_path / "LOCK").read_text())

    assert written["pid"] == os.getpid()
    assert written["started"] == 1_700_000_000_000
    assert set(written) == {"pid", "host", "started", "command"}
    assert (tmp_path / "LOCK").exists()


def test_a_second_lock_in_the_same_process_is_refused_by_name(tmp_path: Path) -> None:
    first = DirectoryLock(tmp_path)
    first.acquire()

    with pytest.raises(DirectoryInUseError, match="already open in this process") as caught:
        DirectoryLock(tmp_path).acquire()

    assert caught.value.facts["pid"] == os.getpid()
    first.release()


def test_release_is_idempotent_and_lets_the_next_one_in(tmp_path: Path) -> None:
    lock = DirectoryLock(tmp_path)
    lock.acquire()
    lock.release()
    lock.release()

    with DirectoryLock(tmp_path) as other:
        assert other.held
    assert not lock.held


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff\xfe"])
def test_a_holder_that_has_not_yet_written_its_name_is_unknown(tmp_path: Path, content: bytes) -> None:
    lock = DirectoryLock(tmp_path)
    lock.acquire()
    (tmp_path / "LOCK").write_bytes(content)

    with pytest.raises(DirectoryInUseError, match="pid=unknown"):
        DirectoryLock(tmp_path).acquire()

    lock.release()


def test_a_directory_that_does_not_exist_is_file_not_found(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        DirectoryLock(tmp_path / "nowhere").acquire()


FORKER = """
import os, sys
from penstock.errors import DirectoryInUseError
from penstock.runtime.directory_lock import DirectoryLock
lock = DirectoryLock(sys.argv[1])
lock.acquire()
pid = os.fork()
if pid:
    os.waitpid(pid, 0) if sys.argv[2] == "wait" else None
    os.write(1, b"child let go\\n" if sys.argv[2] == "wait" else b"parent ends\\n")
    sys.stdin.read(1)
    os._exit(0)
if sys.argv[2] == "wait":
    lock.release()
    assert not lock.held
    os._exit(0)
os.write(1, b"child runs\\n")
os.read(int(sys.argv[3]), 1)
"""


def test_a_forked_child_that_releases_leaves_the_lock_with_its_parent(tmp_path: Path) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", FORKER, str(tmp_path), "wait"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None
    assert parent.stdout.readline() == "child let go\n"

    with pytest.raises(DirectoryInUseError):
        DirectoryLock(tmp_path).acquire()

    end(parent)


def test_a_forked_child_does_not_hold_the_lock_after_its_parent(tmp_path: Path) -> None:
    child_reads, we_write = os.pipe()
    command = [sys.executable, "-c", FORKER, str(tmp_path), "outlive", str(child_reads)]
    parent = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, pass_fds=[child_reads])
    os.close(child_reads)
    assert parent.stdout is not None
    assert parent.stdin is not None
    # A child that has not run yet has let go of nothing.
    assert {parent.stdout.readline(), parent.stdout.readline()} == {"parent ends\n", "child runs\n"}
    parent.stdin.close()
    parent.wait()

    with DirectoryLock(tmp_path) as lock:
        held = lock.held
    os.close(we_write)
    parent.stdout.read()
    parent.stdout.close()

    assert held
