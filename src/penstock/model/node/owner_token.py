"""The token of an owner: what a task shows to write in its name.

It is bytes, so that a job can hand it to tasks on other machines: a fixed head, the database's id, the owner's,
and a checksum of all. It proves nothing by itself; every call compares it with what the table knows.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace
from typing import Final

import google_crc32c

from penstock.errors import InvalidError

_MAGIC: Final = b"PNOT"
_VERSION: Final = 2
_VERSION_WITHOUT_DATABASE: Final = 1
_DATABASE_BYTES: Final = 16
# magic, version, table, number, session, fence, epoch, bytes of the id
_HEAD: Final = struct.Struct("<4sHIqqqqH")
_CRC: Final = struct.Struct("<I")
NO_EPOCH: Final = -1


@dataclass(frozen=True, slots=True)
class OwnerToken:
    """An owner at one moment: who, since which acquisition (`session`), under which fence, in which epoch.

    The session is the fence that the acquisition gave; each epoch that begins has a higher one, so that
    tasks of an earlier try of the same epoch are fenced.
    """

    table_id: int
    number: int
    owner: str
    session: int
    fence: int
    epoch: int = NO_EPOCH
    database: str | None = None

    def at(self, *, fence: int, epoch: int) -> OwnerToken:
        """Return the same owner under another fence and epoch."""
        return replace(self, fence=fence, epoch=epoch)

    def to_bytes(self) -> bytes:
        """Return the token as bytes."""
        name = self.owner.encode()
        version = _VERSION_WITHOUT_DATABASE if self.database is None else _VERSION
        head = _HEAD.pack(_MAGIC, version, self.table_id, self.number, self.session, self.fence, self.epoch, len(name))
        body = head + (b"" if self.database is None else bytes.fromhex(self.database)) + name
        return body + _CRC.pack(google_crc32c.value(body))

    @classmethod
    def from_bytes(cls, data: bytes) -> OwnerToken:
        """Return the token that `to_bytes` wrote.

        Raises:
            InvalidError: the bytes are no token, or were changed on the way.
        """
        if len(data) < _HEAD.size + _CRC.size or data[:4] != _MAGIC:
            raise InvalidError("this is no owner token; pass what owner.token(epoch) returned", bytes=len(data))
        body, crc = data[: -_CRC.size], _CRC.unpack(data[-_CRC.size :])[0]
        _, version, table_id, number, session, fence, epoch, length = _HEAD.unpack_from(body)
        if google_crc32c.value(bytes(body)) != crc:
            raise InvalidError("owner token is damaged; pass the bytes unchanged", bytes=len(data))
        if version not in (_VERSION_WITHOUT_DATABASE, _VERSION):
            raise InvalidError("owner token is of another version; use one client version", version=version)
        named = _HEAD.size + (_DATABASE_BYTES if version == _VERSION else 0)
        if len(body) != named + length:
            raise InvalidError("owner token is damaged; pass the bytes unchanged", bytes=len(data))
        database = body[_HEAD.size : named].hex() or None
        try:
            owner = body[named:].decode()
        except UnicodeDecodeError as error:
            raise InvalidError("owner token names no owner; pass the bytes unchanged", bytes=len(data)) from error
        return cls(table_id, number, owner, session, fence, epoch, database)
