"""The mark of a metadata store: which commit was its last, kept in a file of its own.

SQLite takes a damaged frame of its log for the log's end, and a log that is missing for one that was empty. The mark
says how far the log went. Two slots are written in turn, so that a torn write leaves the other; each lies in a block
of its own, overwritten in place.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import Final

from penstock.codec.stored.framed import FRAME_BYTES, frame, unframe
from penstock.engine.metadata.chain import DIGEST_BYTES, Chain
from penstock.engine.metadata.sqlite_errors import RESTORE
from penstock.errors import CorruptionError
from penstock.runtime.disk import write_atomically
from penstock.runtime.local_disk import LocalDisk

MAGIC: Final = b"PNMK"
FORMAT_VERSION: Final = 1
SLOT_BYTES: Final = 4096
_PAYLOAD: Final = struct.Struct(f"<Q{DIGEST_BYTES}s")
_WRITTEN_BYTES: Final = FRAME_BYTES + _PAYLOAD.size


class MetadataMark:
    """The file that says which commit of a metadata store was the last. Not thread-safe."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd = -1

    @property
    def exists(self) -> bool:
        """Tell whether there is a mark."""
        return self._path.exists()

    def version(self) -> int:
        """Return the version of the commit that was marked last.

        Raises:
            CorruptionError: the mark cannot be read.
        """
        return max(slot[0] for slot in self._slots())

    def check(self, chain: Chain) -> None:
        """Compare a store with its mark: it is there, or one commit further, which no caller was told of.

        Raises:
            CorruptionError: commits are lost, or the files are not of one moment.
            UnsupportedError: a newer version wrote the mark.
        """
        marked, link = max(self._slots())
        if chain.version < marked:
            raise CorruptionError(
                f"metadata was lost; {RESTORE}",
                path=str(self._path),
                commits=chain.version,
                marked=marked,
            )
        if chain.version > marked + 1 or link != (chain.link if chain.version == marked else chain.previous):
            raise CorruptionError(
                "the metadata and its mark are not of one moment; restore all files of the directory from one copy",
                path=str(self._path),
                commits=chain.version,
                marked=marked,
            )

    def create(self, chain: Chain) -> None:
        """Write the file anew, whole, both slots alike."""
        self.close()
        slot = _encoded(chain).ljust(SLOT_BYTES, b"\x00")
        write_atomically(LocalDisk(self._path.parent), self._path.name, slot * 2)

    def move(self, chain: Chain) -> None:
        """Mark a commit, durably.

        Raises:
            OSError: as the disk gave it; which commit is marked is open.
        """
        if self._fd < 0:
            self._fd = os.open(self._path, os.O_WRONLY | os.O_CLOEXEC)
        written = os.pwrite(self._fd, _encoded(chain), chain.version % 2 * SLOT_BYTES)
        if written != _WRITTEN_BYTES:
            raise OSError(f"only {written} bytes of the mark were written")
        os.fdatasync(self._fd)

    def close(self) -> None:
        """Let go of the file; idempotent."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def _slots(self) -> list[tuple[int, bytes]]:
        """Return version and link of the slots that can be read; at least one can."""
        try:
            data = self._path.read_bytes()
        except FileNotFoundError:
            raise CorruptionError(
                "the metadata's mark is missing; restore all files of the directory from one copy", path=str(self._path)
            ) from None
        found = []
        for start in (0, SLOT_BYTES):
            try:
                _, payload = unframe(MAGIC, FORMAT_VERSION, data[start : start + _WRITTEN_BYTES], name=str(self._path))
            except CorruptionError:
                continue  # Torn when it was written, or damaged since: the other one tells.
            found.append(_PAYLOAD.unpack(payload))
        if not found:
            raise CorruptionError(
                "the metadata's mark is damaged; restore all files of the directory from one copy", path=str(self._path)
            )
        return found


def _encoded(chain: Chain) -> bytes:
    return frame(MAGIC, FORMAT_VERSION, _PAYLOAD.pack(chain.version, chain.link))
