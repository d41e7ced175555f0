from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.engine.metadata.sqlite_file import FORMAT_VERSION
from penstock.engine.metadata.sqlite_store import SqliteMetadataStore
from penstock.engine.metadata.store import Put
from penstock.errors import CorruptionError, DirectoryInUseError, UnavailableError, UnsupportedError

_WRITER = """
import sys
from penstock.engine.metadata.store import Put
from penstock.engine.metadata.sqlite_store import SqliteMetadataStore

store = SqliteMetadataStore(sys.argv[1])
number = 0
while True:
    number += 1
    value = str(number).encode()
    store.commit([Put("left", value), Put("right", value), Put(f"n/{number % 50}", value * 500)])
    sys.stdout.write(f"{number}\\n")
    sys.stdout.flush()
"""


def test_what_was_committed_is_there_after_reopening(tmp_path: Path) -> None:
    path = tmp_path / "metadata.sqlite"
    store = SqliteMetadataStore(path)
    version = store.commit([Put("a", b"1")])
    store.close()

    again = SqliteMetadataStore(path)

    assert again.get("a") == ("a", b"1", version)
    assert again.commit([Put("b", b"")]) > version
    again.close()


@pytest.mark.parametrize("acknowledged", [1, 7, 60])
def test_a_killed_writer_loses_nothing_it_had_acknowledged_and_splits_no_commit(
    tmp_path: Path, acknowledged: int
) -> None:
    path = tmp_path / "metadata.sqlite"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)}
    with subprocess.Popen(
        [sys.executable, "-c", _WRITER, str(path)], stdout=subprocess.PIPE, text=True, env=environment
    ) as child:
        assert child.stdout is not None
        last = 0
        while last < acknowledged:
            last = int(child.stdout.readline())
        child.send_signal(signal.SIGKILL)

    store = SqliteMetadataStore(path)

    left, right = store.get("left"), store.get("right")
    assert left is not None
    assert right is not None
    assert int(left.value) >= acknowledged
    assert left.value == right.value
    assert left.version == right.version
    store.close()


def test_a_newer_format_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "metadata.sqlite"
    SqliteMetadataStore(path).close()
    with sqlite3.connect(path) as connection:
        connection.execute(f"PRAGMA user_version = {FORMAT_VERSION + 1}")
    connection.close()

    with pytest.raises(UnsupportedError, match="a newer version of penstock wrote this directory"):
        SqliteMetadataStore(path)


def test_a_file_of_somebody_else_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "metadata.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE t (x)")
    connection.close()

    with pytest.raises(CorruptionError, match="no metadata file of ours"):
        SqliteMetadataStore(path)


def test_damage_is_told_as_corruption(tmp_path: Path) -> None:
    path = tmp_path / "metadata.sqlite"
    path.write_bytes(b"no database at all" * 100)

    with pytest.raises(CorruptionError, match="restore"):
        SqliteMetadataStore(path)


def test_a_second_opening_is_refused_while_the_first_holds_it(tmp_path: Path) -> None:
    store = SqliteMetadataStore(tmp_path / "metadata.sqlite")

    with pytest.raises(DirectoryInUseError, match="another process holds"):
        SqliteMetadataStore(tmp_path / "metadata.sqlite")
    store.commit([Put("a", b"1")])
    store.close()


def test_a_place_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(UnavailableError, match="nowhere"):
        SqliteMetadataStore(tmp_path / "nowhere" / "metadata.sqlite")
