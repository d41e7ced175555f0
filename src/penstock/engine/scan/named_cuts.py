"""Named cuts: the first call under a name fixes the cut, later ones get the same.

The tasks of one job run on many machines and know nothing of each other but the job's name. A named
cut gives them one snapshot of a table without a planner. It is pinned while it is in use and
for a time after that, and written down, so that a task that is tried again after a restart of the node
gets the same offsets. A restart drops the pins: until a task asks again, retention alone protects them.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from penstock.engine.metadata.store import Delete, MetadataStore, Put
from penstock.engine.table.open_table import OpenTable
from penstock.engine.table.pins import pin, unpin
from penstock.errors import InvalidError, OffsetOutOfRangeError, PartitionNotFoundError, TooManyScannersError
from penstock.model.node.calls import Cut
from penstock.model.node.share import Share
from penstock.model.place.bucket import BucketId
from penstock.runtime.clock import Clock
from penstock.tablet.view.pins import PinHolder, PinKind

PREFIX: Final = "named-cuts/"
NAME_LENGTH_MAX: Final = 400
CUTS_MAX: Final = 10_000
TTL_MS_MAX: Final = 24 * 3_600_000


@dataclass(slots=True)
class _NamedCut:
    key: str
    table: OpenTable
    offsets: Mapping[BucketId, int]
    ttl_ms: int
    used_ms: int
    written_ms: int
    principal: str

    @property
    def pin_holder(self) -> PinHolder:
        return PinHolder(PinKind.CUT, self.key)


@dataclass(frozen=True, slots=True)
class _Wanted:
    """The request of a principal: the cut of a key, to be kept for a while."""

    key: str
    table: OpenTable
    ttl_ms: int
    principal: str


class NamedCuts:
    """The named cuts of a node. Thread-safe by one lock, held while a cut is stored."""

    def __init__(self, metadata: MetadataStore, clock: Clock, most: int = CUTS_MAX) -> None:
        self._metadata = metadata
        self._clock = clock
        self._most = most
        self._lock = threading.Lock()
        self._cuts: dict[str, _NamedCut] = {}
        self._forget_expired()

    def take(self, table: OpenTable, name: str, ttl_ms: int, *, principal: str) -> Cut:
        """Return the cut of that name, the present one if there is none yet; keep it for `ttl_ms` from now.

        Raises:
            InvalidError: name or time are not what they may be.
            OffsetOutOfRangeError: the cut was fixed, but can no longer be read.
            PartitionNotFoundError: the cut was fixed, but a partition of it is gone.
            NotLeaderError: a bucket is not led here.
            TooManyScannersError: there are too many, or too many of this caller.
        """
        if not name or not name.isprintable() or len(name) > NAME_LENGTH_MAX:
            raise InvalidError(f"a cut's name has 1 to {NAME_LENGTH_MAX} printable characters", name=ascii(name)[:80])
        if not 0 < ttl_ms <= TTL_MS_MAX:
            raise InvalidError("a named cut is kept for up to a day after its last use", ttl_ms=ttl_ms)
        key = f"{PREFIX}{table.info.table_id}/{hashlib.sha256(name.encode()).hexdigest()[:32]}"
        with self._lock:
            cut = self._cuts.get(key)
            if cut is None or self._expired(cut):
                self._check_room(principal)
                made = _Wanted(key, table, ttl_ms, principal)
                cut = self._stored(made) or self._present(made)
                self._cuts[key] = cut
            else:
                # A bucket that was given up and taken up again has lost its pins.
                pin(table, cut.pin_holder, cut.offsets)
            cut.used_ms = self._clock.monotonic_ms()
            if cut.used_ms - cut.written_ms > cut.ttl_ms // 4:
                self._write(cut)
        return Cut(key, {table.name(bucket): offset for bucket, offset in cut.offsets.items()})

    def reap(self) -> int:
        """Let go of the cuts that were not used for their time; return how many."""
        with self._lock:
            return self._let_go()

    def _let_go(self) -> int:
        over = [cut for cut in self._cuts.values() if self._expired(cut)]
        for cut in over:
            self._metadata.commit([Delete(cut.key)])
            del self._cuts[cut.key]
            unpin(cut.table, cut.pin_holder, cut.offsets)
        return len(over)

    def _check_room(self, principal: str) -> None:
        share = Share(principal, self._most)
        held = Counter(cut.principal for cut in self._cuts.values())
        if share.fits(held[principal]) and len(self._cuts) < self._most:
            return
        if self._let_go():
            self._check_room(principal)
        elif not share.fits(held[principal]):
            raise share.refusal(TooManyScannersError, "the named cuts", "wait until those of ended jobs expire")
        else:
            raise TooManyScannersError("too many named cuts are kept; wait until some expire", max=self._most)

    def _present(self, wanted: _Wanted) -> _NamedCut:
        table = wanted.table
        while True:
            offsets = {bucket: view.visible for bucket, view in table.view.items()}
            cut = self._made(wanted, offsets)
            try:
                pin(table, cut.pin_holder, offsets)
            except OffsetOutOfRangeError:
                # Compaction passed between view and pin; the next view is beyond it.
                continue
            self._write(cut)
            return cut

    def _stored(self, wanted: _Wanted) -> _NamedCut | None:
        entry = self._metadata.get(wanted.key)
        if entry is None:
            return None
        facts = json.loads(entry.value)
        if facts["expires_ms"] <= self._clock.wall_ms():
            return None
        table = wanted.table
        table_id = table.info.table_id
        named = {BucketId(table_id, partition, bucket): offset for partition, bucket, offset in facts["offsets"]}
        cut = self._made(wanted, named)
        for bucket in named:
            if table.find_name(bucket) is None:
                raise PartitionNotFoundError(
                    "the cut was fixed, but a partition of it was dropped since; start the job again",
                    table=table.info.path,
                    partition_id=bucket.partition_id,
                )
        pin(table, cut.pin_holder, named)
        return cut

    def _made(self, wanted: _Wanted, offsets: Mapping[BucketId, int]) -> _NamedCut:
        now_ms = self._clock.monotonic_ms()
        return _NamedCut(
            wanted.key,
            wanted.table,
            offsets,
            wanted.ttl_ms,
            used_ms=now_ms,
            written_ms=now_ms,
            principal=wanted.principal,
        )

    def _write(self, cut: _NamedCut) -> None:
        offsets = [[bucket.partition_id, bucket.bucket, offset] for bucket, offset in cut.offsets.items()]
        # A quarter more than its time, for it is written again only when a quarter has passed.
        facts = {"offsets": offsets, "expires_ms": self._clock.wall_ms() + cut.ttl_ms + cut.ttl_ms // 4}
        self._metadata.commit([Put(cut.key, json.dumps(facts, separators=(",", ":")).encode())])
        cut.written_ms = self._clock.monotonic_ms()

    def _forget_expired(self) -> None:
        now_ms = self._clock.wall_ms()
        for entry in self._metadata.list(PREFIX):
            if json.loads(entry.value)["expires_ms"] <= now_ms:
                self._metadata.commit([Delete(entry.key)])

    def _expired(self, cut: _NamedCut) -> bool:
        return self._clock.monotonic_ms() - cut.used_ms > cut.ttl_ms
