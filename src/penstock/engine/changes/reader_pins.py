"""Pins of log readers: what a reader stands at stays readable for one TTL after each pull."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from penstock.engine.settings import Settings
from penstock.engine.table.open_table import OpenTable
from penstock.engine.table.pins import pin, unpin
from penstock.errors import OverloadedError
from penstock.model.node.share import Share
from penstock.model.place.bucket import BucketId
from penstock.runtime.clock import Clock
from penstock.tablet.view.pins import PinHolder, PinKind

READERS_MAX: Final = 10_000


@dataclass(slots=True)
class _Reader:
    table: OpenTable
    buckets: frozenset[BucketId]
    used_ms: int
    births: int | None
    principal: str


class ReaderPins:
    """The pins of all log readers of a node, by table and reader. Thread-safe by one lock."""

    def __init__(self, settings: Settings, clock: Clock, most: int = READERS_MAX) -> None:
        self._most = most
        self._ttl_ms = settings.scanner_ttl_ms
        self._clock = clock
        self._lock = threading.Lock()
        self._readers: dict[tuple[int, str], _Reader] = {}
        self._callers: Counter[str] = Counter()

    def stand(
        self,
        table: OpenTable,
        reader_id: str,
        offsets: Mapping[BucketId, int],
        births: int | None = None,
        *,
        principal: str,
    ) -> None:
        """Pin where a reader stands, and no other bucket.

        One who follows also awaits the partitions from the id `births` on. Who stands nowhere and awaits none is gone.

        Raises:
            OffsetOutOfRangeError: a position is below the base; names the bucket.
            NotLeaderError: a bucket is not open here.
            OverloadedError: there are too many readers, or too many of this caller.
        """
        share = Share(principal, self._most)
        holder = PinHolder(PinKind.READER, reader_id)
        key = (table.info.table_id, reader_id)
        with self._lock:
            known = self._readers.get(key)
            if known is None and not share.fits(self._callers[principal]):
                raise share.refusal(OverloadedError, "the readers that pin the log", "close some change streams")
            if known is None and len(self._readers) >= self._most:
                raise OverloadedError("too many readers pin the log; try again later", max=self._most)
            pin(table, holder, offsets)
            if known is not None:
                unpin(known.table, holder, known.buckets - offsets.keys())
                del self._readers[key]
                self._callers[known.principal] -= 1
            if offsets or births is not None:
                self._readers[key] = _Reader(table, frozenset(offsets), self._clock.monotonic_ms(), births, principal)
                self._callers[principal] += 1

    def awaits(self, table_id: int, partition_id: int) -> bool:
        """Tell whether a reader follows a table who has not heard of a partition yet."""
        with self._lock:
            return any(
                of == table_id and reader.births is not None and reader.births <= partition_id
                for (of, _), reader in self._readers.items()
            )

    def reap(self) -> int:
        """Unpin for readers that have not pulled for a TTL; return how many."""
        now_ms = self._clock.monotonic_ms()
        with self._lock:
            gone = [key for key, reader in self._readers.items() if now_ms - reader.used_ms > self._ttl_ms]
            for key in gone:
                reader = self._readers.pop(key)
                self._callers[reader.principal] -= 1
                unpin(reader.table, PinHolder(PinKind.READER, key[1]), reader.buckets)
        return len(gone)
