"""What earlier versions stored is opened by this one, and nothing of it is missing or other than it was."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any

import pytest
from tests.fixtures.stored_directory import SETTINGS, read, resumed

import penstock

STORED = Path(__file__).parents[1] / "fixtures" / "stored"
VERSIONS = sorted(path.name for path in STORED.iterdir())
pytestmark = pytest.mark.parametrize("version", VERSIONS)


def unpacked(version: str, how: str, target: Path) -> dict[str, Any]:
    with tarfile.open(STORED / version / f"{how}.tar.xz") as tar:
        tar.extractall(target, filter="data")
    truth: dict[str, Any] = json.loads((target / "truth.json").read_text())
    return truth


@pytest.mark.parametrize("how", ["closed", "killed"])
def test_a_stored_directory_is_read_whole_and_again_after_a_restart(version: str, how: str, tmp_path: Path) -> None:
    truth = unpacked(version, how, tmp_path)
    for _ in range(2):
        with penstock.connect(tmp_path / "data", settings=SETTINGS) as connection:
            assert read(connection) == truth["read"]
            assert resumed(connection, truth["kept"]) == truth["resumed"]


@pytest.mark.parametrize("how", ["closed", "killed"])
def test_owners_of_a_stored_directory_go_on(version: str, how: str, tmp_path: Path) -> None:
    unpacked(version, how, tmp_path)
    with penstock.serve(tmp_path / "data", settings=SETTINGS) as server, penstock.connect(server.url) as connection:
        table = connection.table("shop.sums")
        done = table.acquire_owner("done", columns=["a"], incarnation="run-1")
        assert done.begin(3) == "committed"
        assert done.begin(4) == "new"
        table.upsert([{"id": 0, "a": 1}], columns=["a"], owner=done)
        done.commit(4)
        working = table.acquire_owner("working", columns=["b"])
        # The open epoch is undone first: 80 and 81 go, the staged row never appears.
        assert working.begin(8) == "new"
        rows = {row["id"]: (row["a"], row["b"]) for row in table.scan().to_arrow().to_pylist()}
        assert rows == {0: (31, None), 1: (30, 70), 2: (30, None), 8: (5, None)}


@pytest.mark.parametrize("how", ["closed", "killed"])
def test_what_is_made_in_a_stored_directory_has_ids_of_its_own(version: str, how: str, tmp_path: Path) -> None:
    truth = unpacked(version, how, tmp_path)
    with penstock.connect(tmp_path / "data", settings=SETTINGS) as connection:
        table = connection.create_table("shop.born", "id BIGINT, PRIMARY KEY (id)")
        assert table.info.table_id > max(found["id"] for found in truth["read"]["tables"].values())
        assert table.scan().to_arrow().num_rows == 0
        connection.drop_table("shop.born")
        assert read(connection) == truth["read"]


def test_a_stored_backup_is_restored(version: str, tmp_path: Path) -> None:
    truth = unpacked(version, "backup", tmp_path)
    penstock.restore(tmp_path / "backup", tmp_path / "restored")
    with penstock.connect(tmp_path / "restored", settings=SETTINGS) as connection:
        found = read(connection)
    kept = ("id", "columns", "key", "merge_engine", "buckets", "properties", "partitions", "rows")
    for path, table in truth["read"]["tables"].items():
        assert {name: found["tables"][path][name] for name in kept} == {name: table[name] for name in kept}
    assert found["databases"] == truth["read"]["databases"]
