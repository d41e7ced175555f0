"""The owners of one table: in memory, and in the metadata store with one write for each change."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from penstock.engine.metadata.store import ABSENT, Delete, MetadataStore, Put
from penstock.engine.owners.live_owner import Columns, LiveOwner
from penstock.engine.owners.record import OwnerRecord, number_key, record_key, table_prefix
from penstock.errors import ConflictError, FencedError, LimitError, OwnerNotFoundError
from penstock.model.node.owner_token import OwnerToken
from penstock.model.node.share import Share
from penstock.runtime.clock import Clock

RESTART_GRACE_MS = 60_000
"""What remains of an owner's time after a restart, at least: it could not be renewed while the node was down."""
USED_STEP_MS = 3_600_000
"""How far behind the stored time of last use may be: renewals are too many to store each."""


class OwnerStore:
    """Owners by id and by number. Changed only in the committer; other threads may read."""

    def __init__(self, table_id: int, store: MetadataStore, clock: Clock) -> None:
        self._table_id = table_id
        self._store = store
        self._clock = clock
        self._owners: dict[str, LiveOwner] = {}
        now_ms, wall_ms = clock.monotonic_ms(), clock.wall_ms()
        for entry in store.list(table_prefix(table_id)):
            record = OwnerRecord.from_bytes(entry.value, table_id=table_id, name=entry.key)
            seen_ms = now_ms - max(0, wall_ms - record.used_ms)
            expires_ms = now_ms + max(RESTART_GRACE_MS, record.ttl_ms)
            self._owners[record.owner] = LiveOwner(record, entry.version, expires_ms, seen_ms)

    def __len__(self) -> int:
        return len(self._owners)

    def __iter__(self) -> Iterator[LiveOwner]:
        return iter(list(self._owners.values()))

    def find(self, owner: str) -> LiveOwner | None:
        """Return an owner by its id."""
        return self._owners.get(owner)

    def get(self, owner: str) -> LiveOwner:
        """Return an owner by its id.

        Raises:
            OwnerNotFoundError: there is none.
        """
        found = self._owners.get(owner)
        if found is None:
            raise OwnerNotFoundError("no such owner on this table; list_owners shows those there are", owner=owner)
        return found

    def by_token(self, token: OwnerToken) -> LiveOwner:
        """Return the owner that a token names, whatever its fence.

        Raises:
            FencedError: the owner was dropped since, or its columns were taken.
        """
        found = self._owners.get(token.owner)
        if found is None or found.record.number != token.number:
            raise FencedError("the owner was dropped since; acquire it again", owner=token.owner)
        if found.record.lost:
            raise FencedError(
                "another owner took the columns after the time of this one was up; acquire it again", owner=token.owner
            )
        return found

    def by_session(self, token: OwnerToken) -> LiveOwner:
        """Return the owner of the handle that a token names.

        Raises:
            FencedError: another handle has the owner now.
        """
        found = self.by_token(token)
        record = found.record
        if record.session != token.session or record.released:
            raise FencedError(
                "the owner was released or acquired by another since; acquire it again",
                owner=token.owner,
                session=token.session,
                fence=record.session,
            )
        return found

    def holding(self, columns: Columns, *, besides: int = -1) -> list[LiveOwner]:
        """Return the owners, expired or not, of any of these columns, but for one."""
        return [
            owner
            for owner in self._owners.values()
            if owner.record.number != besides and owner.keeps and owner.shares(columns)
        ]

    def check_room(self, principal: str, most: int) -> None:
        """Refuse another owner where there are as many as there may be, in all or of a caller.

        Raises:
            LimitError: there are.
        """
        share = Share(principal, most)
        if not share.fits(sum(owner.record.principal == principal for owner in self._owners.values())):
            raise share.refusal(
                LimitError, "the table's owners (owner.max-per-table)", "drop_owner those of jobs that are gone"
            )
        if len(self._owners) >= most:
            raise LimitError(
                "the table has owner.max-per-table owners; drop_owner those of jobs that are gone", most=most
            )

    def add(self, record: OwnerRecord) -> LiveOwner:
        """Store a new owner under the next number."""
        numbers = self._store.get(number_key(self._table_id))
        number = 0 if numbers is None else int(numbers.value) + 1
        record = replace(record, number=number)
        version = self._store.commit(
            [
                Put(number_key(self._table_id), str(number).encode(), ABSENT if numbers is None else numbers.version),
                Put(record_key(self._table_id, record.owner), record.to_bytes(), ABSENT),
            ]
        )
        now_ms = self._clock.monotonic_ms()
        owner = LiveOwner(record, version, now_ms + record.ttl_ms, now_ms)
        self._owners = {**self._owners, record.owner: owner}
        return owner

    def save(self, owner: LiveOwner, record: OwnerRecord) -> None:
        """Store an owner's new record; in memory it counts only then.

        Raises:
            ConflictError: another node changed it; memory has theirs now.
        """
        record = replace(record, used_ms=self._clock.wall_ms())
        key, data = record_key(self._table_id, record.owner), record.to_bytes()
        try:
            owner.version = self._store.commit([Put(key, data, owner.version)])
        except ConflictError:
            entry = self._store.get(key)
            if entry is None or entry.value != data:
                if entry is not None:
                    owner.version = entry.version
                    owner.record = OwnerRecord.from_bytes(entry.value, table_id=self._table_id, name=key)
                raise
            owner.version = entry.version
        owner.record = record

    def note_use(self, owner: LiveOwner) -> None:
        """Take a sign of life; it is stored when the stored one is old."""
        owner.touch(self._clock.monotonic_ms())
        if self._clock.wall_ms() - owner.record.used_ms >= USED_STEP_MS:
            self.save(owner, owner.record)

    def remove(self, owner: LiveOwner) -> None:
        """Forget an owner."""
        self._store.commit([Delete(record_key(self._table_id, owner.record.owner), owner.version)])
        self._owners = {name: other for name, other in self._owners.items() if other is not owner}
