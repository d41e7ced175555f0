"""A log that is shorter than somebody was told it is, and snapshots that cannot be read, are told."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from tests.scenarios.conftest import Connect

import penstock
from penstock.codec.stored.framed import frame
from penstock.codec.stored.snapshot_file import MAGIC, VERSION
from penstock.errors import CorruptionError, UnsupportedError

SMALL = {"log.segment-bytes": 4096}


def segments(directory: Path, table_id: int = 1) -> list[Path]:
    return sorted((directory / "tables" / str(table_id)).rglob("segment-*"))


@pytest.mark.parametrize("cut", ["gone", "torn", "before the last batch"])
def test_a_log_table_that_was_closed_knows_its_length(tmp_path: Path, cut: str) -> None:
    with penstock.connect(tmp_path, settings=SMALL) as connection:
        table = connection.create_table("clicks", "n BIGINT")
        sizes = []
        for number in range(12):
            table.append([{"n": number}])
            sizes.append(len(segments(tmp_path)[-1].read_bytes().rstrip(b"\x00")))
    last = segments(tmp_path)[-1]
    if cut == "gone":
        last.unlink()
    else:
        os.truncate(last, last.stat().st_size - 1 if cut == "torn" else (sizes[-2] + 7) // 8 * 8)

    for _ in range(2):
        with penstock.connect(tmp_path, settings=SMALL) as connection, pytest.raises(CorruptionError, match="log ends"):
            connection.table("clicks").scan().to_arrow()


def test_a_log_table_that_was_only_opened_knows_its_length_too(tmp_path: Path) -> None:
    with penstock.connect(tmp_path) as connection:
        connection.create_table("clicks", "n BIGINT").append([{"n": 1}])
    shutil.rmtree(tmp_path / "index")
    with penstock.connect(tmp_path) as connection:
        assert connection.table("clicks").scan().to_arrow().num_rows == 1
    segments(tmp_path)[0].unlink()

    with penstock.connect(tmp_path) as connection, pytest.raises(CorruptionError, match="log ends"):
        connection.table("clicks").offsets()


def copied(source: Path, target: Path) -> Path:
    """Copy a directory as a kill would leave it: nobody writes to it meanwhile."""
    return Path(shutil.copytree(source, target))


def test_a_log_shorter_than_a_lease_names_is_told(tmp_path: Path) -> None:
    with penstock.connect(tmp_path / "data") as connection:
        table = connection.create_table("clicks", "n BIGINT")
        table.append([{"n": 1}])
        connection.acquire_lease("reader", table.cut())
        left = copied(tmp_path / "data", tmp_path / "left")
    segments(left)[0].unlink()

    with penstock.connect(left) as connection, pytest.raises(CorruptionError, match="log ends"):
        connection.table("clicks").scan().to_arrow()


def test_a_log_shorter_than_an_owner_committed_is_told(tmp_path: Path) -> None:
    with penstock.connect(tmp_path / "data") as connection:
        table = connection.create_table("sums", "id BIGINT, n BIGINT SUM, PRIMARY KEY (id)")
        owner = table.acquire_owner("job", columns=["n"])
        owner.begin(1)
        table.upsert([{"id": 1, "n": 10}], owner=owner)
        owner.commit(1)
        left = copied(tmp_path / "data", tmp_path / "left")
    segments(left)[0].unlink()

    with penstock.connect(left) as connection, pytest.raises(CorruptionError, match="log ends"):
        connection.table("sums").get(id=1)


def snapshot_files(directory: Path) -> list[Path]:
    return sorted((directory / "tables").rglob("snapshot-*"))


def test_a_damaged_snapshot_is_listed_so_and_not_read(connect: Connect, tmp_path: Path) -> None:
    with penstock.connect(tmp_path / "data") as first:
        table = first.create_table("t", "id BIGINT, PRIMARY KEY (id)", buckets=2)
        table.upsert([{"id": number} for number in range(10)])
        table.create_snapshot()
        offsets = {snapshot.bucket: snapshot.offset for snapshot in table.list_snapshots()}
    (file, *_) = snapshot_files(tmp_path / "data")
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)

    connection = connect()
    table = connection.table("t")
    bad, good = sorted(table.list_snapshots(), key=lambda snapshot: snapshot.damaged is None)
    assert bad.damaged is not None
    assert "checksum" in bad.damaged
    assert file.name in bad.damaged
    assert (bad.id, bad.offset) == (1, -1)
    assert good.damaged is None
    assert good.offset == offsets[good.bucket]
    with pytest.raises(CorruptionError, match=file.name):
        connection.acquire_lease("reader", {bad.bucket: 1})
    # The newest snapshots are all of one cut, and what was written since is in it.
    table.upsert([{"id": number} for number in range(10, 20)])
    assert table.scan(source="snapshot").to_arrow().num_rows == 20
    lease = connection.acquire_lease("reader", table.latest_snapshots)
    assert table.scan(source="snapshot", lease=lease).to_arrow().num_rows == 20


def test_a_snapshot_of_a_newer_version_is_refused_by_name(connect: Connect, tmp_path: Path) -> None:
    with penstock.connect(tmp_path / "data") as first:
        first.create_table("t", "id BIGINT, PRIMARY KEY (id)").upsert([{"id": 1}])
        first.table("t").create_snapshot()
    (file,) = snapshot_files(tmp_path / "data")
    file.write_bytes(frame(MAGIC, VERSION + 1, b"{}"))

    connection = connect()
    (snapshot,) = connection.table("t").list_snapshots()
    assert snapshot.damaged is not None
    assert "newer version" in snapshot.damaged
    with pytest.raises(UnsupportedError, match=file.name):
        connection.acquire_lease("reader", {snapshot.bucket: 1})


def test_a_snapshot_whose_file_is_missing_is_listed_so_and_goes_when_newer_ones_are_there(
    connect: Connect, tmp_path: Path
) -> None:
    with penstock.connect(tmp_path / "data") as first:
        table = first.create_table("t", "id BIGINT, n BIGINT, PRIMARY KEY (id)")
        for turn in range(2):
            table.upsert([{"id": number, "n": turn} for number in range(4)])
        table.create_snapshot()
    (ends,) = (tmp_path / "data" / "tables").rglob("ends-*")
    ends.unlink()

    table = connect().table("t")
    (snapshot,) = table.list_snapshots()
    assert snapshot.damaged is not None
    assert ends.name in snapshot.damaged
    for turn in range(2, 5):
        table.upsert([{"id": number, "n": turn} for number in range(4)])
        table.create_snapshot()
    assert [(found.id, found.damaged) for found in table.list_snapshots()] == [(3, None), (4, None)]
