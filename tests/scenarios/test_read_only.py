"""A directory opened to read only, beside the process that writes it: as it was at the opening, and no byte changed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import penstock
from penstock.engine.engine import Engine
from penstock.engine.read_only.node import ReadOnlyNode
from penstock.errors import (
    CorruptionError,
    DirectoryInUseError,
    InvalidError,
    NotFoundError,
    UnavailableError,
    UnsupportedError,
)

DDL = "id BIGINT, v BIGINT, note STRING, PRIMARY KEY (id)"


def state(directory: Path) -> dict[str, tuple[int, int, bytes]]:
    """Return everything in a directory: sizes, times and bytes."""
    return {
        str(path.relative_to(directory)): (path.stat().st_size, path.stat().st_mtime_ns, path.read_bytes())
        for path in directory.rglob("*")
        if path.is_file()
    }


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[penstock.Connection]:
    """Return a connection that holds a directory with tables of every kind."""
    with penstock.connect(tmp_path / "data") as connection:
        table = connection.create_table("t", DDL, buckets=3)
        for value in range(4):
            table.upsert([{"id": n, "v": value, "note": f"n{n}"} for n in range(200)])
        table.delete([{"id": n} for n in range(20)])
        table.create_snapshot()
        days = connection.create_table("days", "day STRING, id BIGINT, PRIMARY KEY (day, id)", partitioned_by=["day"])
        days.upsert([{"day": day, "id": n} for day in ("mon", "tue", "wed") for n in range(5)])
        days.drop_partition({"day": "tue"})
        log = connection.create_table("log", "n BIGINT", buckets=2)
        log.append({"n": list(range(50))})
        sums = connection.create_table("sums", "k STRING, n BIGINT SUM, PRIMARY KEY (k)")
        sums.upsert([{"k": "a", "n": 1}, {"k": "a", "n": 2}])
        yield connection


def seen(connection: penstock.Connection) -> dict[str, object]:
    """Return what a connection shows."""
    found: dict[str, object] = {}
    for name in connection.list_tables("default"):
        table = connection.table(name)
        found[name] = (
            sorted(table.scan().to_arrow().to_pylist(), key=str),
            sorted((row for batch in table.changes() for row in batch.to_pylist()), key=str),
            dict(table.cut()),
            table.list_partitions() if table.info.partitioned else None,
            [(s.id, s.bucket, s.offset, s.leased_by) for s in table.list_snapshots()] if table.info.primary_key else [],
        )
    table = connection.table("t")
    found["lookup"] = table.lookup({"id": [5, 30, 199, 1_000]}, columns=["id", "v"]).to_pylist()
    found["get"] = table.get(id=77)
    found["days"] = connection.table("days").prefix_lookup(day="wed").to_pylist()
    found["as of"] = sorted(str(row) for row in table.scan(as_of=table.cut()).to_arrow().to_pylist())
    return found


def test_a_held_directory_is_read_as_it_is_and_not_changed(writer: penstock.Connection, tmp_path: Path) -> None:
    with pytest.raises(DirectoryInUseError, match="read_only=True reads what is durable beside it"):
        penstock.connect(tmp_path / "data")
    wanted = seen(writer)
    before = state(tmp_path / "data")
    with penstock.connect(tmp_path / "data", read_only=True) as reader:
        assert seen(reader) == wanted
        stats = reader.table("t").stats()
        assert (stats.live_rows, len(stats.buckets)) == (180, 3)
        assert state(tmp_path / "data") == before

        writer.table("t").upsert([{"id": 77, "v": 9, "note": "new"}])
        assert seen(reader) == wanted, "what is written later is not seen"
        with penstock.connect(tmp_path / "data", read_only=True) as again:
            assert again.table("t").get(id=77) == {"id": 77, "v": 9, "note": "new"}
            assert reader.table("t").get(id=77) != again.table("t").get(id=77)


def test_a_closed_or_killed_directory_is_read_without_rights_to_write(tmp_path: Path) -> None:
    script = """
import os, sys, penstock
connection = penstock.connect(sys.argv[1])
table = connection.create_table("t", "id BIGINT, v BIGINT, PRIMARY KEY (id)", buckets=3)
for value in range(10):
    table.upsert([{"id": n, "v": value} for n in range(50)])
os._exit(9)
"""
    subprocess.run([sys.executable, "-c", script, str(tmp_path / "data")], check=False)
    for path in [tmp_path / "data", *(tmp_path / "data").rglob("*")]:
        path.chmod(0o500 if path.is_dir() else 0o400)
    before = state(tmp_path / "data")
    try:
        for _ in range(2):
            with penstock.connect(tmp_path / "data", read_only=True) as reader:
                table = reader.table("t")
                assert sorted(table.scan().to_arrow()["v"].to_pylist()) == [9] * 50
                assert table.get(id=49) == {"id": 49, "v": 9}
        assert state(tmp_path / "data") == before
    finally:
        for path in [tmp_path / "data", *(tmp_path / "data").rglob("*")]:
            path.chmod(0o700)
    with penstock.connect(tmp_path / "data") as writer:
        assert writer.table("t").get(id=49) == {"id": 49, "v": 9}


def test_whatever_changes_something_is_refused(writer: penstock.Connection, tmp_path: Path) -> None:
    lease = writer.acquire_lease("job", writer.table("t").latest_snapshots)
    with penstock.connect(tmp_path / "data", read_only=True) as reader:
        table, log = reader.table("t"), reader.table("log")
        row = {"id": 1, "v": 1, "note": None}
        for change in (
            lambda: table.upsert([row]),
            lambda: table.delete([{"id": 1}]),
            lambda: table.delete_where("id = 1"),
            table.truncate,
            lambda: log.append({"n": [1]}),
            log.truncate,
            lambda: table.add_column("more", "STRING"),
            table.create_snapshot,
            lambda: table.acquire_owner("job"),
            lambda: reader.table("days").create_partition({"day": "fri"}),
            lambda: reader.table("days").drop_partition({"day": "mon"}),
            lambda: reader.create_database("more"),
            lambda: reader.drop_database("default"),
            lambda: reader.create_table("more", DDL),
            lambda: reader.drop_table("t"),
            lambda: reader.acquire_lease("mine", table.cut()),
            lambda: reader.acquire_lease("mine", table.latest_snapshots),
            lambda: reader.lease("job"),
            reader.list_owners,
            lambda: reader.drop_owner("job", "t"),
            lambda: reader.backup(tmp_path / "copy"),
        ):
            with pytest.raises(UnsupportedError, match="the connection is read only"):
                change()
        with pytest.raises(UnsupportedError, match="the connection is read only"), table.writer() as batches:
            batches.upsert([row])
    lease.drop()


def test_files_that_went_since_are_told(tmp_path: Path) -> None:
    engine = Engine.open(tmp_path / "data")
    with penstock.Connection(engine, "data") as writer:
        rows = list(range(30_000))
        table = writer.create_table("t", DDL, properties={"log.retention": "1ms"})
        for value in range(3):
            table.upsert({"id": rows, "v": [value] * len(rows), "note": ["x" * 20] * len(rows)})
            for tablet in engine._tables.get(table.info.table_id).committer.tablets.values():
                engine.maintenance.seal_now(engine._tables.get(table.info.table_id), tablet)
        with penstock.connect(tmp_path / "data", read_only=True) as reader:
            shown = reader.table("t")
            node = reader._link.node
            assert isinstance(node, ReadOnlyNode)
            engine.maintenance.run()
            engine.maintenance.compact_now(engine._tables.get(table.info.table_id), everything=True)
            writer.drop_table("t")
            assert not (tmp_path / "data" / "tables" / str(table.info.table_id)).exists()
            # Files that are open stay readable; those that had to be closed are gone.
            node._storage._pool.close()
            for read in (lambda: shown.scan().to_arrow(), lambda: shown.get(id=1), lambda: list(shown.changes())):
                with pytest.raises(UnavailableError, match="open the directory again"):
                    read()
        with penstock.connect(tmp_path / "data", read_only=True) as again, pytest.raises(NotFoundError):
            again.table("t")


def test_what_is_no_data_directory_is_refused_and_not_made(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("")
    for place, kind, told in (
        ("absent", NotFoundError, "no data directory there"),
        ("empty", NotFoundError, "no data directory there"),
        ("file", InvalidError, "is a file"),
    ):
        with pytest.raises(kind, match=told):
            penstock.connect(tmp_path / place, read_only=True)
    with pytest.raises(InvalidError, match="read_only goes with a directory"):
        penstock.connect("penstock://127.0.0.1:9", read_only=True)
    assert not (tmp_path / "absent").exists()
    assert not any((tmp_path / "empty").iterdir())


def test_damage_is_told_as_damage(tmp_path: Path) -> None:
    with penstock.connect(tmp_path / "data") as writer:
        writer.create_table("t", DDL).upsert([{"id": n, "v": 1, "note": "x"} for n in range(1000)])
    (segment,) = (tmp_path / "data").rglob("segment-*")
    data = bytearray(segment.read_bytes())
    data[len(data) // 2] ^= 1
    segment.write_bytes(data)
    with pytest.raises(CorruptionError, match="restore"):
        penstock.connect(tmp_path / "data", read_only=True)
    os.unlink(tmp_path / "data" / "metadata.db")
    with pytest.raises(NotFoundError, match="no data directory"):
        penstock.connect(tmp_path / "data", read_only=True)


def test_a_table_too_large_for_the_memory_of_lookups_is_read_through(tmp_path: Path) -> None:
    with penstock.connect(tmp_path / "data") as writer:
        table = writer.create_table("t", DDL, buckets=2)
        table.upsert([{"id": n, "v": n, "note": None} for n in range(5000)])
        table.delete([{"id": 17}])
        for settings in ({}, {"kv.index.front-bytes": "1KB"}):
            with penstock.connect(tmp_path / "data", read_only=True, settings=settings) as reader:
                found = reader.table("t").lookup({"id": [3, 17, 4999, 3, 9999]}, columns=["v"]).to_pydict()
                assert found["_found"] == [True, False, True, True, False]
                assert found["v"] == [3, None, 4999, 3, None]


def run(*words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    """Run the command line; return what it wrote."""
    command = [sys.executable, "-c", "from penstock.cli.main import main; main()", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == code, done.stderr
    return done


def test_read_commands_say_and_take_the_flag(writer: penstock.Connection, tmp_path: Path) -> None:
    data = str(tmp_path / "data")
    refused = run("scan", "t", "--url", data, code=5).stderr
    assert (
        "if that is a server, connect to it with --url, or read what is durable beside it with --read-only" in refused
    )
    assert "read_only" not in refused
    assert "--read-only" not in run("table", "drop", "t", "--yes", "--url", data, code=5).stderr
    for words, told in (
        (("scan", "t", "--limit", "1", "-o", "ndjson"), '"v":3'),
        (("lookup", "t", "id=30", "-o", "ndjson"), '"v":3'),
        (("tail", "log", "-o", "ndjson"), '"n":49'),
        (("table", "describe", "t", "-o", "json"), "live"),
        (("table", "list", "-o", "json"), '"default.t"'),
        (("snapshot", "list", "t", "-o", "json"), '"offset":'),
        (("sql", "SELECT count(*) AS n FROM t", "-o", "json"), "180"),
    ):
        assert told in run(*words, "--read-only", "--url", data).stdout, words
    assert (
        "--read-only goes with a data directory"
        in run("scan", "t", "--read-only", "--url", "penstock://127.0.0.1:1", code=2).stderr
    )


def test_backup_and_restore_on_the_command_line(writer: penstock.Connection, tmp_path: Path) -> None:
    copy, again = str(tmp_path / "copy"), str(tmp_path / "again")
    assert "connect to it with --url" in run("backup", copy, "--url", str(tmp_path / "data"), code=5).stderr
    writer.close()
    made = json.loads(run("backup", copy, "--url", str(tmp_path / "data"), "-o", "json").stdout)
    (made,) = made if isinstance(made, list) else [made]
    assert (made["tables"], made["files_copied"]) == (4, made["files"])
    with penstock.serve(tmp_path / "data") as server:
        said = run("backup", copy, "--url", server.url)
        assert (said.stdout, "4 tables" in said.stderr) == ("", True)
    assert "whole: 4 tables" in run("backup", copy, "--check").stderr
    assert "whole: 4 tables" in run("restore", copy, "--verify-only").stderr
    assert "name the new data directory" in run("restore", copy, code=2).stderr
    assert "the first start makes its key index" in run("restore", copy, again).stderr
    assert "the target is not empty" in run("restore", copy, again, code=2).stderr
    found = run("doctor", "--data", again, "-o", "ndjson", "--url", again)
    assert [row["grade"] for row in map(json.loads, found.stdout.splitlines()) if row["check"] == "data"] == ["ok"]
    opened = run("table", "list", "--url", again, "-o", "json")
    assert "default.t" in opened.stdout
    assert opened.stderr == "", "the first opening says nothing that alarms"
