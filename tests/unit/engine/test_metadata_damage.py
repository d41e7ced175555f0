"""A metadata store that lost something says so: no bit of it, and no file, goes unnoticed."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from penstock.codec.stored.framed import frame
from penstock.engine.metadata.mark import FORMAT_VERSION, MAGIC, SLOT_BYTES
from penstock.engine.metadata.sqlite_file import LOG, MARK
from penstock.engine.metadata.sqlite_store import SqliteMetadataStore
from penstock.engine.metadata.store import Delete, Entry, Put
from penstock.errors import CorruptionError, PenstockError, UnavailableError, UnsupportedError

_WRITER = """
import os, sys
from penstock.engine.metadata.store import Delete, Put
from penstock.engine.metadata.sqlite_store import SqliteMetadataStore

store = SqliteMetadataStore(sys.argv[1])
for number in range(int(sys.argv[2])):
    store.commit([Put(f"n/{number % 7}", str(number).encode() * 40), Delete(f"n/{(number + 3) % 7}")])
os._exit(0)
"""


def killed_store(path: Path, commits: int = 20) -> list[Entry]:
    """Leave a store as a kill would; return what is in it."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)}
    subprocess.run([sys.executable, "-c", _WRITER, str(path), str(commits)], env=environment, check=True)
    copy = path.parent / "copy"
    copy.mkdir()
    for file in path.parent.glob(path.name + "*"):
        shutil.copy(file, copy)
    store = SqliteMetadataStore(copy / path.name)
    found = store.list("")
    store.close()
    return found


def closed_store(path: Path) -> list[Entry]:
    store = SqliteMetadataStore(path)
    for number in range(20):
        store.commit([Put(f"n/{number % 7}", str(number).encode() * 40), Delete(f"n/{(number + 3) % 7}")])
    found = store.list("")
    store.close()
    return found


def read(path: Path) -> list[Entry]:
    store = SqliteMetadataStore(path)
    try:
        return store.list("")
    finally:
        store.close()


@pytest.mark.parametrize("left", [killed_store, closed_store])
def test_no_flipped_bit_takes_anything_away_in_silence(tmp_path: Path, left: Callable[[Path], list[Entry]]) -> None:
    path = tmp_path / "metadata.db"
    truth = left(path)
    files = {file: file.read_bytes() for file in tmp_path.glob("metadata.db*")}
    random = Random(11)
    told = 0
    for file, data in files.items():
        for _ in range(15):
            for name, whole in files.items():
                name.write_bytes(whole)
            damaged = bytearray(data)
            at, bit = random.choice([at for at, byte in enumerate(data) if byte]), random.randrange(8)
            damaged[at] ^= 1 << bit
            file.write_bytes(damaged)
            print(f"file={file.name} at={at} bit={bit}")
            try:
                assert read(path) == truth
            except PenstockError:
                told += 1
    assert told >= 3


def test_a_log_that_is_cut_anywhere_is_told_and_left_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "metadata.db"
    killed_store(path)
    log = tmp_path / f"metadata.db{LOG}"
    whole = log.read_bytes()
    for cut in [31, 32, len(whole) // 2, len(whole) - 4_000, len(whole) - 1]:
        os.truncate(log, cut)
        for _ in range(2):
            with pytest.raises(CorruptionError, match="restore"):
                SqliteMetadataStore(path)
            # Damage must not be made worse by whoever looks at it: SQLite would fold the rest into the file.
            assert log.stat().st_size == cut
        log.write_bytes(whole)
    assert read(path)


@pytest.mark.parametrize("gone", ["", LOG, MARK])
def test_a_file_that_is_missing_is_told(tmp_path: Path, gone: str) -> None:
    path = tmp_path / "metadata.db"
    killed_store(path)
    (tmp_path / f"metadata.db{gone}").unlink()

    for _ in range(2):
        with pytest.raises(CorruptionError, match="restore"):
            SqliteMetadataStore(path)


def test_a_missing_file_is_told_where_one_is_expected(tmp_path: Path) -> None:
    with pytest.raises(CorruptionError, match=r"the tables have no names.*found=tables/1 "):
        SqliteMetadataStore(tmp_path / "metadata.db", expected="tables/1")
    assert not (tmp_path / "metadata.db").exists()


def test_an_older_copy_beside_its_mark_is_told(tmp_path: Path) -> None:
    path = tmp_path / "metadata.db"
    closed_store(path)
    older = path.read_bytes()
    store = SqliteMetadataStore(path)
    store.commit([Put("later", b"1")])
    store.close()
    newer, mark = path.read_bytes(), (tmp_path / f"metadata.db{MARK}").read_bytes()

    path.write_bytes(older)
    with pytest.raises(CorruptionError, match="metadata was lost"):
        SqliteMetadataStore(path)
    path.write_bytes(newer)
    (tmp_path / f"metadata.db{MARK}").write_bytes(mark)
    store = SqliteMetadataStore(path)
    for number in range(2):
        store.commit([Put("later", str(number).encode())])
    store.close()
    (tmp_path / f"metadata.db{MARK}").write_bytes(mark)
    with pytest.raises(CorruptionError, match="not of one moment"):
        SqliteMetadataStore(path)


def test_another_stores_mark_is_told(tmp_path: Path) -> None:
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        closed_store(tmp_path / name / "metadata.db")
    shutil.copy(tmp_path / "other" / f"metadata.db{MARK}", tmp_path / "one" / f"metadata.db{MARK}")

    with pytest.raises(CorruptionError, match="not of one moment"):
        SqliteMetadataStore(tmp_path / "one" / "metadata.db")


@pytest.mark.parametrize("torn", [False, True])
def test_a_kill_between_a_commit_and_its_mark_loses_nothing(tmp_path: Path, torn: bool) -> None:
    path, mark = tmp_path / "metadata.db", tmp_path / f"metadata.db{MARK}"
    store = SqliteMetadataStore(path)
    version = store.commit([Put("a", b"1")])
    before = mark.read_bytes()
    store.commit([Put("b", b"2")])
    store.close()
    slot = (version + 1) % 2 * SLOT_BYTES
    after = bytearray(before)
    if torn:
        after[slot : slot + 20] = os.urandom(20)
    mark.write_bytes(after)

    assert [entry.key for entry in read(path)] == ["a", "b"]
    assert [entry.key for entry in read(path)] == ["a", "b"]


def test_a_disk_that_refuses_the_mark_stops_commits_until_the_store_is_opened_again(tmp_path: Path) -> None:
    path, mark = tmp_path / "metadata.db", tmp_path / f"metadata.db{MARK}"
    store = SqliteMetadataStore(path)
    store.commit([Put("a", b"1")])
    store.close()
    store = SqliteMetadataStore(path)
    mark.rename(tmp_path / "away")

    for _ in range(2):
        with pytest.raises(UnavailableError):
            store.commit([Put("b", b"2")])
    (tmp_path / "away").rename(mark)
    store.close()

    again = SqliteMetadataStore(path)
    assert again.commit([Put("c", b"3")]) > 0
    assert {entry.key for entry in again.list("")} >= {"a", "c"}
    again.close()


def test_an_entry_that_somebody_changed_beside_us_is_told(tmp_path: Path) -> None:
    path = tmp_path / "metadata.db"
    closed_store(path)
    for statement in (
        "UPDATE entry SET value = value || x'00' WHERE key = (SELECT max(key) FROM entry)",
        "UPDATE entry SET version = version + 1 WHERE key = (SELECT max(key) FROM entry)",
        "UPDATE entry SET version = -1 WHERE key = (SELECT max(key) FROM entry)",
        "UPDATE entry SET value = 'text' WHERE key = (SELECT max(key) FROM entry)",
        "DELETE FROM entry WHERE key = (SELECT max(key) FROM entry)",
        "UPDATE chain SET version = version + 1",
        "DELETE FROM chain",
        "PRAGMA user_version = 1",
        "DROP TABLE chain",
    ):
        whole = path.read_bytes()
        with sqlite3.connect(path) as connection:
            connection.execute(statement)
        connection.close()
        with pytest.raises(CorruptionError):
            SqliteMetadataStore(path)
        (tmp_path / f"metadata.db{LOG}").unlink(missing_ok=True)
        path.write_bytes(whole)
    assert read(path)


def first_format(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute(
            "CREATE TABLE entry (key TEXT PRIMARY KEY, value BLOB NOT NULL, version INTEGER NOT NULL) WITHOUT ROWID"
        )
        connection.execute("CREATE TABLE counter (version INTEGER NOT NULL)")
        connection.execute("INSERT INTO counter VALUES (9)")
        connection.execute("INSERT INTO entry VALUES ('a', x'31', 4), ('b', x'', 9)")
        connection.execute("PRAGMA application_id = 0x504E5354")
        connection.execute("PRAGMA user_version = 1")
    connection.close()


def test_a_file_of_format_1_is_brought_to_todays_and_goes_on_counting(tmp_path: Path) -> None:
    path = tmp_path / "metadata.db"
    first_format(path)

    store = SqliteMetadataStore(path)
    assert store.list("") == [Entry("a", b"1", 4), Entry("b", b"", 9)]
    assert store.commit([Put("a", b"2", 4)]) == 10
    store.close()

    assert read(path) == [Entry("a", b"2", 10), Entry("b", b"", 9)]


def test_an_upgrade_that_was_interrupted_is_done_again(tmp_path: Path) -> None:
    path = tmp_path / "metadata.db"
    first_format(path)
    before = path.read_bytes()
    read(path)
    # The mark was made, the new format not yet committed.
    path.write_bytes(before)

    assert read(path) == [Entry("a", b"1", 4), Entry("b", b"", 9)]

    store = SqliteMetadataStore(path)
    store.commit([Put("c", b"")])
    store.close()
    path.write_bytes(before)
    with pytest.raises(CorruptionError, match="older than its mark"):
        SqliteMetadataStore(path)


def test_a_mark_of_a_newer_version_is_refused_by_name(tmp_path: Path) -> None:
    path, mark = tmp_path / "metadata.db", tmp_path / f"metadata.db{MARK}"
    closed_store(path)
    mark.write_bytes(frame(MAGIC, FORMAT_VERSION + 1, bytes(24)).ljust(SLOT_BYTES, b"\x00") * 2)

    with pytest.raises(UnsupportedError, match=r"metadata\.db-mark"):
        SqliteMetadataStore(path)
