"""The chain of digests that shows a lost, an old or a changed metadata entry: of each, and of all, by commit.

- An entry's digest covers key, value and version.
- The total is the sum of the digests of all entries: an entry that is missing, too many or of before changes it.
- A link covers the total, the version of the commit and the link before it: who knows one link knows all before.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable
from hashlib import blake2b
from typing import Final, NamedTuple

DIGEST_BYTES: Final = 16
_MODULUS: Final = 1 << (8 * DIGEST_BYTES)
_ENTRY: Final = struct.Struct("<IQ")
_LINK: Final = struct.Struct(f"<{DIGEST_BYTES}sQ{DIGEST_BYTES}s")


def entry_digest(key: str, value: bytes, version: int) -> bytes:
    """Return the digest of an entry."""
    name = key.encode()
    return blake2b(_ENTRY.pack(len(name), version) + name + value, digest_size=DIGEST_BYTES).digest()


class Chain(NamedTuple):
    """The state of a metadata store: the version of its last commit, the sum of its entries, the link before."""

    version: int
    total: bytes
    previous: bytes

    @classmethod
    def begin(cls, version: int = 0, digests: Iterable[bytes] = ()) -> Chain:
        """Return the beginning of a chain that no other store has."""
        return cls(version, _add(bytes(DIGEST_BYTES), digests, ()), os.urandom(DIGEST_BYTES))

    @property
    def link(self) -> bytes:
        """Return the digest of everything up to here."""
        return blake2b(_LINK.pack(self.previous, self.version, self.total), digest_size=DIGEST_BYTES).digest()

    def after(self, added: Iterable[bytes], removed: Iterable[bytes]) -> Chain:
        """Return the chain after a commit that put and took away entries with these digests."""
        return Chain(self.version + 1, _add(self.total, added, removed), self.link)

    def sums(self, digests: Iterable[bytes]) -> bool:
        """Tell whether these are the digests of all entries."""
        return _add(bytes(DIGEST_BYTES), digests, ()) == self.total


def _add(total: bytes, added: Iterable[bytes], removed: Iterable[bytes]) -> bytes:
    number = int.from_bytes(total, "little")
    number += sum(int.from_bytes(digest, "little") for digest in added)
    number -= sum(int.from_bytes(digest, "little") for digest in removed)
    return (number % _MODULUS).to_bytes(DIGEST_BYTES, "little")
