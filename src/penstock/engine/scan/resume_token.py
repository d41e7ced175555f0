"""Resume tokens: all that a scan's state is, as opaque bytes.

A token names the snapshot and the offset to go on from, so any node that holds the bucket can serve
the rest, after a restart too. The bytes are in `docs/internals/resume-token.md`. They come back from
outside: the checksum finds damage, the ranges find the rest, and the opening of a scan from a token
checks it against the table as it checks any request.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final, NoReturn

import google_crc32c

from penstock.errors import InvalidError
from penstock.model.node.calls import PAGE_TOKEN_MAGIC
from penstock.model.place.bucket import BucketId
from penstock.model.place.change import OFFSET_MAX

MAGIC: Final = PAGE_TOKEN_MAGIC
VERSION: Final = 4
VERSION_WITHOUT_OFFSETS: Final = 3
VERSION_WITHOUT_DATABASE: Final = 1
VERSION_WITH_END: Final = 2
TOKEN_BYTES_MAX: Final = 1 << 20
_NO_LIMIT: Final = -1
_NO_END: Final = -1

_HEAD: Final = struct.Struct("<4sHI")
_BODY: Final = struct.Struct("<IIHIqqqIHI")
_END: Final = struct.Struct("<q")
_DATABASE_BYTES: Final = 16


@dataclass(frozen=True, slots=True)
class ResumeToken:
    """The state of a scan of one bucket, between two pages.

    `log_offset` is the snapshot, `next_offset` where it goes on, `limit` how many rows are left to
    give (None: all), `columns` the ids of the projection, `end` the offset before which it ends (None:
    the snapshot), `database` the id of the database (None: a token of before there were ids). With `offsets`, which
    a token of a database alone can have, rows come with theirs.
    """

    schema_id: int
    bucket: BucketId
    log_offset: int
    next_offset: int
    limit: int | None
    page_bytes: int
    columns: tuple[int, ...]
    filter: bytes
    end: int | None = None
    database: str | None = None
    offsets: bool = False

    def encode(self) -> bytes:
        """Return the token as bytes."""
        bucket = self.bucket
        body = b"".join(
            (
                _BODY.pack(
                    bucket.table_id,
                    bucket.partition_id,
                    bucket.bucket,
                    self.schema_id,
                    self.log_offset,
                    self.next_offset,
                    _NO_LIMIT if self.limit is None else self.limit,
                    self.page_bytes,
                    len(self.columns),
                    len(self.filter),
                ),
                struct.pack(f"<{len(self.columns)}I", *self.columns),
                self.filter,
            )
        )
        version = VERSION_WITHOUT_DATABASE if self.end is None else VERSION_WITH_END
        if self.database is not None:
            version = VERSION if self.offsets else VERSION_WITHOUT_OFFSETS
            body += _END.pack(_NO_END if self.end is None else self.end) + bytes.fromhex(self.database)
        elif self.end is not None:
            body += _END.pack(self.end)
        return _HEAD.pack(MAGIC, version, google_crc32c.value(body)) + body

    @classmethod
    def decode(cls, token: bytes) -> ResumeToken:
        """Return the token that bytes stand for.

        Raises:
            InvalidError: the bytes are no such token, are damaged, or of another version.
        """
        body, end, database, offsets = _checked_body(token)
        try:
            (table_id, partition_id, number, schema_id, log_offset, next_offset, limit, page_bytes, columns, size) = (
                _BODY.unpack_from(body)
            )
            ids = struct.unpack_from(f"<{columns}I", body, _BODY.size)
        except struct.error as error:
            _refuse("it is cut short", error)
        filter_bytes = body[_BODY.size + 4 * columns :]
        if len(filter_bytes) != size:
            _refuse("it has the wrong length")
        if not 0 <= next_offset <= log_offset <= OFFSET_MAX or limit < _NO_LIMIT or (end is not None and end < 0):
            _refuse("a number is out of range")
        return cls(
            schema_id=schema_id,
            bucket=BucketId(table_id, partition_id, number),
            log_offset=log_offset,
            next_offset=next_offset,
            limit=None if limit == _NO_LIMIT else limit,
            page_bytes=page_bytes,
            columns=ids,
            filter=filter_bytes,
            end=end,
            database=database,
            offsets=offsets,
        )


def _checked_body(token: bytes) -> tuple[bytes, int | None, str | None, bool]:
    if not isinstance(token, bytes):
        _refuse(f"it is a {type(token).__name__}, not bytes")
    if not _HEAD.size + _BODY.size <= len(token) <= TOKEN_BYTES_MAX:
        _refuse(f"it has {len(token)} bytes")
    magic, version, crc = _HEAD.unpack_from(token)
    if magic != MAGIC:
        _refuse("it begins with other bytes")
    if not VERSION_WITHOUT_DATABASE <= version <= VERSION:
        _refuse(f"it is of version {version}, this is version {VERSION}")
    body = token[_HEAD.size :]
    if google_crc32c.value(body) != crc:
        _refuse("its checksum is wrong")
    if version == VERSION_WITHOUT_DATABASE:
        return body, None, None, False
    database = None
    if version >= VERSION_WITHOUT_OFFSETS:
        body, database = body[:-_DATABASE_BYTES], body[-_DATABASE_BYTES:].hex()
    if len(body) < _BODY.size + _END.size:
        _refuse("it is cut short")
    body, (end,) = body[: -_END.size], _END.unpack(body[-_END.size :])
    has_end = version < VERSION_WITHOUT_OFFSETS or end != _NO_END
    return body, end if has_end else None, database, version == VERSION


def _refuse(why: str, cause: Exception | None = None) -> NoReturn:
    raise InvalidError(f"not a resume token of a scanner: {why}; pass the bytes of a page unchanged") from cause
