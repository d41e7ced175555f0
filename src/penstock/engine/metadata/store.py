"""The metadata store: small values under names, changed several at once or not at all.

Everything that must survive beside the logs goes through it: the catalog, snapshots, leases, owners.
The contract is what a coordination service can offer, too: no ranges but prefixes, no transactions
but one atomic write with conditions.

- A key is printable ASCII; slashes give it parts.
- A value's version says which write put it there. Versions are only compared for equality; a key that
  was deleted and put again has a version it never had before.
- `commit` is atomic and durable when it returns. Reads see committed writes only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple, Protocol, TypeAlias

from penstock.errors import ConflictError, InvalidError, LimitError

KEY_LENGTH_MAX: Final = 1024
VALUE_BYTES_MAX: Final = 16 << 20
WRITES_MAX: Final = 10_000


class Absent(Enum):
    """The expectation that a key is not there."""

    ABSENT = "absent"


ABSENT: Final = Absent.ABSENT
Expected: TypeAlias = int | Absent | None
"""A version, no key at all, or (None) whatever there is."""


@dataclass(frozen=True, slots=True)
class Put:
    """Put a value under a key, if the key is as expected."""

    key: str
    value: bytes
    expected: Expected = None


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete a key, if it is as expected; without an expectation it may be gone already."""

    key: str
    expected: Expected = None


@dataclass(frozen=True, slots=True)
class Check:
    """Change nothing, but let the commit fail unless the key is as expected."""

    key: str
    expected: int | Absent


Write: TypeAlias = Put | Delete | Check


class Entry(NamedTuple):
    """A key with its value and the version of the write that put it there."""

    key: str
    value: bytes
    version: int


class MetadataStore(Protocol):
    """Versioned values under names. Every implementation is thread-safe."""

    def get(self, key: str) -> Entry | None:
        """Return what is under a key, None if it is not there."""

    def list(self, prefix: str) -> list[Entry]:
        """Return everything whose key starts with a prefix, in key order, as of one moment."""

    def commit(self, writes: Sequence[Write]) -> int:
        """Apply all writes, durably, or none; return the version of the values put.

        Raises:
            ConflictError: a key is not as expected; nothing was changed.
            LimitError: a key or value is too large, or there are too many writes.
        """

    def close(self) -> None:
        """Let go of everything; idempotent."""


def check_writes(writes: Sequence[Write]) -> None:
    """Refuse writes that no store takes.

    Raises:
        LimitError: a key or value is too large, or there are too many writes.
        InvalidError: a key is no key, or there twice.
    """
    if len(writes) > WRITES_MAX:
        raise LimitError(f"a commit has at most {WRITES_MAX} writes", writes=len(writes))
    if len({write.key for write in writes}) != len(writes):
        raise InvalidError("a commit names each key once", writes=len(writes))
    for write in writes:
        # Keys may come from a backup that a user made.
        if not write.key.isascii() or not write.key.isprintable():
            raise InvalidError("a metadata key is of printable ascii characters", key=ascii(write.key)[:80])
        if len(write.key) > KEY_LENGTH_MAX:
            raise LimitError(f"a metadata key has at most {KEY_LENGTH_MAX} characters", key=f"{write.key[:60]}...")
        if isinstance(write, Put) and len(write.value) > VALUE_BYTES_MAX:
            raise LimitError(
                f"a metadata value has at most {VALUE_BYTES_MAX} bytes", key=write.key, bytes=len(write.value)
            )


def check_expected(write: Write, version: int | None) -> None:
    """Refuse a write whose key is not as it expects.

    Raises:
        ConflictError: it is not.
    """
    if write.expected is None:
        return
    if write.expected is ABSENT:
        if version is not None:
            raise ConflictError("the key is there already", key=write.key, version=version)
    elif write.expected != version:
        raise ConflictError("the key was changed meanwhile", key=write.key, expected=write.expected, version=version)
