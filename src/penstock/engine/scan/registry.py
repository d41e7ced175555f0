"""The registry of scan sessions: found again, limited, expired, closed.

- A slot is taken before a scan is opened and given back when its session goes. A caller with a name has a
  share of the slots, of each bucket and in all.
- A session is let in only under the generation that its bucket had when the slot was taken. Giving a bucket
  up changes the generation first, so a scan that was being opened meanwhile leaves nothing behind.
- Idle longer than the TTL is expired, seen on access as well as by the reaper. A call under way keeps
  its session, and the time counts from its end.
- A drained session takes no slot and no pin. It is remembered for a TTL, among a limited number, so that
  a last page whose reply was lost can be had again.
"""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager

from penstock.engine.scan.session import ScanSession, unknown
from penstock.engine.settings import Settings
from penstock.engine.table.pins import not_led, unpin
from penstock.errors import PermissionDeniedError, TooManyScannersError, UnavailableError
from penstock.model.node.calls import ScannerInfo
from penstock.model.node.share import Share
from penstock.model.place.bucket import BucketId
from penstock.runtime.clock import Clock
from penstock.runtime.metrics import Metrics

Generation = tuple[int, int]


class ScannerRegistry:
    """The scan sessions of a node. Thread-safe by one lock; takes no session's lock while it holds its own."""

    def __init__(self, settings: Settings, clock: Clock, metrics: Metrics) -> None:
        self._settings = settings
        self._clock = clock
        self._lock = threading.Lock()
        self._sessions: dict[str, ScanSession] = {}
        self._drained: OrderedDict[str, ScanSession] = OrderedDict()
        self._slots: Counter[BucketId] = Counter()
        self._opening: set[str] = set()
        self._caller_slots: Counter[str] = Counter()
        self._caller_bucket_slots: Counter[tuple[str, BucketId]] = Counter()
        self._generations: Counter[BucketId] = Counter()
        self._node_generation = 0
        self._open = metrics.gauge("penstock_scanner_open")
        self._evicted = metrics.counter("penstock_scanner_evicted")
        self._rejected = metrics.counter("penstock_scanner_rejected")

    @contextmanager
    def opening(self, scanner_id: str) -> Iterator[None]:
        """Let one caller at a time open the session of a name.

        Raises:
            UnavailableError: the session is being opened right now.
        """
        with self._lock:
            if scanner_id in self._opening:
                raise UnavailableError("the session is being opened; ask again", scanner_id=scanner_id)
            self._opening.add(scanner_id)
        try:
            yield
        finally:
            with self._lock:
                self._opening.discard(scanner_id)

    def take_slot(self, bucket: BucketId, principal: str) -> Generation:
        """Take room for a session; return the generation that it is opened under.

        Raises:
            TooManyScannersError: the bucket or the node has no room, or none for this caller.
        """
        with self._lock:
            if not self._has_room(bucket) or self._used_up(bucket, principal) is not None:
                self._evict_expired()
            used_up = self._used_up(bucket, principal)
            if used_up is not None:
                self._rejected.inc()
                raise used_up.refusal(TooManyScannersError, "the scanners", "close one, or try again later")
            if not self._has_room(bucket):
                self._rejected.inc()
                raise TooManyScannersError(
                    "too many scanners are open; close one, or try again later",
                    on_bucket=self._slots[bucket],
                    on_bucket_max=self._settings.scanners_per_bucket_max,
                    on_server=self._slots.total(),
                    on_server_max=self._settings.scanners_per_server_max,
                )
            self._slots[bucket] += 1
            self._caller_slots[principal] += 1
            self._caller_bucket_slots[principal, bucket] += 1
            return self._node_generation, self._generations[bucket]

    def give_slot(self, bucket: BucketId, principal: str) -> None:
        """Give back room that a principal took and no session came to use."""
        with self._lock:
            self._free(bucket, principal)

    def admit(self, session: ScanSession, generation: Generation) -> None:
        """Let a session in; it keeps the slot that was taken for it, unless it is drained already.

        Raises:
            NotLeaderError: its bucket was given up meanwhile; the slot is still the caller's.
        """
        bucket = session.plan.bucket
        with self._lock:
            if (
                generation != (self._node_generation, self._generations[bucket])
                or session.table.view_of(bucket) is None
            ):
                raise not_led(session.name)
            self._sessions[session.scanner_id] = session
            self._note_used(session)

    @contextmanager
    def call(self, scanner_id: str, principal: str) -> Iterator[ScanSession]:
        """Find a session for one call of a principal; it does not expire meanwhile.

        Raises:
            UnknownOrExpiredScannerError: there is none, or not any more.
            PermissionDeniedError: it is another principal's.
        """
        with self._lock:
            session = self._sessions.get(scanner_id) or self._drained.get(scanner_id)
            if session is None:
                raise unknown(scanner_id)
            if self._has_expired(session):
                self._evict(session)
                raise unknown(scanner_id)
            _check_principal(session, principal)
            session.calls_under_way += 1
        try:
            yield session
        finally:
            with self._lock:
                session.calls_under_way -= 1

    def find(self, scanner_id: str) -> ScanSession | None:
        """Return a session that has more to give; it is not used by that."""
        return self._sessions.get(scanner_id)

    def settle(self, session: ScanSession) -> None:
        """Count a valid call; a session that gave its last page is drained.

        Raises:
            UnknownOrExpiredScannerError: the session was closed during the call.
            NotLeaderError: its bucket was given up.
        """
        with self._lock:
            if session.scanner_id not in self._sessions and session.scanner_id not in self._drained:
                raise unknown(session.scanner_id)
            if session.table.view_of(session.plan.bucket) is None:
                self._evict(session)
                raise not_led(session.name)
            self._note_used(session)

    def forsake(self, scanner_id: str) -> None:
        """End a session that gave its first page once, and nothing since."""
        with self._lock:
            session = self._sessions.get(scanner_id)
            if session is not None and session.pages <= 1 and not session.calls_under_way:
                self._remove(session)

    def close(self, scanner_id: str, principal: str) -> None:
        """End a session of a principal; idempotent.

        Raises:
            PermissionDeniedError: it is another principal's.
        """
        with self._lock:
            session = self._sessions.get(scanner_id) or self._drained.get(scanner_id)
            if session is not None:
                _check_principal(session, principal)
                self._remove(session)

    def kill(self, scanner_id: str) -> None:
        """End a session, whichever principal has it.

        Raises:
            UnknownOrExpiredScannerError: there is none.
        """
        with self._lock:
            session = self._sessions.get(scanner_id)
            if session is None:
                raise unknown(scanner_id)
            self._evict(session)

    def close_bucket(self, bucket: BucketId) -> None:
        """End the sessions of a bucket, and those being opened."""
        with self._lock:
            self._generations[bucket] += 1
            for session in [*self._sessions.values(), *self._drained.values()]:
                if session.plan.bucket == bucket:
                    self._evict(session)

    def close_all(self) -> None:
        """End all sessions, and those being opened."""
        with self._lock:
            self._node_generation += 1
            for session in [*self._sessions.values(), *self._drained.values()]:
                self._remove(session)

    def reap(self) -> int:
        """End the sessions that have expired; return how many. Idle ones let go of their rows."""
        with self._lock:
            count = self._evict_expired()
            idle = [session for session in self._sessions.values() if not session.calls_under_way]
        for session in idle:
            session.rest()
        return count

    def infos(self) -> list[ScannerInfo]:
        """Return the open sessions."""
        with self._lock:
            now_ms = self._clock.monotonic_ms()
            return [session.info(now_ms) for session in self._sessions.values() if not self._has_expired(session)]

    def _has_room(self, bucket: BucketId) -> bool:
        settings = self._settings
        return (
            self._slots[bucket] < settings.scanners_per_bucket_max
            and self._slots.total() < settings.scanners_per_server_max
        )

    def _used_up(self, bucket: BucketId, principal: str) -> Share | None:
        """Return the share that a caller has no more of; None if it may have another scanner."""
        in_bucket = Share(principal, self._settings.scanners_per_bucket_max)
        in_all = Share(principal, self._settings.scanners_per_server_max)
        if not in_all.fits(self._caller_slots[principal]):
            return in_all
        return None if in_bucket.fits(self._caller_bucket_slots[principal, bucket]) else in_bucket

    def _has_expired(self, session: ScanSession) -> bool:
        if session.calls_under_way:
            return False
        now_ms = self._clock.monotonic_ms()
        idle, alive = now_ms - session.used_ms, now_ms - session.opened_ms
        return idle > self._settings.scanner_ttl_ms or alive > self._settings.scanner_lifetime_max_ms

    def _note_used(self, session: ScanSession) -> None:
        session.used_ms = self._clock.monotonic_ms()
        if session.drained and session.scanner_id in self._sessions:
            self._remove(session)
            self._drained[session.scanner_id] = session
            while len(self._drained) > self._settings.scanners_per_server_max:
                self._drained.popitem(last=False)
        self._open.set(len(self._sessions))

    def _evict_expired(self) -> int:
        expired = [session for session in self._sessions.values() if self._has_expired(session)]
        for session in expired:
            self._evict(session)
        for session in [session for session in self._drained.values() if self._has_expired(session)]:
            self._remove(session)
        return len(expired)

    def _evict(self, session: ScanSession) -> None:
        if session.scanner_id in self._sessions:
            self._evicted.inc()
        self._remove(session)

    def _remove(self, session: ScanSession) -> None:
        self._drained.pop(session.scanner_id, None)
        if self._sessions.pop(session.scanner_id, None) is not None:
            self._free(session.plan.bucket, session.principal)
            unpin(session.table, session.pin_holder, [session.plan.bucket])
            self._open.set(len(self._sessions))

    def _free(self, bucket: BucketId, principal: str) -> None:
        self._slots[bucket] -= 1
        if not self._slots[bucket]:
            del self._slots[bucket]
        self._caller_slots[principal] -= 1
        self._caller_bucket_slots[principal, bucket] -= 1
        if not self._caller_bucket_slots[principal, bucket]:
            del self._caller_bucket_slots[principal, bucket]


def _check_principal(session: ScanSession, principal: str) -> None:
    if session.principal != principal:
        raise PermissionDeniedError(
            "the scanner belongs to another principal; open your own",
            scanner_id=session.scanner_id,
            principal=principal,
        )
