"""An embedded database as a good citizen: its directory, its threads, its end."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import penstock
from penstock.errors import ClosedError, DirectoryInUseError, InvalidError

DDL = "id BIGINT, v STRING, PRIMARY KEY (id)"


def run(script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", script, *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_a_directory_is_created_kept_and_found_again(tmp_path: Path) -> None:
    directory = tmp_path / "deep" / "data"
    with penstock.connect(directory) as connection:
        table = connection.create_table("orders", DDL, buckets=2)
        table.upsert([{"id": n, "v": str(n)} for n in range(1_000)])
        table.delete([0])
        cut = table.cut()
        scan = table.scan()
        first = next(scan)
        token = scan.resume_token
        position = table.changes().position

    with penstock.connect(str(directory)) as connection:
        table = connection.table("orders")
        assert table.cut() == cut
        assert table.scan().to_arrow().num_rows == 999
        assert first.num_rows + connection.resume_scan(token).to_arrow().num_rows == 999
        assert sum(batch.num_rows for batch in table.changes(start=position)) == 1_001


def test_a_directory_has_one_holder_who_is_named(tmp_path: Path) -> None:
    script = "import penstock, sys; penstock.connect(sys.argv[1])"
    with penstock.connect(tmp_path / "data"):
        with pytest.raises(DirectoryInUseError, match=str(os.getpid())):
            penstock.connect(tmp_path / "data")
        other = run(script, str(tmp_path / "data"))
        assert "DirectoryInUseError" in other.stderr
        assert str(os.getpid()) in other.stderr

    assert run(script, str(tmp_path / "data")).returncode == 0
    assert issubclass(DirectoryInUseError, ClosedError)


def test_settings_are_named_and_checked(tmp_path: Path) -> None:
    with pytest.raises(InvalidError, match=r"no such setting; .* setting=log\.fzync"):
        penstock.connect(tmp_path / "data", settings={"log.fzync": "never"})
    with pytest.raises(InvalidError, match=r"one of always, interval, never setting=log\.fsync"):
        penstock.connect(tmp_path / "data", settings={"log.fsync": "sometimes"})
    with penstock.connect(tmp_path / "data", settings={"log.fsync": "never"}) as connection:
        connection.create_table("t", DDL).upsert([{"id": 1, "v": "x"}])


def test_a_process_that_forgets_to_close_ends_and_loses_nothing(tmp_path: Path) -> None:
    script = f"""
import penstock, sys
connection = penstock.connect(sys.argv[1])
table = connection.create_table("t", "{DDL}")
table.upsert([{{"id": n, "v": "x"}} for n in range(100)])
scan = table.scan()
next(scan)
stream = table.changes(follow=True)
next(stream)
writer = table.writer()
print("done")
"""
    done = run(script, str(tmp_path / "data"))

    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")
    with penstock.connect(tmp_path / "data") as connection:
        assert connection.table("t").scan().to_arrow().num_rows == 100


def test_a_process_that_dies_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    script = f"""
import os, penstock, sys
table = penstock.connect(sys.argv[1]).create_table("t", "{DDL}", buckets=3)
for turn in range(20):
    table.upsert([{{"id": n, "v": str(turn)}} for n in range(50)])
os._exit(9)
"""
    assert run(script, str(tmp_path / "data")).returncode == 9

    with penstock.connect(tmp_path / "data") as connection:
        rows = connection.table("t").scan().to_arrow()
        assert rows.num_rows == 50
        assert set(rows["v"].to_pylist()) == {"19"}
        assert sum(connection.table("t").cut().values()) == 1_000


def test_a_forked_child_is_told_and_the_parent_goes_on(tmp_path: Path) -> None:
    script = f"""
import os, penstock, sys
connection = penstock.connect(sys.argv[1])
table = connection.create_table("t", "{DDL}")
child = os.fork()
if child == 0:
    try:
        table.upsert([{{"id": 1, "v": "child"}}])
    except penstock.errors.ClosedError as error:
        print(error, flush=True)
    connection.close()
    # RocksDB's own threads are gone here, and its end at a normal exit would wait for them.
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
table.upsert([{{"id": 1, "v": "parent"}}])
print(table.get(id=1))
"""
    done = run(script, str(tmp_path / "data"))

    assert done.stderr == ""
    told, row = done.stdout.splitlines()
    assert told.startswith("an open data directory does not survive a fork; start the process by spawn instead")
    assert row == "{'id': 1, 'v': 'parent'}"


def test_no_thread_outlives_its_connection(tmp_path: Path) -> None:
    before = set(threading.enumerate())
    with penstock.connect(tmp_path / "data") as connection:
        table = connection.create_table("t", DDL)
        with table.writer() as writer:
            writer.upsert({"id": 1, "v": "x"})
        assert table.scan().to_arrow().num_rows == 1
        assert all(thread.daemon for thread in set(threading.enumerate()) - before)

    for thread in set(threading.enumerate()) - before:
        thread.join(10)
        assert not thread.is_alive(), thread.name
