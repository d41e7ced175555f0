"""Backups: what is in them, what a restored directory holds, and that nothing damaged is restored."""

from __future__ import annotations

import threading
from datetime import datetime
from pathlib import Path

import pytest

import penstock
from penstock.codec.stored.backup_inventory import INVENTORY, LOCK
from penstock.engine.backup.restore import check_backup, restore
from penstock.errors import CorruptionError, InvalidError, NotFoundError

KEYED = "id BIGINT, v BIGINT, PRIMARY KEY (id)"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Return a directory with tables of every kind and some history."""
    with penstock.connect(tmp_path / "data") as connection:
        connection.create_database("shop")
        orders = connection.create_table("shop.orders", KEYED, buckets=3)
        for value in range(5):
            orders.upsert([{"id": i, "v": value} for i in range(100)])
        orders.delete([{"id": i} for i in range(10)])
        orders = orders.add_column("note", "STRING")
        orders.upsert([{"id": 50, "v": 7, "note": "new"}])
        days = connection.create_table(
            "shop.days", "day STRING, id BIGINT, PRIMARY KEY (day, id)", partitioned_by=["day"]
        )
        days.upsert([{"day": day, "id": 1} for day in ("mon", "tue", "wed")])
        days.drop_partition({"day": "tue"})
        days.upsert([{"day": "tue", "id": 2}])
        days.create_partition({"day": "thu"})
        log = connection.create_table("shop.log", "a BIGINT")
        for value in range(3):
            log.append({"a": [value] * 4})
        connection.create_table("shop.empty", KEYED)
        connection.drop_table("shop.empty")
        connection.create_table("shop.empty", KEYED)
    return tmp_path / "data"


@pytest.fixture
def backup(data: Path, tmp_path: Path) -> Path:
    with penstock.connect(data) as connection:
        connection.backup(tmp_path / "backup")
    return tmp_path / "backup"


def contents(directory: Path) -> dict[str, object]:
    with penstock.connect(directory) as connection:
        found: dict[str, object] = {}
        for name in connection.list_tables("shop"):
            table = connection.table(f"shop.{name}")
            rows = table.scan().to_arrow().to_pylist()
            found[name] = (sorted(rows, key=str), table.cut(), table.info)
        log = connection.table("shop.log")
        changes = [row for batch in log.changes() for row in batch.to_pylist()]
        found["changes"] = [(row["_offset"], row["a"], row["_timestamp"]) for row in changes]
        return found


def test_restored_directory_holds_what_was_backed_up(data: Path, backup: Path, tmp_path: Path) -> None:
    restore(backup, tmp_path / "again")
    inventory = check_backup(backup)

    assert contents(tmp_path / "again") == contents(data)
    assert inventory.tables == 4
    files = [path for path in backup.rglob("*") if path.is_file() and path.name not in {INVENTORY, LOCK}]
    assert inventory.bytes == sum(path.stat().st_size for path in files)
    assert not (tmp_path / "again.restoring").exists()


def test_restored_tables_take_writes_and_give_changes_from_the_cut_on(backup: Path, tmp_path: Path) -> None:
    restore(backup, tmp_path / "again")
    for _ in range(2):
        with penstock.connect(tmp_path / "again") as connection:
            table = connection.table("shop.orders")
            cut = table.cut()
            table.upsert([{"id": 20, "v": 1000, "note": None}])
            table.delete([{"id": 21}])
            changes = [row for batch in table.changes(start=cut) for row in batch.to_pylist()]
            assert table.get(id=20) == {"id": 20, "v": 1000, "note": None}
            assert [row["_change_type"] for row in changes if row["id"] == 20] == ["-U", "+U"]
            assert table.get(id=21) is None
            table.upsert([{"id": 21, "v": 4, "note": None}])
            assert table.scan().to_arrow().num_rows == 90


def test_partitions_of_a_restored_table_go_on_in_their_lives(data: Path, backup: Path, tmp_path: Path) -> None:
    restore(backup, tmp_path / "restored")
    with penstock.connect(data) as connection:
        cut = connection.table("shop.days").cut()

    with penstock.connect(tmp_path / "restored") as connection:
        days = connection.table("shop.days")
        days.upsert([{"day": day, "id": 3} for day in ("tue", "thu")])
        days.drop_partition({"day": "mon"})
        days.upsert([{"day": "mon", "id": 4}])
        changes = [row for batch in days.changes(start=cut) for row in batch.to_pylist()]

    assert {(row["day"], row["id"]) for row in changes} == {("mon", 4), ("tue", 3), ("thu", 3)}


def test_backup_is_one_cut_of_each_table_while_others_write(data: Path, tmp_path: Path) -> None:
    connection = penstock.connect(data)
    table = connection.table("shop.orders")
    stop = threading.Event()

    def write() -> None:
        value = 100
        while not stop.is_set():
            table.upsert([{"id": i, "v": value, "note": None} for i in range(200)])
            value += 1

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for number in range(3):
            connection.backup(tmp_path / f"backup-{number}")
    finally:
        stop.set()
        writer.join()
    pins = {name for bucket in table.stats().buckets for name in bucket.pins}
    connection.close()

    assert not any(name.startswith(("acquiring", "cut")) for name in pins)
    restore(tmp_path / "backup-2", tmp_path / "again")
    with penstock.connect(tmp_path / "again") as restored:
        values = set(restored.table("shop.orders").scan().to_arrow()["v"].to_pylist())
    assert len(values) == 1, "a write is in a backup whole or not at all"


def test_no_byte_of_a_backup_can_change_unnoticed(backup: Path, tmp_path: Path) -> None:
    for path in sorted(path for path in backup.rglob("*") if path.is_file() and path.name != LOCK):
        good = path.read_bytes()
        middle = len(good) // 2
        flipped = good[:middle] + bytes([good[middle] ^ 1]) + good[middle + 1 :]
        for damaged in (good[:-1], good + b"x", flipped):
            path.write_bytes(damaged)
            with pytest.raises(CorruptionError):
                restore(backup, tmp_path / "again")
        path.unlink()
        with pytest.raises((CorruptionError, NotFoundError)):
            restore(backup, tmp_path / "again")
        path.write_bytes(good)
    assert not (tmp_path / "again").exists()


def test_neither_backup_nor_restore_touches_a_directory_with_something_in_it(
    data: Path, backup: Path, tmp_path: Path
) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").write_text("mine")
    with penstock.connect(data) as connection, pytest.raises(InvalidError, match="not empty"):
        connection.backup(tmp_path / "full")
    with pytest.raises(InvalidError, match="not empty"):
        restore(backup, tmp_path / "full")
    assert [path.name for path in (tmp_path / "full").iterdir()] == ["mine"]


def test_interrupted_backup_is_none(backup: Path, tmp_path: Path) -> None:
    (backup / INVENTORY).unlink()

    with pytest.raises(NotFoundError, match="it has no inventory"):
        restore(backup, tmp_path / "again")


def test_interrupted_restore_is_begun_anew(backup: Path, data: Path, tmp_path: Path) -> None:
    (tmp_path / "again.restoring" / "tables").mkdir(parents=True)
    (tmp_path / "again.restoring" / "RESTORING").touch()
    (tmp_path / "again.restoring" / "metadata.db").write_text("half")

    restore(backup, tmp_path / "again")

    assert contents(tmp_path / "again") == contents(data)


def test_inventory_says_when_the_backup_was_taken(backup: Path) -> None:
    taken = datetime.fromtimestamp(check_backup(backup).created_ms / 1000)

    assert abs((datetime.now() - taken).total_seconds()) < 600
