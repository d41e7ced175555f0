"""Backups while a node works: incremental, whole or not there, and restored to what was at one moment."""

from __future__ import annotations

import errno
import logging
import shutil
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from tests.kit.watched_node import WatchedNode

import penstock
from penstock.codec.stored.backup_inventory import decode_inventory
from penstock.engine.engine import Engine
from penstock.errors import (
    CorruptionError,
    DirectoryInUseError,
    DiskFullError,
    InvalidError,
    NotFoundError,
    PermissionDeniedError,
    TimedOutError,
    UnavailableError,
)
from penstock.server.server import Listen, Server

if TYPE_CHECKING:
    from tests.scenarios.conftest import Connect

DDL = "id BIGINT, v BIGINT, note STRING, PRIMARY KEY (id)"
ROWS = 60_000
NOTE = "some text that makes a row large enough "


def fill(connection: penstock.Connection, path: str = "t", rows: int = ROWS) -> penstock.Table:
    """Write a table of some megabytes."""
    table = connection.create_table(path, DDL, buckets=2)
    table.upsert({"id": list(range(rows)), "v": [0] * rows, "note": [f"{NOTE}{n}" for n in range(rows)]})
    return table


def rows(directory: Path, path: str = "t") -> dict[int, int]:
    """Return the rows of a directory, by id."""
    with penstock.connect(directory) as connection:
        found = connection.table(path).scan(columns=["id", "v"]).to_arrow().to_pydict()
    return dict(zip(found["id"], found["v"], strict=True))


def named(backup: Path) -> set[str]:
    """Return the paths of the files that a backup names."""
    inventory = decode_inventory((backup / "inventory").read_bytes(), name="inventory")
    return {file.place for file in inventory.files}


def there(backup: Path) -> set[str]:
    """Return the paths of the files that a backup's directory has, but for inventory and lock."""
    files = {str(path.relative_to(backup)) for path in backup.rglob("*") if path.is_file()}
    return files - {"inventory", "LOCK"}


def test_the_next_backup_copies_only_what_is_new(connect: Connect, tmp_path: Path) -> None:
    connection = connect()
    table = fill(connection)
    first = connection.backup(tmp_path / "copy")
    table.upsert([{"id": n, "v": 1, "note": None} for n in range(ROWS // 100)])
    second = connection.backup(tmp_path / "copy")
    third = connection.backup(tmp_path / "copy")
    whole = connection.backup(tmp_path / "copy", incremental=False)

    assert first.files_copied == first.files
    assert first.bytes_copied == first.bytes > 2_000_000
    assert second.bytes_copied < first.bytes // 10
    assert third.bytes_copied < first.bytes // 10
    assert whole.files_copied == whole.files
    assert (second.tables, third.database) == (1, first.database)
    assert there(tmp_path / "copy") == named(tmp_path / "copy"), "files of older backups are gone"
    penstock.restore(tmp_path / "copy", tmp_path / "again")
    assert rows(tmp_path / "again") == {n: int(n < ROWS // 100) for n in range(ROWS)}


def test_an_interrupted_backup_leaves_the_one_before_and_goes_on(connect: Connect, tmp_path: Path) -> None:
    connection = connect()
    table = fill(connection)
    connection.backup(tmp_path / "copy")
    table.upsert([{"id": n, "v": 1, "note": f"{NOTE}{n}"} for n in range(ROWS)])

    def refuse(done: int, total: int) -> None:
        if done > 0.9 * total:
            raise OSError(errno.ENOSPC, "no space left")

    with pytest.raises(DiskFullError, match="it goes on where it was, and the backup before is whole"):
        connection.backup(tmp_path / "copy", progress=refuse)
    assert there(tmp_path / "copy") > named(tmp_path / "copy")
    penstock.restore(tmp_path / "copy", verify_only=True)
    penstock.restore(tmp_path / "copy", tmp_path / "before")
    second = connection.backup(tmp_path / "copy")
    penstock.restore(tmp_path / "copy", tmp_path / "after")

    assert second.bytes_copied < second.bytes // 2, "what was copied before the interruption is there"
    assert there(tmp_path / "copy") == named(tmp_path / "copy")
    assert set(rows(tmp_path / "before").values()) == {0}
    assert set(rows(tmp_path / "after").values()) == {1}


def test_what_was_damaged_in_a_backup_is_copied_again(connect: Connect, tmp_path: Path) -> None:
    connection = connect()
    fill(connection)
    connection.backup(tmp_path / "copy")
    victim = max((tmp_path / "copy" / "tables").rglob("data-*"), key=lambda path: path.stat().st_size)
    data = bytearray(victim.read_bytes())
    data[len(data) // 2] ^= 1
    victim.write_bytes(data)

    with pytest.raises(CorruptionError, match="back up again into this one"):
        penstock.restore(tmp_path / "copy", tmp_path / "again")
    assert not (tmp_path / "again").exists()
    connection.backup(tmp_path / "copy")
    penstock.restore(tmp_path / "copy", tmp_path / "again")
    assert len(rows(tmp_path / "again")) == ROWS


def test_all_tables_are_of_one_moment_while_others_write(connect: Connect, tmp_path: Path) -> None:
    connection = connect()
    tables = [connection.create_table(f"t{n}", "id BIGINT, PRIMARY KEY (id)", buckets=3) for n in range(3)]
    stop = threading.Event()
    written = 0

    def write() -> None:
        nonlocal written
        while not stop.is_set():
            for table in tables:
                table.upsert([{"id": 10 * written + part} for part in range(8)])
            written += 1

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(6):
            begun = written
            connection.backup(tmp_path / "copy")
    finally:
        stop.set()
        writer.join()
    penstock.restore(tmp_path / "copy", tmp_path / "again")

    with penstock.connect(tmp_path / "again") as again:
        counts = [again.table(f"t{n}").scan().to_arrow().num_rows for n in range(3)]
    assert all(count % 8 == 0 for count in counts), "calls are there whole"
    assert counts[0] >= counts[1] >= counts[2] >= counts[0] - 8, counts
    assert counts[2] >= 8 * begun, "what was acknowledged before the backup is in it"


def test_tables_and_partitions_may_be_dropped_meanwhile(connect: Connect, tmp_path: Path) -> None:
    connection = connect()
    fill(connection)
    days = connection.create_table("days", "day STRING, id BIGINT, PRIMARY KEY (day, id)", partitioned_by=["day"])
    days.upsert([{"day": day, "id": 1} for day in ("mon", "tue")])
    dropped = False

    def drop(done: int, total: int) -> None:
        nonlocal dropped
        if not dropped:
            dropped = True
            days.drop_partition({"day": "mon"})
            connection.drop_table("t")
            connection.create_table("t", "other STRING")

    connection.backup(tmp_path / "copy", progress=drop)
    penstock.restore(tmp_path / "copy", tmp_path / "again")

    assert len(rows(tmp_path / "again")) == ROWS
    with penstock.connect(tmp_path / "again") as again:
        assert again.table("days").list_partitions() == ["day=mon", "day=tue"]
        assert again.table("days").scan().to_arrow().num_rows == 2
    assert connection.backup(tmp_path / "copy").tables == 2


def test_history_comes_along_and_the_copy_opens_in_silence(
    connect: Connect, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    connection = connect()
    table = connection.create_table("t", DDL, buckets=2)
    log = connection.create_table("log", "n BIGINT")
    cuts = []
    for value in range(5):
        table.upsert([{"id": n, "v": value, "note": None} for n in range(50)])
        table.delete([{"id": value}])
        log.append({"n": [value]})
        cuts.append(table.cut())
    for _ in range(2):
        connection.backup(tmp_path / "copy")
    wanted = [sorted(table.scan(as_of=cut).to_arrow().to_pylist(), key=str) for cut in cuts]
    changes = sorted(str(row) for batch in table.changes() for row in batch.to_pylist())
    penstock.restore(tmp_path / "copy", tmp_path / "again")
    caplog.clear()

    for _ in range(2):
        with caplog.at_level(logging.INFO, "penstock"), penstock.connect(tmp_path / "again") as again:
            copy = again.table("t")
            assert [sorted(copy.scan(as_of=cut).to_arrow().to_pylist(), key=str) for cut in cuts] == wanted
            assert sorted(str(row) for batch in copy.changes() for row in batch.to_pylist()) == changes
            assert copy.get(id=4) is None
            assert copy.get(id=3) == {"id": 3, "v": 4, "note": None}
            assert again.table("log").scan().to_arrow()["n"].to_pylist() == [0, 1, 2, 3, 4]
    told = [record for record in caplog.records if record.levelno >= logging.INFO]
    assert [record.levelname for record in told] == ["INFO"], caplog.text
    assert "making the key index of the rows, as after a restore" in caplog.text


def test_open_epochs_are_in_the_copy_as_they_stand_and_their_owners_are_not(connect: Connect, tmp_path: Path) -> None:
    connection = connect()
    table = connection.create_table("t", "id BIGINT, n BIGINT SUM, PRIMARY KEY (id)")
    owner = table.acquire_owner("job", columns=["n"])
    owner.begin(1)
    table.upsert([{"id": 1, "n": 10}], owner=owner.token(1), attempt="1" * 32)
    table.end_attempt(owner=owner.token(1), attempt="1" * 32, rows=1)
    owner.commit(1, attempts={"1" * 32: 1})
    owner.begin(2)
    token = owner.token(2)
    table.upsert([{"id": 1, "n": 5}], owner=token, attempt="2" * 32)
    table.stage([{"id": 1, "n": 100}], owner=token, attempt="3" * 32)
    connection.backup(tmp_path / "copy")
    owner.undo()
    penstock.restore(tmp_path / "copy", tmp_path / "again")

    with penstock.connect(tmp_path / "again") as again:
        copy = again.table("t")
        assert copy.get(id=1) == {"id": 1, "n": 15}
        assert again.list_owners() == []
        with pytest.raises(InvalidError, match="of another database"):
            copy.upsert([{"id": 1, "n": 5}], owner=token, attempt="4" * 32)
        job = copy.acquire_owner("job", columns=["n"])
        assert job.begin(1) == "new"
        job.undo()
        assert copy.get(id=1) == {"id": 1, "n": 15}
    assert table.get(id=1) == {"id": 1, "n": 10}


def test_truncated_logs_are_backed_up_from_their_base(connect: Connect, tmp_path: Path) -> None:
    connection = connect()
    log = connection.create_table("log", "n BIGINT", buckets=2)
    log.append({"n": list(range(100))})
    stream = log.changes(follow=True)
    next(stream)
    log.truncate()
    log.append({"n": [1_000]})
    connection.backup(tmp_path / "copy")
    stream.close()
    penstock.restore(tmp_path / "copy", tmp_path / "again")

    with penstock.connect(tmp_path / "again") as again:
        copy = again.table("log")
        assert copy.scan().to_arrow()["n"].to_pylist() == [1_000]
        copy.append({"n": [1_001]})
        assert sorted(copy.scan().to_arrow()["n"].to_pylist()) == [1_000, 1_001]


def test_a_directory_takes_backups_of_one_database_only(connect: Connect, tmp_path: Path) -> None:
    connection, other = connect("one"), connect("two")
    fill(connection, rows=10)
    made = connection.backup(tmp_path / "copy")
    with pytest.raises(InvalidError, match="holds a backup of another database; name another directory") as refused:
        other.backup(tmp_path / "copy")
    assert refused.value.facts["found"] == made.database

    penstock.restore(tmp_path / "copy", tmp_path / "again")
    with penstock.connect(tmp_path / "again") as again, pytest.raises(InvalidError, match="of another database"):
        again.backup(tmp_path / "copy")
    assert connection.backup(tmp_path / "copy").files_copied > 0


@pytest.mark.parametrize("place", ["data", "data/copy", "data/tables/1/copy"])
def test_a_backup_goes_to_no_place_in_a_data_directory(connect: Connect, tmp_path: Path, place: str) -> None:
    connection = connect()
    fill(connection, rows=10)

    with pytest.raises(InvalidError, match="is a data directory, or inside one; name a directory outside"):
        connection.backup(tmp_path / place)
    assert connection.table("t").scan().to_arrow().num_rows == 10


def test_places_that_take_no_backup_are_refused_with_advice(connect: Connect, tmp_path: Path) -> None:
    connection = connect()
    fill(connection, rows=10)
    (tmp_path / "file").write_text("mine")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").write_text("mine")
    for target, told in (
        (tmp_path / "file", "is a file; name a directory"),
        (tmp_path / "file" / "below", "disk refused"),
        (tmp_path / "full", "not empty.*name another"),
        ("s3://bucket/copy", "a url is not supported"),
        ("", "back up to a directory"),
    ):
        with pytest.raises(penstock.PenstockError, match=told):
            connection.backup(target)
    copy = tmp_path / "copy"
    second: list[penstock.PenstockError] = []

    def again(done: int, total: int) -> None:
        if not second:
            with pytest.raises(DirectoryInUseError, match="another backup into this directory is under way") as found:
                connection.backup(copy)
            second.append(found.value)

    connection.backup(copy, progress=again)
    assert second
    assert [path.name for path in (tmp_path / "full").iterdir()] == ["mine"]


def test_restore_refuses_what_it_cannot_restore_with_advice(connect: Connect, tmp_path: Path) -> None:
    connection = connect()
    fill(connection, rows=10)
    connection.backup(tmp_path / "copy")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").write_text("mine")
    (tmp_path / "file").write_text("mine")
    (tmp_path / "odd.restoring").mkdir()
    (tmp_path / "odd.restoring" / "mine").write_text("mine")
    (tmp_path / "empty").mkdir()
    for source, target, kind, told in (
        ("copy", "full", InvalidError, "the target is not empty"),
        ("copy", "file", InvalidError, "the target is a file"),
        ("copy", "copy/inside", InvalidError, "inside the backup"),
        ("copy", "copy", InvalidError, "inside the backup"),
        ("copy", "odd", InvalidError, "a directory of other things is in the way; move it"),
        ("absent", "again", NotFoundError, "no whole backup there"),
        ("data", "again", NotFoundError, "that is a data directory, and no backup of one"),
    ):
        with pytest.raises(kind, match=told):
            penstock.restore(tmp_path / source, tmp_path / target)
    with pytest.raises(InvalidError, match="say where to restore to"):
        penstock.restore(tmp_path / "copy")
    assert (tmp_path / "odd.restoring" / "mine").read_text() == "mine"
    found = penstock.restore(tmp_path / "copy", tmp_path / "empty")
    assert (found.tables, found.directory) == (1, str(tmp_path / "empty"))
    assert len(rows(tmp_path / "empty")) == 10


def test_a_backup_of_a_principal_is_not_read_by_another(connect: Connect, tmp_path: Path) -> None:
    connection = connect()
    fill(connection, rows=10)
    node = connection._link.node
    plan = node.backup.begin("here")
    with pytest.raises(NotFoundError, match="no such file"):
        node.backup.read(plan.backup_id, "../metadata.db", 0, 1)
    with pytest.raises(InvalidError, match="no such piece"):
        node.backup.read(plan.backup_id, "description", -1, 1)
    from penstock.engine.engine import Engine

    if isinstance(node, Engine):
        ann = node.acting_as("ann").backup.begin("here")
        with pytest.raises(PermissionDeniedError):
            node.acting_as("bob").backup.read(ann.backup_id, "description", 0, 1)
    node.backup.end(plan.backup_id)
    with pytest.raises(NotFoundError, match="the backup is over"):
        node.backup.read(plan.backup_id, "description", 0, 1)
    node.backup.end(plan.backup_id)


def test_what_a_backup_holds_is_freed_when_it_ends(connect: Connect, tmp_path: Path) -> None:
    connection = connect()
    fill(connection, rows=10)
    connection.backup(tmp_path / "copy")

    assert not any((tmp_path / "data" / "backup").glob("*"))
    shutil.rmtree(tmp_path / "copy")
    assert connection.backup(tmp_path / "copy").files_copied > 0


def test_lost_replies_cost_nothing(tmp_path: Path) -> None:
    node = WatchedNode(Engine.open(tmp_path / "data"))
    with Server(node, Listen()) as server, penstock.connect(server.url) as connection:
        fill(connection)
        lost = TimedOutError("no answer came")
        for target in ("backup.begin", "backup.files", "backup.read", "backup.end"):
            node.rules.lose(target, lost)
            node.rules.refuse(target, UnavailableError("not now"))
        made = connection.backup(tmp_path / "copy")

        assert made.files_copied == made.files
        assert not any((tmp_path / "data" / "backup").glob("*")), "no backup of which the reply was lost is left"
    penstock.restore(tmp_path / "copy", tmp_path / "again")
    assert len(rows(tmp_path / "again")) == ROWS


def test_changed_columns_and_retries_of_before_are_as_in_the_origin(connect: Connect, tmp_path: Path) -> None:
    connection = connect()
    table = connection.create_table("t", "id BIGINT, n INT, gone STRING, PRIMARY KEY (id)", buckets=2)
    table.upsert([{"id": n, "n": n, "gone": "x"} for n in range(100)])
    connection.backup(tmp_path / "copy")
    table.widen_column("n", pa.int64())
    table.drop_column("gone")
    table.add_column("more", "STRING", default="m")
    table.rename_column("n", "m")
    table = connection.table("t")
    table.upsert([{"id": n, "m": 1 << 40, "more": "y"} for n in range(50)])
    connection.backup(tmp_path / "copy")
    penstock.restore(tmp_path / "copy", tmp_path / "again")

    with penstock.connect(tmp_path / "again") as again:
        copy = again.table("t")
        assert copy.info.schema == table.info.schema
        assert sorted(copy.scan().to_arrow().to_pylist(), key=str) == sorted(
            table.scan().to_arrow().to_pylist(), key=str
        )
        assert copy.get(id=7) == {"id": 7, "m": 1 << 40, "more": "y"}
        assert copy.get(id=70) == {"id": 70, "m": 70, "more": "m"}
