"""The leases of a node as they are stored: what each holds, and apart from that until when.

Keys are `lease/<id>` and `lease-time/<id>`, the id percent-escaped. A renewal writes the second alone, so it
costs the same however much is held. A change is durable when it returns.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final
from urllib.parse import quote

from penstock.codec.stored.lease_record import Hold, LeaseRecord, decode_lease, encode_lease, hold_rows
from penstock.engine.metadata.store import ABSENT, Absent, Check, Delete, Entry, MetadataStore, Put
from penstock.engine.table.lease_pins import LeasePins
from penstock.errors import CorruptionError
from penstock.model.place.bucket import BucketId
from penstock.runtime.clock import Clock
from penstock.tablet.view.pins import PinHolder, PinKind

ROOT: Final = "lease/"
TIME_ROOT: Final = "lease-time/"
REMAINING_MS_MIN: Final = 60_000
"""What is left of a lease at least when a node starts: its holder could not renew while it was down."""


@dataclass(slots=True)
class Lease:
    """A lease in memory. `deadline_ms` is monotonic: wall time counts only across a restart.

    `schemas` has the schema of each table, by id, as it was acquired.
    """

    lease_id: str
    owner: str
    duration_ms: int
    deadline_ms: int
    created_ms: int
    holds: dict[BucketId, Hold]
    version: int | Absent
    schemas: dict[int, int] = field(default_factory=dict)

    @property
    def holder(self) -> PinHolder:
        """Return what the lease's pins are held by."""
        return PinHolder(PinKind.LEASE, self.lease_id)


class LeaseStore:
    """Stores leases. The caller sees to it that no lease is changed twice at once."""

    def __init__(self, store: MetadataStore, clock: Clock, make_room: Callable[[], None] = lambda: None) -> None:
        self._store = store
        self._clock = clock
        self._make_room = make_room

    def load(self, lease_pins: LeasePins) -> list[Lease]:
        """Return all leases, and have what they hold protected; what remains of each counts from now on.

        Raises:
            CorruptionError: a record is damaged.
        """
        wall_ms, now_ms = self._clock.wall_ms(), self._clock.monotonic_ms()
        times = {entry.key.removeprefix(TIME_ROOT): _decode_time(entry) for entry in self._store.list(TIME_ROOT)}
        leases = []
        for entry in self._store.list(ROOT):
            record = decode_lease(entry.value, name=entry.key)
            # A lease of before times had entries of their own has its time in its record.
            before = (record.duration_ms, record.expires_ms)
            duration_ms, expires_ms = times.get(entry.key.removeprefix(ROOT), before)
            # A clock that was set back must not lengthen a lease without bound, nor one set forward end it.
            remaining_ms = max(REMAINING_MS_MIN, min(duration_ms, expires_ms - wall_ms))
            deadline_ms = now_ms + remaining_ms
            found = Lease(
                record.lease_id,
                record.owner,
                duration_ms,
                deadline_ms,
                record.created_ms,
                record.holds(),
                entry.version,
                dict(record.schemas),
            )
            leases.append(found)
            lease_pins.note(found.holder, found.holds)
        return leases

    def put(self, lease: Lease) -> Lease:
        """Store a lease; return it as it is stored now."""
        record = LeaseRecord(
            lease_id=lease.lease_id,
            owner=lease.owner,
            duration_ms=lease.duration_ms,
            expires_ms=self.expires_ms(lease),
            created_ms=lease.created_ms,
            rows=hold_rows(lease.holds),
            schemas=lease.schemas,
        )
        stored = Put(_key(lease.lease_id), encode_lease(record), lease.version)
        return replace(lease, version=self._store.commit([stored, self._time(lease)]))

    def put_time(self, lease: Lease) -> None:
        """Store until when a lease lasts, and nothing else of it."""
        assert lease.version is not ABSENT, "the lease was stored"
        self._store.commit([Check(_key(lease.lease_id), lease.version), self._time(lease)])

    def delete(self, lease: Lease) -> None:
        """Forget a lease."""
        assert lease.version is not ABSENT, "the lease was stored"
        self._make_room()
        self._store.commit([Delete(_key(lease.lease_id), lease.version), Delete(_time_key(lease.lease_id))])

    def expires_ms(self, lease: Lease) -> int:
        """Return when the lease ends, in wall time as it is now."""
        return self._clock.wall_ms() + lease.deadline_ms - self._clock.monotonic_ms()

    def _time(self, lease: Lease) -> Put:
        said = {"duration_ms": lease.duration_ms, "expires_ms": self.expires_ms(lease)}
        return Put(_time_key(lease.lease_id), json.dumps(said, separators=(",", ":")).encode())


def _decode_time(entry: Entry) -> tuple[int, int]:
    try:
        said = json.loads(entry.value)
        return int(said["duration_ms"]), int(said["expires_ms"])
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptionError("a lease's time cannot be read", key=entry.key) from error


def _time_key(lease_id: str) -> str:
    return TIME_ROOT + quote(lease_id, safe="")


def _key(lease_id: str) -> str:
    return ROOT + quote(lease_id, safe="")
