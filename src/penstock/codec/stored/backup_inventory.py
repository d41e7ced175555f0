"""The inventory of a backup: every file with its size and checksum, and the database that it is of.

It is put in place last: what it does not name is no part of the backup. A file has two paths: where it is in the
backup, and where it is in a directory that is restored. Files of the database, which never change, lie at the same
path in both, and the next backup goes on with them. What belongs to one backup alone lies below `generations/`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final

from penstock.codec.stored.framed import frame, unframe
from penstock.errors import CorruptionError

MAGIC: Final = b"PNBK"
VERSION: Final = 2

INVENTORY: Final = "inventory"
PROGRESS: Final = "progress"
"""The journal of a backup under way: the files that are in the directory already."""
GENERATIONS: Final = "generations"
DESCRIPTION: Final = "description"
"""The file of a backup with the catalog and the manifests of all buckets."""
LOCK: Final = "LOCK"


@dataclass(frozen=True, slots=True)
class CopiedFile:
    """A file of a backup: where it is restored to, its size, the crc32c of its bytes, where it is stored.

    `fingerprint` tells files of the database apart without reading them whole; empty for a file of one backup alone.
    """

    path: str
    bytes: int
    crc32c: int
    stored: str = ""
    fingerprint: str = ""

    @property
    def place(self) -> str:
        """Return the path of the file in the backup."""
        return self.stored or self.path


@dataclass(frozen=True, slots=True)
class BackupInventory:
    """What a backup holds, when it was taken, and of which database.

    Of version 1 neither database nor generation are known: the files are all at their restored paths.
    """

    created_ms: int
    tables: int
    files: tuple[CopiedFile, ...]
    database: str = ""
    generation: int = 0

    @property
    def bytes(self) -> int:
        """Return the size of all files."""
        return sum(file.bytes for file in self.files)


def generation_path(generation: int, path: str) -> str:
    """Return where a file is stored that belongs to one backup alone."""
    return f"{GENERATIONS}/{generation:06d}/{path}"


def encode_inventory(inventory: BackupInventory) -> bytes:
    """Return the inventory as it is stored."""
    document = {
        "created_ms": inventory.created_ms,
        "tables": inventory.tables,
        "database": inventory.database,
        "generation": inventory.generation,
        "files": [file_row(file) for file in inventory.files],
    }
    return frame(MAGIC, VERSION, json.dumps(document, separators=(",", ":")).encode())


def decode_inventory(data: bytes, *, name: str) -> BackupInventory:
    """Return the inventory stored in `data`.

    Raises:
        CorruptionError: the bytes are damaged.
        UnsupportedError: a newer version wrote them.
    """
    _, payload = unframe(MAGIC, VERSION, data, name=name)
    try:
        document = json.loads(payload)
        files = tuple(read_file_row(row) for row in document["files"])
        inventory = BackupInventory(
            int(document["created_ms"]),
            int(document["tables"]),
            files,
            str(document.get("database", "")),
            int(document.get("generation", 0)),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptionError("inventory does not say what an inventory says", file=name) from error
    for path in (path for file in files for path in (file.path, file.place)):
        # The maker of the backup may not choose where it is restored.
        if any(part in {"", ".", ".."} for part in path.split("/")) or "\x00" in path:
            raise CorruptionError("inventory names a file outside of its backup", file=name, named=ascii(path)[:80])
    return inventory


def file_row(file: CopiedFile) -> list[Any]:
    """Return a file as JSON values."""
    return [file.path, file.bytes, file.crc32c, file.stored, file.fingerprint]


def read_file_row(row: Any) -> CopiedFile:
    """Return the file that JSON values describe.

    Raises:
        ValueError, TypeError: they describe none.
    """
    path, size, crc, *rest = row
    stored, fingerprint = rest or ("", "")
    return CopiedFile(str(path), int(size), int(crc), str(stored), str(fingerprint))
