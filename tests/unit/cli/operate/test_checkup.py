"""What the doctor finds."""

from __future__ import annotations

import socket
import stat
from pathlib import Path

import pytest

from penstock.cli.operate.checkup import (
    Grade,
    check_clock,
    check_directory,
    check_port,
    check_space,
    check_sync,
    examine,
)
from penstock.cli.operate.java import find_java
from penstock.runtime.directory_lock import DirectoryLock


def fake_java(directory: Path, version: str) -> Path:
    """Make a `java` that tells a version as real ones do."""
    java = directory / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2026-01-01' >&2\n")
    java.chmod(java.stat().st_mode | stat.S_IXUSR)
    return java


def test_every_check_that_is_not_ok_says_what_to_do(tmp_path: Path) -> None:
    found = list(examine(tmp_path, ports=(1, 2)))

    assert {"python", "pyarrow", "java", "disk space", "disk sync", "port 1", "clock", "data"} <= {
        f.check for f in found
    }
    assert [f.check for f in found if f.grade is not Grade.OK and not f.advice] == []


def test_taken_port_is_a_warning() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]

        assert check_port(port).grade is Grade.WARN

    assert check_port(port).grade is Grade.OK


def test_disk_and_clock_of_a_directory_are_fine(tmp_path: Path) -> None:
    assert "free at" in check_space(tmp_path).found
    assert "fsync" in check_sync(tmp_path).found
    assert check_clock(tmp_path).grade is Grade.OK
    assert list(tmp_path.iterdir()) == []


def test_directory_is_looked_at_without_being_changed(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").touch()
    (tmp_path / "empty").mkdir()

    assert check_directory(tmp_path / "absent").grade is Grade.OK
    assert check_directory(tmp_path / "empty").grade is Grade.OK
    assert check_directory(tmp_path / "other").grade is Grade.WARN
    assert check_directory(tmp_path / "other" / "file").grade is Grade.FAIL
    assert list((tmp_path / "empty").iterdir()) == []


def test_directory_in_use_names_the_process(tmp_path: Path) -> None:
    with DirectoryLock(tmp_path):
        held = check_directory(tmp_path)
    free = check_directory(tmp_path)

    assert (held.grade, free.grade) == (Grade.WARN, Grade.OK)
    assert "process" in held.found


def test_java_home_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java = fake_java(tmp_path, "21.0.2")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))

    assert find_java() == (java, "21.0.2")


def test_old_java_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_java(tmp_path / "old", "1.8.0_392")
    newer = fake_java(tmp_path / "new", "17.0.1")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "old"))
    monkeypatch.setenv("PATH", str(newer.parent))

    assert find_java() == (newer, "17.0.1")
