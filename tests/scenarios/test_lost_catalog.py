"""A directory whose catalog is missing or older than its tables is not opened: nothing appears under another's name."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import penstock
from penstock.errors import CorruptionError

DDL = "id BIGINT, PRIMARY KEY (id)"


def table_with(connection: penstock.Connection, name: str, *ids: int) -> penstock.Table:
    table = connection.create_table(name, DDL)
    table.upsert([{"id": number} for number in ids])
    return table


def catalog_files(directory: Path) -> list[Path]:
    return sorted(directory.glob("metadata.db*"))


def test_a_missing_catalog_is_told_with_what_is_there_every_time(tmp_path: Path) -> None:
    with penstock.connect(tmp_path) as connection:
        table_with(connection, "first", 1)
        table_with(connection, "second", 2)
    for file in catalog_files(tmp_path):
        file.unlink()

    for _ in range(2):
        with pytest.raises(CorruptionError, match=r"restore metadata\.db.*penstock restore.*found=tables/\{1,2\}"):
            penstock.connect(tmp_path)
    assert not catalog_files(tmp_path)


@pytest.mark.parametrize("gone", ["tables", "index"])
def test_a_catalog_older_than_its_tables_is_told_by_files_and_by_index(tmp_path: Path, gone: str) -> None:
    data, older = tmp_path / "data", tmp_path / "older"
    with penstock.connect(data) as connection:
        table_with(connection, "first", 1)
    older.mkdir()
    for file in catalog_files(data):
        shutil.copy(file, older)
    with penstock.connect(data) as connection:
        table_with(connection, "second", 2)
    # All files of the catalog are of one moment, which is not the tables'.
    for file in catalog_files(older):
        shutil.copy(file, data)
    lost = data / "tables" / "2" if gone == "tables" else data / "index"
    shutil.rmtree(lost)

    for _ in range(2):
        with pytest.raises(CorruptionError, match=r"the catalog does not know.*found=tables/2"):
            penstock.connect(data)


def test_a_partition_that_the_catalog_never_gave_is_told(tmp_path: Path) -> None:
    data, older = tmp_path / "data", tmp_path / "older"
    older.mkdir()
    with penstock.connect(data) as connection:
        table = connection.create_table("days", "d STRING, id BIGINT, PRIMARY KEY (d, id)", partitioned_by=["d"])
        table.upsert([{"d": "mon", "id": 1}])
    for file in catalog_files(data):
        shutil.copy(file, older)
    with penstock.connect(data) as connection:
        connection.table("days").upsert([{"d": "tue", "id": 1}])
    for file in catalog_files(older):
        shutil.copy(file, data)

    with pytest.raises(CorruptionError, match=r"found=tables/1/2$"):
        penstock.connect(data)


def test_what_a_drop_left_behind_is_removed(tmp_path: Path) -> None:
    with penstock.connect(tmp_path) as connection:
        table_with(connection, "first", 1)
        days = connection.create_table("days", "d STRING, id BIGINT, PRIMARY KEY (d, id)", partitioned_by=["d"])
        days.upsert([{"d": "mon", "id": 1}, {"d": "tue", "id": 1}])
        table_with(connection, "last", 3)
    for kept in ("1", "2/1"):
        shutil.copytree(tmp_path / "tables" / kept, tmp_path / "kept" / kept)
    with penstock.connect(tmp_path) as connection:
        connection.drop_table("first")
        connection.table("days").drop_partition({"d": "mon"})
    for kept in ("1", "2/1"):
        shutil.copytree(tmp_path / "kept" / kept, tmp_path / "tables" / kept)

    with penstock.connect(tmp_path) as connection:
        assert not (tmp_path / "tables" / "1").exists()
        assert not (tmp_path / "tables" / "2" / "1").exists()
        assert connection.table("days").scan().to_arrow().to_pylist() == [{"d": "tue", "id": 1}]
        assert connection.table("last").get(id=3) == {"id": 3}


def test_an_id_whose_directory_is_there_is_not_given(tmp_path: Path) -> None:
    with penstock.connect(tmp_path) as connection:
        table_with(connection, "first", 1)
        (tmp_path / "tables" / "2").mkdir()

        with pytest.raises(CorruptionError, match=r"directory=tables/2"):
            connection.create_table("second", DDL)


def test_a_directory_that_failed_to_open_is_free_for_the_next_who_tries(tmp_path: Path) -> None:
    with penstock.connect(tmp_path) as connection:
        table_with(connection, "first", 1)
    catalog = tmp_path / "metadata.db"
    whole = catalog.read_bytes()
    catalog.write_bytes(b"\x00" * len(whole))

    for _ in range(2):
        with pytest.raises(CorruptionError):
            penstock.connect(tmp_path)
    catalog.write_bytes(whole)
    with penstock.connect(tmp_path) as connection:
        assert connection.table("first").get(id=1) == {"id": 1}
