"""What is stored is for the user alone who runs the node; and nobody else chooses where a backup is restored."""

from __future__ import annotations

import logging
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

import penstock
from penstock.codec.stored.backup_inventory import BackupInventory, CopiedFile, decode_inventory, encode_inventory
from penstock.engine.backup.restore import restore
from penstock.errors import CorruptionError, InvalidError
from penstock.server.access.tokens import Tokens

_RESTORE = """
import sys
from pathlib import Path
from penstock.engine.backup.restore import restore
from penstock.errors import PenstockError

try:
    restore(Path(sys.argv[1]), Path(sys.argv[2]))
except PenstockError as error:
    print(type(error).__name__)
"""


def open_to_others(root: Path) -> list[str]:
    """Return what others may read: the index's files are RocksDB's own, in a directory that is closed."""
    return [
        str(path.relative_to(root))
        for path in (root, *root.rglob("*"))
        if path.parent.name != "index" and stat.S_IMODE(path.stat().st_mode) & 0o077
    ]


def test_a_directory_its_backup_and_what_is_restored_of_it_are_closed_to_others(tmp_path: Path) -> None:
    with penstock.connect(tmp_path / "data") as connection:
        table = connection.create_table("t", "id BIGINT, n BIGINT SUM, PRIMARY KEY (id)")
        table.upsert([{"id": 1, "n": 1}])
        table.create_snapshot()
        owner = table.acquire_owner("job", columns=["n"])
        owner.begin(1)
        table.stage([{"id": 1, "n": 2}], owner=owner.token(1), attempt="1" * 32, columns=["n"])
        connection.backup(tmp_path / "backup")
        assert open_to_others(tmp_path / "data") == []
    restore(tmp_path / "backup", tmp_path / "again")

    assert open_to_others(tmp_path / "data") == []
    assert open_to_others(tmp_path / "backup") == []
    assert open_to_others(tmp_path / "again") == []


def test_a_directory_that_others_may_read_is_warned_about(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    penstock.connect(tmp_path / "data").close()
    for path in (tmp_path / "data", tmp_path / "data" / "metadata.db"):
        path.chmod(0o755)

    with caplog.at_level(logging.WARNING, "penstock"):
        penstock.connect(tmp_path / "data").close()
    assert "chmod -R go=" in caplog.text


@pytest.mark.parametrize("mode", [0o620, 0o602])
def test_a_token_file_that_others_may_write_is_refused(tmp_path: Path, mode: int) -> None:
    file = tmp_path / "tokens"
    file.write_text(f"ann:{'0' * 64}\n")
    file.chmod(0o644)
    Tokens.load(file)

    file.chmod(mode)
    with pytest.raises(InvalidError, match="chmod go-w"):
        Tokens.load(file)


@pytest.mark.parametrize("named", ["../escaped", "/escaped", "tables/../../escaped", "tables//x", "."])
def test_a_backup_that_names_a_file_outside_is_refused(named: str) -> None:
    data = encode_inventory(BackupInventory(0, 1, (CopiedFile(named, 0, 0),)))

    with pytest.raises(CorruptionError, match="outside of its backup"):
        decode_inventory(data, name="inventory")


def test_a_prepared_backup_writes_nothing_outside_also_without_asserts(tmp_path: Path) -> None:
    backup = tmp_path / "backup"
    backup.mkdir()
    (tmp_path / "escaped").write_bytes(b"")
    inventory = BackupInventory(0, 0, (CopiedFile("../escaped", 0, 0),))
    (backup / "inventory").write_bytes(encode_inventory(inventory))
    (tmp_path / "home").mkdir()
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)}

    told = subprocess.run(
        [sys.executable, "-O", "-c", _RESTORE, str(backup), str(tmp_path / "home" / "data")],
        env=environment,
        check=True,
        capture_output=True,
        text=True,
    )

    assert told.stdout.strip() == "CorruptionError"
    assert not (tmp_path / "home" / "escaped").exists()
