"""The inventory of a backup: every file with its size and checksum.

It is written last: without it there is no backup.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final

from penstock.codec.stored.framed import frame, unframe
from penstock.errors import CorruptionError

MAGIC: Final = b"PNBK"
VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class CopiedFile:
    """A file of a backup: its path in it, its size, the crc32c of its bytes."""

    path: str
    bytes: int
    crc32c: int


@dataclass(frozen=True, slots=True)
class BackupInventory:
    """What a backup holds, and when it was taken."""

    created_ms: int
    tables: int
    files: tuple[CopiedFile, ...]

    @property
    def bytes(self) -> int:
        """Return the size of all files."""
        return sum(file.bytes for file in self.files)


def encode_inventory(inventory: BackupInventory) -> bytes:
    """Return the inventory as it is stored."""
    document = {
        "created_ms": inventory.created_ms,
        "tables": inventory.tables,
        "files": [[file.path, file.bytes, file.crc32c] for file in inventory.files],
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
        files = tuple(CopiedFile(str(path), int(size), int(crc)) for path, size, crc in document["files"])
        inventory = BackupInventory(int(document["created_ms"]), int(document["tables"]), files)
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptionError("inventory does not say what an inventory says", file=name) from error
    for file in files:
        # Whoever made the backup may not choose where it is restored.
        if any(part in {"", ".", ".."} for part in file.path.split("/")) or "\x00" in file.path:
            raise CorruptionError(
                "inventory names a file outside of its backup", file=name, named=ascii(file.path)[:80]
            )
    return inventory
