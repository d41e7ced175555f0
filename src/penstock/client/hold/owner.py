"""An owner as users hold it: columns that are theirs, and epochs that count whole or not at all."""

from __future__ import annotations

import logging
import os
import socket
import threading
import uuid
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from types import TracebackType

from penstock.client.hold.renewal import Renewal
from penstock.client.link.link import Link
from penstock.errors import InvalidError, PenstockError
from penstock.model.node.node import Node
from penstock.model.node.owner import AcquireOwner, EpochStatus, OwnerGrant, UndoResult
from penstock.model.node.owner_token import NO_EPOCH, OwnerToken
from penstock.model.place.change import OFFSET_MAX
from penstock.model.place.facts import NO_ID
from penstock.model.table.table import TableInfo
from penstock.model.words.html_table import html_table
from penstock.model.words.names import name_list
from penstock.model.words.quantity import parse_duration_ms

_log = logging.getLogger("penstock")

AttemptId = uuid.UUID | bytes | str
"""An attempt's uuid, as such, as its 16 bytes, or in words."""
AttemptsLike = Mapping[AttemptId, int | None] | Iterable[AttemptId | tuple[AttemptId, int | None]]
"""Attempts to accept, with the rows that each wrote where that is known."""


class Owner:
    """An owner of columns of a table. A context manager that releases it; thread-safe.

    It is renewed in the background until it is released or forgotten. If that fails for good it is
    logged as an error, and leaving the context raises it.
    """

    def __init__(self, link: Link, info: TableInfo, grant: OwnerGrant) -> None:
        self._link = link
        self._table = info.path
        self._grant = grant
        self._token = OwnerToken.from_bytes(grant.token)
        self._session = grant.token
        self._committed = grant.committed_epoch
        self._lock = threading.Lock()
        self._renewal = Renewal.of_owner(link, grant.token, grant.ttl_ms)

    @property
    def id(self) -> str:
        """Return the owner's id."""
        return self._token.owner

    @property
    def fence(self) -> int:
        """Return the fence of this acquisition: a later one of the same id has a higher."""
        return self._token.session

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the columns that it holds."""
        return self._grant.columns

    @property
    def committed_epoch(self) -> int:
        """Return the last epoch committed, as of the last call; -1 before the first."""
        return self._committed

    @property
    def epoch(self) -> int | None:
        """Return the epoch that this handle has open."""
        return None if self._token.epoch == NO_EPOCH else self._token.epoch

    @property
    def failure(self) -> PenstockError | None:
        """Return why the background renewal ended, None while it does not."""
        return self._renewal.failure

    def begin(self, epoch: int) -> EpochStatus:
        """Open an epoch: "new", and everything uncommitted is undone first; or "committed": skip it.

        After "committed" the handle writes nothing (ConflictError) until it begins another epoch or leaves them.

        Raises:
            InvalidError: the epoch is no number, or negative.
            ConflictError: a later epoch is committed; the message says what to do.
            FencedError: another holder has the owner now.
        """
        _check_epoch(epoch)
        begun = self._link.retry.run(lambda: self._link.node.owners.begin(self._session, epoch))
        with self._lock:
            is_open = begun.status is EpochStatus.NEW
            self._token = self._token.at(fence=begun.fence, epoch=epoch if is_open else NO_EPOCH)
            self._committed = self._committed if is_open else epoch
        return begun.status

    def commit(self, epoch: int, attempts: AttemptsLike | None = None) -> None:
        """Commit an epoch, all buckets in one step; idempotent. Staged rows of `attempts` appear.

        Raises:
            InvalidError: the epoch is no number, or negative, or an attempt is no uuid.
            ConflictError: the epoch is not open, or something of it is missing; the message names it.
            FencedError: another holder has the owner now.
        """
        _check_epoch(epoch)
        named = None if attempts is None else _named(attempts)
        self._link.retry.run(lambda: self._link.node.owners.commit(self._session, epoch, named))
        with self._lock:
            self._committed = max(self._committed, epoch)
            if self._token.epoch == epoch:
                self._token = self._token.at(fence=self._token.fence, epoch=NO_EPOCH)

    def undo(self) -> UndoResult:
        """Undo everything that is not committed, and close the epoch.

        From then on the handle writes nothing (ConflictError) until it begins an epoch or leaves them.

        Raises:
            FencedError: another holder has the owner now.
        """
        return self._close_epoch(lambda node: node.owners.undo(self._session))

    def leave(self) -> UndoResult:
        """Return to writes outside epochs, each committed at once; what is not committed is undone first.

        Raises:
            FencedError: another holder has the owner now.
        """
        return self._close_epoch(lambda node: node.owners.leave(self._session))

    def token(self, epoch: int | None = None) -> bytes:
        """Return what tasks pass as `owner=` to write in the epoch that is open, anywhere.

        Raises:
            InvalidError: that epoch was not begun by this handle.
        """
        with self._lock:
            if epoch is not None and epoch != self._token.epoch:
                raise InvalidError("begin the epoch before its tasks write", epoch=epoch, open=self.epoch)
            return self._token.to_bytes()

    def renew(self) -> None:
        """Renew now; an expired owner may renew if no other took its columns.

        Raises:
            FencedError: another holder has the owner, or its columns, now.
        """
        self._link.retry.run(lambda: self._link.node.owners.renew(self._session))

    def release(self) -> None:
        """Undo what is not committed and give the columns back; idempotent.

        Raises:
            UnavailableError: not now; it ends by itself when its time is up.
        """
        self._renewal.end()
        self._link.retry.run(lambda: self._link.node.owners.release(self._session))

    def _close_epoch(self, call: Callable[[Node], UndoResult]) -> UndoResult:
        result = self._link.once(call)
        with self._lock:
            self._token = self._token.at(fence=self._token.fence, epoch=NO_EPOCH)
        return result

    def __enter__(self) -> Owner:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._renewal.end()
        lost = self.failure
        if lost is not None and error is None:
            raise lost
        if lost is None and not self._link.closed:
            try:
                self.release()
            except PenstockError:
                # The block's own failure says more; what cannot be given back now ends by itself.
                _log.warning("owner was not released and will expire owner=%s table=%s", self.id, self._table)

    def __repr__(self) -> str:
        state = "" if self.epoch is None else f", epoch {self.epoch} open"
        return f"<Owner {self.id} of {self._table} ({', '.join(self.columns)}), fence {self.fence}{state}>"

    def _repr_html_(self) -> str:
        facts = {
            "table": self._table,
            "columns": ", ".join(self.columns),
            "fence": self.fence,
            "last committed epoch": self.committed_epoch,
            "open epoch": self.epoch,
        }
        return html_table(f"Owner {self.id}", ("", ""), facts.items())


OwnerLike = Owner | bytes
"""An owner, or the token of one."""


def acquire(
    link: Link,
    info: TableInfo,
    owner: str | None,
    *,
    columns: Iterable[str] | None,
    ttl: str | timedelta | None,
    incarnation: str | None,
) -> Owner:
    """Acquire an owner of a table's columns.

    Raises:
        LockedError: another owner holds one of the columns; names it, its columns and the time left.
        ConflictError: the id belongs to another incarnation.
        UnsupportedError: the table has no owners.
        InvalidError: a column is unknown, or an argument is not understood.
    """
    owner = str(uuid.uuid4()) if owner is None else owner
    if not isinstance(owner, str) or not isinstance(incarnation, str | None):
        raise InvalidError("owner and incarnation are strings", owner=repr(owner), incarnation=repr(incarnation))
    named = None if columns is None else tuple(name_list(columns))
    ttl_ms = None if ttl is None else parse_duration_ms(ttl)
    call = AcquireOwner(
        info.table_id,
        owner,
        named,
        ttl_ms,
        incarnation,
        f"{socket.gethostname()}:{os.getpid()}",
    )
    return Owner(link, info, link.retry.run(lambda: link.node.owners.acquire(call)))


def owner_token(owner: OwnerLike | None) -> bytes | None:
    """Return the token to write with: of the handle's open epoch, or outside any."""
    if isinstance(owner, Owner):
        return owner.token()
    if owner is None or isinstance(owner, bytes):
        return owner
    raise InvalidError("owner= takes an Owner or the bytes of owner.token(epoch)", found=type(owner).__name__)


def attempt_bytes(attempt: AttemptId | None) -> bytes:
    """Return an attempt's 16 bytes; those of none for None.

    Raises:
        InvalidError: it is no uuid.
    """
    if attempt is None:
        return NO_ID
    try:
        found = attempt if isinstance(attempt, uuid.UUID) else _uuid(attempt)
    except (ValueError, TypeError) as error:
        raise InvalidError("an attempt is a uuid", attempt=repr(attempt)[:80]) from error
    return found.bytes


def _uuid(attempt: object) -> uuid.UUID:
    if not isinstance(attempt, bytes | str):
        raise TypeError(type(attempt).__name__)
    return uuid.UUID(bytes=bytes(attempt)) if isinstance(attempt, bytes) else uuid.UUID(attempt)


def _named(attempts: AttemptsLike) -> dict[bytes, int | None]:
    if isinstance(attempts, str | bytes) or not isinstance(attempts, Iterable):
        raise InvalidError("attempts= takes a list of uuids, or a dict of them and the rows of each")
    pairs = attempts.items() if isinstance(attempts, Mapping) else attempts
    named: dict[bytes, int | None] = {}
    for item in pairs:
        attempt, rows = item if isinstance(item, tuple) else (item, None)
        if attempt is None:
            raise InvalidError("an attempt is a uuid", attempt=None)
        named[attempt_bytes(attempt)] = None if rows is None else check_rows(rows)
    return named


def check_rows(rows: object) -> int:
    """Return how many rows an attempt is said to have written.

    Raises:
        InvalidError: it is no number of rows.
    """
    if not isinstance(rows, int) or isinstance(rows, bool) or not 0 <= rows <= OFFSET_MAX:
        raise InvalidError("an attempt wrote a number of rows", rows=repr(rows))
    return rows


def _check_epoch(epoch: object) -> None:
    if not isinstance(epoch, int) or isinstance(epoch, bool) or not 0 <= epoch <= OFFSET_MAX:
        raise InvalidError("an epoch is a whole number, 0 or more", epoch=repr(epoch))
