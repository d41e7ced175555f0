"""A data directory that is moved away under a node, or in whose place another is put: no acknowledged row is lost."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.kit.faulty_node import without_patience
from tests.kit.node_house import NodeHouse

from penstock import errors

DDL = "id BIGINT, v BIGINT, PRIMARY KEY (id)"
SETTINGS = {"log.segment-bytes": "4KB"}


@pytest.fixture(params=["embedded", "served"])
def house(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[NodeHouse]:
    with NodeHouse(tmp_path / "data", served=request.param == "served", settings=SETTINGS) as house:
        without_patience(house.connection)
        yield house


def test_moved_directory_takes_no_writes_is_not_made_again_and_has_every_acknowledged_row(
    house: NodeHouse, tmp_path: Path
) -> None:
    table = house.connection.create_table("t", DDL, buckets=2)
    for number in range(20):
        table.upsert({"id": number, "v": number})
    (tmp_path / "data").rename(tmp_path / "elsewhere")

    for number in range(20, 60):
        with pytest.raises(errors.UnavailableError, match=r"not where it was opened.*restart on it directory="):
            table.upsert({"id": number, "v": number})
    with pytest.raises(errors.UnavailableError, match="not where it was opened"):
        house.engine._maintain()
    house.close()

    assert not (tmp_path / "data").exists()
    with NodeHouse(tmp_path / "elsewhere") as found:
        assert sorted(row["id"] for row in found.connection.table("t").scan().to_arrow().to_pylist()) == list(range(20))


def test_directory_that_is_put_back_takes_writes_again(house: NodeHouse, tmp_path: Path) -> None:
    table = house.connection.create_table("t", DDL)
    (tmp_path / "data").rename(tmp_path / "elsewhere")
    with pytest.raises(errors.UnavailableError):
        table.upsert({"id": 1, "v": 1})

    (tmp_path / "elsewhere").rename(tmp_path / "data")
    table.upsert({"id": 1, "v": 2})

    house.restart()
    assert house.connection.table("t").get(id=1) == {"id": 1, "v": 2}


def test_directory_that_another_takes_the_place_of_is_left_alone(house: NodeHouse, tmp_path: Path) -> None:
    table = house.connection.create_table("t", DDL)
    for number in range(40):
        table.upsert({"id": number, "v": 1})
    shutil.copytree(tmp_path / "data", tmp_path / "copy")
    (tmp_path / "data").rename(tmp_path / "elsewhere")
    (tmp_path / "copy").rename(tmp_path / "data")
    before = sorted(str(path) for path in (tmp_path / "data").rglob("*"))

    with pytest.raises(errors.UnavailableError, match="not where it was opened"):
        table.upsert({"id": 99, "v": 2})
    with pytest.raises(OSError, match="not where it was opened"):
        house.engine.maintenance.compact_now(house.open_table(table.info.table_id))

    assert sorted(str(path) for path in (tmp_path / "data" / "tables").rglob("*")) == [
        path for path in before if path.startswith(str(tmp_path / "data" / "tables") + "/")
    ]
