"""Leases: acquire, renew, release, drop, expire.

Taking: pinned in memory, then durable, then answered. Giving back: durable, then unpinned, then space
is freed. So a crash at any moment loses no lease that was answered, and keeps none that was given back.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace

from penstock.codec.stored.lease_record import BUCKETS_MAX, Hold
from penstock.engine.leases.claims import Claimed, LeaseClaims
from penstock.engine.leases.store import Lease, LeaseStore
from penstock.engine.metadata.store import ABSENT
from penstock.engine.settings import Settings
from penstock.engine.table.lease_pins import LeasePins, pin, unpin
from penstock.errors import InvalidError, LeaseNotFoundError, LimitError, NotFoundError, PermissionDeniedError
from penstock.model.node.lease import AcquireLease, check_lease_id
from penstock.model.node.principal import UNNAMED, may_change
from penstock.model.node.share import Share
from penstock.model.place.bucket import BucketId
from penstock.model.words.quantity import format_duration_ms
from penstock.runtime.clock import Clock
from penstock.tablet.view.pins import PinHolder

Freed = Callable[[Collection[BucketId]], None]


class Leases:
    """The leases of a node.

    Thread-safe by one lock: held while a lease is stored, never while a committer is waited for.
    """

    def __init__(
        self,
        loaded: Iterable[Lease],
        store: LeaseStore,
        lease_pins: LeasePins,
        claims: LeaseClaims,
        *,
        settings: Settings,
        clock: Clock,
        freed: Freed,
    ) -> None:
        """Go on with the leases that were loaded; `freed` is told of buckets in which something was let go."""
        self._store = store
        self._lease_pins = lease_pins
        self._claims = claims
        self._most = settings.leases_max
        self._duration_max_ms = settings.lease_duration_max_ms
        self._clock = clock
        self._freed = freed
        self._lock = threading.RLock()
        self._leases = {lease.lease_id: lease for lease in loaded}

    def acquire(self, call: AcquireLease, principal: str) -> tuple[Lease, Claimed]:
        """Take a lease for a principal, or more under one that it holds; return it, and what could not be had.

        Raises:
            InvalidError: id or duration are not what they may be.
            LimitError: the duration, the number of buckets, or that of leases, in all or of this caller, is above the
                limit.
            PermissionDeniedError: another principal has a lease of that id.
            TableNotFoundError: a table whose newest snapshots, or whose cut, are wanted was dropped.
            UnsupportedError: it is a log table, which has no snapshots.
        """
        check_lease_id(call.lease_id)
        self._check_duration(call.duration_ms)
        claimed = self._claims.claim(call)
        try:
            with self._lock:
                self._expire_one(call.lease_id)
                lease = self._leases.get(call.lease_id)
                if lease is not None:
                    _check_owner(lease, principal)
                    if lease.owner in UNNAMED:
                        self._check_share(principal)
                        lease = replace(lease, owner=principal)
                    lease = self._extended(lease, call.duration_ms)
                else:
                    self._check_room(principal)
                    lease = self._new(call, principal)
                before = lease.holds
                if len(before | claimed.holds) > BUCKETS_MAX:
                    raise LimitError("a lease has fewer buckets; take several", max=BUCKETS_MAX)
                held, schemas = before | claimed.holds, lease.schemas | claimed.schemas
                lease = self._store.put(replace(lease, holds=held, schemas=schemas))
                self._leases[lease.lease_id] = lease
                self._move(lease, before, claimed.holds)
        finally:
            self._claims.release(claimed)
        self._freed([bucket for bucket in claimed.holds if bucket in before])
        return lease, claimed

    def renew(self, lease_id: str, principal: str, duration_ms: int | None = None) -> Lease:
        """Have a lease last that long from now on; None: as long as before.

        Raises:
            LeaseNotFoundError: it is unknown or has expired.
            PermissionDeniedError: it is another principal's.
            LimitError: the duration is above the limit.
        """
        with self._lock:
            lease = self.own(lease_id, principal)
            chosen_ms = lease.duration_ms if duration_ms is None else duration_ms
            self._check_duration(chosen_ms)
            lease = self._extended(lease, chosen_ms)
            self._store.put_time(lease)
            self._leases[lease_id] = lease
            return lease

    def release(self, lease_id: str, principal: str, buckets: Iterable[BucketId]) -> Lease:
        """Give some buckets back; those that the lease does not hold are given back already.

        Raises:
            LeaseNotFoundError: it is unknown or has expired.
            PermissionDeniedError: it is another principal's.
        """
        with self._lock:
            lease = self.own(lease_id, principal)
            gone = {bucket: lease.holds[bucket] for bucket in buckets if bucket in lease.holds}
            kept = {bucket: hold for bucket, hold in lease.holds.items() if bucket not in gone}
            lease = self._store.put(replace(lease, holds=kept))
            self._leases[lease_id] = lease
            self._unpin(lease.holder, gone)
        self._freed(gone)
        return lease

    def drop(self, lease_id: str, principal: str) -> None:
        """Give everything back.

        Raises:
            LeaseNotFoundError: it is unknown or has expired.
            PermissionDeniedError: it is another principal's.
        """
        with self._lock:
            lease = self.own(lease_id, principal)
            self._end(lease)
        self._freed(lease.holds)

    def get(self, lease_id: str) -> Lease:
        """Return a lease, whichever principal has it.

        Raises:
            LeaseNotFoundError: it is unknown or has expired.
        """
        with self._lock:
            lease = self._leases.get(lease_id)
            if lease is None or self._has_expired(lease):
                raise _not_found(lease_id)
            return lease

    def own(self, lease_id: str, principal: str) -> Lease:
        """Return a lease that a principal may use.

        Raises:
            LeaseNotFoundError: it is unknown or has expired.
            PermissionDeniedError: it is another principal's.
        """
        lease = self.get(lease_id)
        _check_owner(lease, principal)
        return lease

    def all(self) -> list[Lease]:
        """Return all leases, by id."""
        with self._lock:
            return [self._leases[i] for i in sorted(self._leases) if not self._has_expired(self._leases[i])]

    def expire(self) -> int:
        """End the leases whose time is over; return how many."""
        gone: list[Lease] = []
        with self._lock:
            for lease in list(self._leases.values()):
                if self._has_expired(lease):
                    self._end(lease)
                    gone.append(lease)
        for lease in gone:
            self._freed(lease.holds)
        return len(gone)

    def _check_room(self, principal: str) -> None:
        self._check_share(principal)
        if sum(not self._has_expired(lease) for lease in self._leases.values()) >= self._most:
            raise LimitError(
                "there are kv.lease.max-per-server leases; release some, or wait until some expire", max=self._most
            )

    def _check_share(self, principal: str) -> None:
        share = Share(principal, self._most)
        held = sum(lease.owner == principal and not self._has_expired(lease) for lease in self._leases.values())
        if not share.fits(held):
            raise share.refusal(LimitError, "the leases (kv.lease.max-per-server)", "release some")

    def _new(self, call: AcquireLease, principal: str) -> Lease:
        deadline_ms = self._clock.monotonic_ms() + call.duration_ms
        return Lease(call.lease_id, principal, call.duration_ms, deadline_ms, self._clock.wall_ms(), {}, ABSENT)

    def _extended(self, lease: Lease, duration_ms: int) -> Lease:
        return replace(lease, duration_ms=duration_ms, deadline_ms=self._clock.monotonic_ms() + duration_ms)

    def _has_expired(self, lease: Lease) -> bool:
        return self._clock.monotonic_ms() >= lease.deadline_ms

    def _expire_one(self, lease_id: str) -> None:
        lease = self._leases.get(lease_id)
        if lease is not None and self._has_expired(lease):
            self._end(lease)
            self._freed(lease.holds)

    def _end(self, lease: Lease) -> None:
        self._store.delete(lease)
        del self._leases[lease.lease_id]
        self._unpin(lease.holder, lease.holds)

    def _move(self, lease: Lease, before: dict[BucketId, Hold], holds: dict[BucketId, Hold]) -> None:
        """Pin under the lease's name what is pinned under the claim's, and let go of what it replaces."""
        self._lease_pins.note(lease.holder, holds)
        for bucket, tablet in self._claims.opened(holds):
            hold, replaced = holds[bucket], before.get(bucket)
            pin(tablet, lease.holder, hold)
            if replaced is not None and replaced.snapshot_id not in (0, hold.snapshot_id):
                tablet.snapshots.release(replaced.snapshot_id, lease.holder)

    def _unpin(self, holder: PinHolder, holds: dict[BucketId, Hold]) -> None:
        self._lease_pins.forget(holder, holds)
        for bucket, tablet in self._claims.opened(holds):
            unpin(tablet, holder, holds[bucket])

    def _check_duration(self, duration_ms: int) -> None:
        if duration_ms <= 0:
            raise InvalidError("a lease lasts longer than nothing", duration_ms=duration_ms)
        if duration_ms > self._duration_max_ms:
            raise LimitError(
                "a lease lasts at most kv.lease.max-duration; renew it while you need it",
                duration=format_duration_ms(duration_ms),
                max=format_duration_ms(self._duration_max_ms),
            )


def _check_owner(lease: Lease, principal: str) -> None:
    if not may_change(principal, lease.owner):
        raise PermissionDeniedError(
            "the lease is another principal's; choose another id", lease_id=lease.lease_id, owner=lease.owner
        )


def _not_found(lease_id: str) -> NotFoundError:
    return LeaseNotFoundError(
        "the lease is unknown or has expired, and what it held may be gone; acquire it again and start anew",
        lease_id=lease_id,
    )
