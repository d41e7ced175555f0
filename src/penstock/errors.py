"""Every error Penstock raises. The kind says what the caller does next.

PenstockError
├── InvalidError                     fix the request
│   ├── SchemaMismatchError
│   ├── InvalidScanRequestError
│   ├── LimitError
│   ├── ArithmeticOverflowError
│   ├── DeleteDisabledError
│   └── UnsupportedError
├── NotFoundError                    name something that exists
│   ├── DatabaseNotFoundError
│   ├── TableNotFoundError
│   ├── PartitionNotFoundError
│   ├── OffsetOutOfRangeError
│   ├── SnapshotNotFoundError
│   ├── LeaseNotFoundError
│   ├── OwnerNotFoundError
│   └── UnknownOrExpiredScannerError
├── AlreadyExistsError
├── ConflictError                    another caller was first; look before you go on
│   ├── FencedError
│   ├── LockedError
│   └── SequenceError
├── UnavailableError                 try again later (retriable)
│   ├── TooManyScannersError
│   ├── NotLeaderError
│   ├── TimedOutError                also a TimeoutError
│   ├── OverloadedError
│   ├── DiskFullError
│   └── BucketFailedError
├── PermissionDeniedError
├── ClosedError                      open it again
│   └── DirectoryInUseError
├── CorruptionError                  restore, or ask for help: stored bytes are not what was written
└── InternalError                    a bug of ours

Messages are lower case, facts last as key=value; the facts are also fields of the error. Those that programs look at
are declared here, by class, for type checkers; one that may be missing is None then.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, ClassVar, Final

SHOWN_LENGTH_MAX: Final = 2_000


class PenstockError(Exception):
    """Any error that Penstock raises on purpose."""

    code: ClassVar[str] = "penstock"
    retriable: ClassVar[bool] = False
    by_code: ClassVar[dict[str, type[PenstockError]]] = {}
    reached: bool = True
    """False if the call cannot have arrived at the server, so that any call may be made again."""
    lasting: bool = False
    """True if waiting does not help, though the kind is retriable: the caller has to do something first."""

    def __init__(self, message: str, **facts: Any) -> None:
        self.message = message
        self.facts = facts
        super().__init__(message)
        for name, value in facts.items():
            setattr(self, name, value)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        PenstockError.by_code[cls.code] = cls

    def __str__(self) -> str:
        return " ".join([self.message, *(f"{name}={_shown(value)}" for name, value in self.facts.items())])

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.message, self.facts)


def _shown(value: object) -> str:
    """Return a fact as messages and logs show it: what a caller sent may be a megabyte long."""
    text = str(value)
    return text if len(text) <= SHOWN_LENGTH_MAX else f"{text[:SHOWN_LENGTH_MAX]}... ({len(text)} characters)"


def _rebuild(kind: type[PenstockError], message: str, facts: dict[str, Any]) -> PenstockError:
    return kind(message, **facts)


class InvalidError(PenstockError, ValueError):
    """The request is wrong; it will be wrong again."""

    code = "invalid"
    column: str | None = None
    row: int | None = None
    """Where in the data it is: a column's name, and a row counted from 0."""


class SchemaMismatchError(InvalidError):
    """Data does not fit the table's columns."""

    code = "schema_mismatch"


class InvalidScanRequestError(InvalidError):
    """A scan call is out of order or malformed; the session is intact."""

    code = "invalid_scan_request"


class LimitError(InvalidError):
    """Something is larger than a stated limit."""

    code = "limit"
    most: Any = None


class ArithmeticOverflowError(InvalidError):
    """An aggregate does not fit its column."""

    code = "arithmetic_overflow"


class DeleteDisabledError(InvalidError):
    """The table's `delete.behavior` is `disable`."""

    code = "delete_disabled"
    table: str


class UnsupportedError(InvalidError):
    """This kind of table does not offer that operation."""

    code = "unsupported"


class NotFoundError(PenstockError, LookupError):
    """What was named does not exist."""

    code = "not_found"


class DatabaseNotFoundError(NotFoundError):
    """No such database."""

    code = "database_not_found"
    database: str


class TableNotFoundError(NotFoundError):
    """No such table, or it was dropped."""

    code = "table_not_found"
    table: str | None = None


class PartitionNotFoundError(NotFoundError):
    """No such partition."""

    code = "partition_not_found"
    table: str | None = None
    partition: str | None = None


class OffsetOutOfRangeError(NotFoundError):
    """The offset is below the base, or beyond the end, of the bucket."""

    code = "offset_out_of_range"
    offset: int | None = None
    base: int | None = None
    end: int | None = None


class SnapshotNotFoundError(NotFoundError):
    """No such snapshot."""

    code = "snapshot_not_found"


class LeaseNotFoundError(NotFoundError):
    """The lease is unknown or has expired."""

    code = "lease_not_found"
    lease_id: str | None = None


class OwnerNotFoundError(NotFoundError):
    """No such owner on this table."""

    code = "owner_not_found"
    owner: str
    table: str | None = None


class UnknownOrExpiredScannerError(NotFoundError):
    """The scan session does not exist (any more); resume with the token."""

    code = "unknown_or_expired_scanner"
    scanner_id: str | None = None


class AlreadyExistsError(PenstockError):
    """The name is taken."""

    code = "already_exists"


class ConflictError(PenstockError):
    """Another caller changed it first."""

    code = "conflict"
    keys: list[dict[str, Any]]
    """The keys, as dicts of key columns, whose rows are not those that `expect=` names; empty for another conflict."""

    def __init__(self, message: str, **facts: Any) -> None:
        self.keys = []
        super().__init__(message, **facts)


class FencedError(ConflictError):
    """A newer holder has taken over; this one may change nothing."""

    code = "fenced"
    owner: str | None = None


class LockedError(ConflictError):
    """An owner holds one of the columns, for `remaining_ms` more unless it is renewed or let go before."""

    code = "locked"
    holder: str
    columns: list[str]
    remaining: str
    remaining_ms: int = 0
    held_by: str | None = None


class SequenceError(ConflictError):
    """A writer's sequence number is neither the next nor a recent one."""

    code = "sequence"
    sequence: int
    newest: int
    remembered: int


class UnavailableError(PenstockError):
    """Not now; the same call may succeed later."""

    code = "unavailable"
    retriable = True


class TooManyScannersError(UnavailableError):
    """The bucket or the server has as many open scan sessions as it allows."""

    code = "too_many_scanners"


class NotLeaderError(UnavailableError):
    """This node does not lead the bucket now."""

    code = "not_leader"
    bucket: Any


class TimedOutError(UnavailableError, TimeoutError):
    """The deadline passed."""

    code = "timed_out"


class OverloadedError(UnavailableError):
    """The server has as much work as it takes."""

    code = "overloaded"


class DiskFullError(UnavailableError):
    """No space left; nothing of the call was written."""

    code = "disk_full"


class BucketFailedError(UnavailableError):
    """A sync failed; the bucket takes no writes until it is reopened."""

    code = "bucket_failed"
    applied: Mapping[Any, tuple[int, int]] = MappingProxyType({})
    """What is written all the same: where the changes are, by bucket."""


class PermissionDeniedError(PenstockError):
    """The principal may not do this."""

    code = "permission_denied"


class ClosedError(PenstockError):
    """The connection, scan or writer is closed."""

    code = "closed"


class DirectoryInUseError(ClosedError):
    """Another process holds the data directory."""

    code = "directory_in_use"
    directory: Any
    pid: int | None = None
    command: str | None = None
    since: str | None = None


class CorruptionError(PenstockError):
    """Stored bytes are not what was written."""

    code = "corruption"


class InternalError(PenstockError):
    """A bug in Penstock; please report it."""

    code = "internal"
