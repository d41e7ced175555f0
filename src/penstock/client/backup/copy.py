"""Back up a node into a directory: fetch what the directory has not, then put the inventory in place.

A call that got no answer is made again. A server that was restarted has forgotten the backup: another is begun, of a
later moment, and goes on with the files that are there.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from penstock.client.backup.directory import CHUNK_BYTES, BackupDirectory, refusals
from penstock.client.link.link import Link
from penstock.codec.stored.backup_inventory import BackupInventory, CopiedFile
from penstock.errors import NotFoundError, PenstockError, UnavailableError
from penstock.model.node.backup import BackupFile, BackupPlan, BackupResult

T = TypeVar("T")
BEGUN_MAX: Final = 10
"""How often a backup is begun again because its server was restarted."""
TOUCH_SECONDS: Final = 30.0
"""How often the node is told that a backup goes on while files are compared here."""
Progress = Callable[[int, int], None]
"""Told how many bytes of how many are in place."""


def back_up(link: Link, target: Path, *, incremental: bool, progress: Progress) -> BackupResult:
    """Back up a node into a directory; return what it holds.

    Raises:
        PenstockError: as `Connection.backup` has it.
    """
    with BackupDirectory(target) as directory:
        with refusals(directory.path):
            directory.begin(link.database)
        for begun in range(BEGUN_MAX):
            plan = link.once(lambda node: node.backup.begin(directory.target_id))
            try:
                return _Copy(link, plan, directory, progress).run(incremental=incremental)
            except NotFoundError as error:
                if "backup_id" not in error.facts or begun == BEGUN_MAX - 1:
                    raise
            finally:
                with suppress(PenstockError):
                    link.node.backup.end(plan.backup_id)
    raise AssertionError("the last try returns or raises")


class _Copy:
    """One backup on its way into a directory."""

    def __init__(self, link: Link, plan: BackupPlan, directory: BackupDirectory, progress: Progress) -> None:
        self._link = link
        self._plan = plan
        self._directory = directory
        self._progress = progress
        self._done = 0
        self._touched = time.monotonic()

    def run(self, *, incremental: bool) -> BackupResult:
        """Fetch what is missing, then put the inventory in place."""
        directory, plan = self._directory, self._plan
        with refusals(directory.path):
            self._progress(0, plan.bytes)
            files: list[CopiedFile] = []
            copied_bytes = copied = 0
            for file in self._files():
                known = directory.known(file) if incremental else None
                if known is None:
                    known = directory.write(file, self._pieces(file))
                    copied, copied_bytes = copied + 1, copied_bytes + file.bytes
                else:
                    self._advance(file.bytes)
                self._touch(file)
                files.append(known)
            inventory = BackupInventory(
                plan.created_ms, plan.tables, tuple(files), plan.database, directory.next_generation
            )
            directory.publish(inventory)
        return BackupResult(
            directory=str(directory.path),
            database=plan.database,
            created_at=datetime.fromtimestamp(plan.created_ms / 1000, UTC),
            tables=plan.tables,
            files=len(files),
            bytes=inventory.bytes,
            files_copied=copied,
            bytes_copied=copied_bytes,
        )

    def _files(self) -> Iterator[BackupFile]:
        start = 0
        while found := self._ask(partial(self._link.node.backup.files, self._plan.backup_id, start)):
            start += len(found)
            yield from found

    def _pieces(self, file: BackupFile) -> Iterator[bytes]:
        """Yield the bytes of a file; the next piece is fetched while one is written."""
        starts = range(0, file.bytes, CHUNK_BYTES)
        with ThreadPoolExecutor(1, thread_name_prefix="penstock-backup") as ahead:
            coming = [ahead.submit(self._piece, file, start) for start in starts[:1]]
            for after in [*starts[1:], None]:
                if not coming:
                    return
                piece = coming.pop().result()
                if after is not None:
                    coming.append(ahead.submit(self._piece, file, after))
                yield piece
                self._advance(len(piece))

    def _piece(self, file: BackupFile, start: int) -> bytes:
        length = min(CHUNK_BYTES, file.bytes - start)
        piece = self._ask(partial(self._link.node.backup.read, self._plan.backup_id, file.path, start, length))
        if len(piece) != length:
            raise UnavailableError(
                "the node sent less of a file than it has; back up again", file=file.path, bytes=len(piece)
            )
        return piece

    def _touch(self, file: BackupFile) -> None:
        if time.monotonic() - self._touched > TOUCH_SECONDS:
            self._ask(partial(self._link.node.backup.read, self._plan.backup_id, file.path, 0, 0))

    def _ask(self, call: Callable[[], T]) -> T:
        answer = self._link.reading_retry.run(call)
        self._touched = time.monotonic()
        return answer

    def _advance(self, size: int) -> None:
        self._done += size
        self._progress(self._done, self._plan.bytes)
