"""The leases of the fake node: a dict, and an error to raise on demand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from penstock.errors import LeaseNotFoundError, PenstockError
from penstock.model.node.lease import AcquireLease, Leased, LeaseInfo, LeaseTime, Snapshot
from penstock.model.place.bucket import TableBucket


class FakeLeases:
    """Keeps leases by id; `renewals` says which were renewed, `refusal` is raised by the next renewal."""

    held: dict[str, LeaseInfo]
    renewals: list[str]
    refusal: PenstockError | None = None

    def create_snapshot(self, table_id: int) -> list[Snapshot]:
        return [Snapshot(1, TableBucket("shop.orders", None, 0), 0, 0, 0)]

    def list_snapshots(self, table_id: int) -> list[Snapshot]:
        return []

    def acquire_lease(self, call: AcquireLease) -> LeaseInfo:
        leased = [Leased(1, Snapshot(number, bucket, 7, 0, 0), 7) for bucket, number in call.snapshots.items()]
        leased += [
            Leased(cut.table_id, Snapshot(None, bucket, offset, 0, 0), offset)
            for cut in call.cuts
            for bucket, offset in cut.offsets.items()
        ]
        self._leases()[call.lease_id] = LeaseInfo(call.lease_id, "me", call.duration_ms, call.duration_ms, leased)
        return self.lease(call.lease_id)

    def lease_bytes(self, lease_id: str) -> int:
        self.lease(lease_id)
        return 0

    def renew_lease(self, lease_id: str, duration_ms: int | None = None) -> LeaseTime:
        if self.refusal is not None:
            raise self.refusal
        self.__dict__.setdefault("renewals", []).append(lease_id)
        info = self.lease(lease_id)
        return LeaseTime(info.duration_ms, info.expires_ms)

    def release_lease(self, lease_id: str, buckets: Sequence[TableBucket]) -> LeaseInfo:
        info = self.lease(lease_id)
        kept = [leased for leased in info.leased if leased.snapshot.bucket not in buckets]
        self._leases()[lease_id] = replace(info, leased=kept)
        return self.lease(lease_id)

    def drop_lease(self, lease_id: str) -> None:
        self.lease(lease_id)
        del self._leases()[lease_id]

    def list_leases(self) -> list[LeaseInfo]:
        return list(self._leases().values())

    def lease(self, lease_id: str) -> LeaseInfo:
        if lease_id not in self._leases():
            raise LeaseNotFoundError("the lease is unknown or has expired", lease_id=lease_id)
        return self._leases()[lease_id]

    def _leases(self) -> dict[str, LeaseInfo]:
        leases: dict[str, LeaseInfo] = self.__dict__.setdefault("held", {})
        return leases
