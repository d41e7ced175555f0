"""RocksDB's directory after a loss of power that its own files did not survive: the answers are exact all the same.

The index is killed with its process, at moments at which runs of keys were taken in as files of their own. Then files
of it are gone, cut short, zeroed, or what they were earlier: any few of them, tables, manifest and CURRENT alike.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pytest

import penstock
from penstock.errors import CorruptionError

KEYS = 30_000
PAGES = (512, 4_096)
NOT_STATE = {"LOCK", "LOG"}

Rows = dict[int, int]


class Deaths:
    """A table written for a while, and copies of its directory as a kill would have left it, each with its rows."""

    def __init__(self, directory: Path) -> None:
        self.found: list[tuple[Path, Rows]] = []
        self._home = directory / "home"
        self._rows: Rows = {}
        with penstock.connect(self._home) as connection:
            self._table = connection.create_table("t", "k BIGINT, v BIGINT, PRIMARY KEY (k)")
            self._write(range(KEYS), 1)
            self._die()
            self._checkpoint()
            self._write(range(10_000, 10_000 + KEYS), 2)
            self._checkpoint()
            self._write(range(100, 200), 3)
            self._die()
            self._delete(range(0, 5_000, 3))
            self._write(range(KEYS // 2, KEYS // 2 + 25_000), 4)
            self._checkpoint()
            self._write(range(50), 5)
            self._die()

    def _write(self, keys: range, value: int) -> None:
        self._table.upsert(rows_of(keys, value))
        self._rows |= dict.fromkeys(keys, value)

    def _delete(self, keys: range) -> None:
        self._table.delete(pa.table({"k": list(keys)}))
        self._rows = {key: value for key, value in self._rows.items() if key not in set(keys)}

    def _checkpoint(self) -> None:
        """Have the keys written below; there are so many that they become files that are taken in."""
        self._table.create_snapshot()

    def _die(self) -> None:
        copied = self._home.parent / f"death-{len(self.found)}"
        shutil.copytree(self._home, copied)
        self.found.append((copied, dict(self._rows)))


def rows_of(keys: range | list[int], value: int) -> pa.RecordBatch:
    return pa.record_batch({"k": np.array(keys, np.int64), "v": np.full(len(keys), value)})


@pytest.fixture(scope="module")
def deaths(tmp_path_factory: pytest.TempPathFactory) -> Deaths:
    return Deaths(tmp_path_factory.mktemp("deaths"))


def hurt(index: Path, older: Path, random: Random) -> None:
    """Damage some files of an index; `older` has them as they were."""
    files = [path for path in sorted(index.iterdir()) if path.is_file() and path.name not in NOT_STATE]
    for path in random.sample(files, random.randint(1, 3)):
        size = path.stat().st_size
        damage = random.choice(["gone", "cut", "zeroed", "page", "older"])
        print(f"file={path.name} damage={damage}")
        if damage == "cut":
            os.truncate(path, random.randint(0, size))
        elif damage == "zeroed":
            path.write_bytes(bytes(size))
        elif damage == "page" and size:
            page = random.choice(PAGES)
            at = random.randrange(size) // page * page
            data = bytearray(path.read_bytes())
            data[at : at + page] = bytes(len(data[at : at + page]))
            path.write_bytes(data)
        elif damage == "older" and (older / path.name).exists():
            shutil.copy(older / path.name, path)
        else:
            path.unlink()


def look_up(table: penstock.Table) -> Rows:
    found = table.lookup(pa.table({"k": list(range(-10, 2 * KEYS))}))
    return {row["k"]: row["v"] for row in found.to_pylist() if row["v"] is not None}


def scan(table: penstock.Table) -> Rows:
    found = table.scan().to_arrow()
    rows = dict(zip(found.column("k").to_pylist(), found.column("v").to_pylist(), strict=True))
    assert len(rows) == found.num_rows
    return rows


def use(directory: Path, rows: Rows, keys: list[int]) -> None:
    """Read and write everywhere, and compare."""
    with penstock.connect(directory) as connection:
        table = connection.table("t")
        assert look_up(table) == rows
        table.upsert(rows_of(keys, 9))
        rows = rows | dict.fromkeys(keys, 9)
        assert scan(table) == rows
        table.create_snapshot()
    with penstock.connect(directory) as connection:
        table = connection.table("t")
        assert look_up(table) == scan(table) == rows


def check(deaths: Deaths, seed: int, directory: Path) -> None:
    print(f"seed={seed}")
    random = Random(seed)
    death = random.randrange(1, len(deaths.found))
    killed, rows = deaths.found[death]
    shutil.copytree(killed, directory)
    hurt(directory / "index", deaths.found[random.randrange(death)][0] / "index", random)
    keys = random.sample(range(2 * KEYS), KEYS)
    try:
        use(directory, rows, keys)
    except CorruptionError:
        # Damage inside a table file is met when it is read. It was said, and the next process does without the file.
        with penstock.connect(directory) as connection:
            found = scan(connection.table("t"))
        assert found in (rows, rows | dict.fromkeys(keys, 9))
        use(directory, found, keys)
    finally:
        shutil.rmtree(directory)


@pytest.mark.parametrize("shard", range(2))
def test_index_whose_files_a_power_loss_took_is_recovered_or_made_anew(
    deaths: Deaths, shard: int, tmp_path: Path
) -> None:
    for seed in range(shard, 16, 2):
        check(deaths, seed, tmp_path / "data")


@pytest.mark.slow
@pytest.mark.parametrize("shard", range(4))
def test_index_damaged_in_many_ways_is_recovered_or_made_anew(deaths: Deaths, shard: int, tmp_path: Path) -> None:
    for seed in range(100 + shard, 300 + shard, 4):
        check(deaths, seed, tmp_path / "data")


def test_damage_met_while_the_index_is_in_use_is_said_and_gone_after_the_next_opening(
    deaths: Deaths, tmp_path: Path
) -> None:
    killed, rows = deaths.found[-1]
    directory = tmp_path / "data"
    shutil.copytree(killed, directory)
    taken_in = [path for path in (directory / "index").glob("*.sst") if path.stat().st_size > KEYS]
    assert taken_in
    for path in taken_in:
        # Not at the beginning, which is looked at when the directory is opened.
        stored = path.read_bytes()
        middle = len(stored) // 2
        path.write_bytes(stored[:middle] + bytes(200) + stored[middle + 200 :])

    with penstock.connect(directory) as connection, pytest.raises(CorruptionError, match="to have it rebuilt"):
        look_up(connection.table("t"))

    use(directory, rows, list(range(KEYS)))
