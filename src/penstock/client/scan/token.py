"""Where a whole scan stands, as bytes that a caller stores and brings back.

Layout: magic (4), version (1), crc32c of the rest (4, big-endian), JSON in UTF-8. The bytes come
back from outside, perhaps after years or from a stranger: they are checked in full, and nothing in
them is ever executed.
"""

from __future__ import annotations

import base64
import binascii
import json
import struct
from dataclasses import dataclass
from typing import Any, Final, NoReturn

import google_crc32c

from penstock.errors import InvalidError
from penstock.model.place.bucket import TableBucket
from penstock.model.place.change import OFFSET_MAX

MAGIC: Final = b"PSCT"
VERSION: Final = 3
VERSION_WITHOUT_OFFSETS: Final = 2
VERSION_WITHOUT_DATABASE: Final = 1
TOKEN_BYTES_MAX: Final = 16 << 20
_HEADER: Final = struct.Struct(">4sBI")
_FIELDS: Final = {"table_id", "schema_id", "source", "columns", "filter", "limit", "buckets"}
_MORE_FIELDS: Final[dict[int, set[str]]] = {
    VERSION_WITHOUT_DATABASE: set(),
    VERSION_WITHOUT_OFFSETS: {"database"},
    VERSION: {"database", "offsets"},
}


@dataclass(frozen=True, slots=True)
class BucketPosition:
    """One bucket of a scan: its snapshot, and where to go on (None: it was read to the end)."""

    partition: str | None
    bucket: int
    log_offset: int
    next_offset: int | None

    def table_bucket(self, path: str) -> TableBucket:
        """Return the bucket as users name it."""
        return TableBucket(path, self.partition, self.bucket)


@dataclass(frozen=True, slots=True)
class ScanToken:
    """Everything needed to go on with a scan anywhere: what is read, and how far it was read.

    `limit` is what remains of it; `filter` a serialised `Filter`; `lease_id` the lease that keeps it readable;
    `database` the id of the database (None: a token of before there were ids); with `offsets` rows come with theirs.
    """

    table_id: int
    schema_id: int
    source: str
    columns: tuple[str, ...]
    filter: bytes | None
    limit: int | None
    buckets: tuple[BucketPosition, ...]
    lease_id: str | None = None
    database: str | None = None
    offsets: bool = False

    def encode(self) -> bytes:
        """Return the token's bytes."""
        facts = {
            "table_id": self.table_id,
            "schema_id": self.schema_id,
            "source": self.source,
            "columns": list(self.columns),
            "filter": None if self.filter is None else base64.b64encode(self.filter).decode(),
            "limit": self.limit,
            "buckets": [[b.partition, b.bucket, b.log_offset, b.next_offset] for b in self.buckets],
        }
        if self.lease_id is not None:
            facts["lease"] = self.lease_id
        if self.database is not None:
            facts["database"] = self.database
        version = VERSION_WITHOUT_DATABASE if self.database is None else VERSION_WITHOUT_OFFSETS
        if self.offsets:
            facts["offsets"] = True
            version = VERSION
        body = json.dumps(facts, separators=(",", ":"), sort_keys=True).encode()
        return _HEADER.pack(MAGIC, version, google_crc32c.value(body)) + body

    @classmethod
    def decode(cls, token: bytes) -> ScanToken:
        """Return the token that the bytes say.

        Raises:
            InvalidError: the bytes are not a scan's resume token, are damaged, or of another version.
        """
        facts = _facts(token)
        return cls(
            table_id=_number(facts["table_id"]),
            schema_id=_number(facts["schema_id"]),
            source=_text(facts["source"]),
            columns=tuple(_text(name) for name in _list(facts["columns"])),
            filter=_filter(facts["filter"]),
            limit=None if facts["limit"] is None else _number(facts["limit"]),
            buckets=_buckets(_list(facts["buckets"])),
            lease_id=_text(facts["lease"]) if "lease" in facts else None,
            database=_text(facts["database"]) if "database" in facts else None,
            offsets="offsets" in facts,
        )


def _refuse(why: str, cause: Exception | None = None) -> NoReturn:
    raise InvalidError(f"not a resume token of a scan: {why}; pass the bytes of scan.resume_token unchanged") from cause


def _facts(token: bytes) -> dict[str, Any]:
    if not isinstance(token, bytes):
        _refuse(f"it is a {type(token).__name__}, not bytes")
    if not _HEADER.size < len(token) <= TOKEN_BYTES_MAX:
        _refuse(f"it has {len(token)} bytes")
    magic, version, crc = _HEADER.unpack_from(token)
    if magic != MAGIC:
        _refuse("it begins with other bytes")
    if not VERSION_WITHOUT_DATABASE <= version <= VERSION:
        _refuse(f"it is of version {version}, this is version {VERSION}")
    body = token[_HEADER.size :]
    if google_crc32c.value(body) != crc:
        _refuse("its checksum is wrong")
    try:
        facts = json.loads(body)
    except (ValueError, RecursionError) as error:
        _refuse("its body is no json", error)
    fields = _FIELDS | _MORE_FIELDS[version]
    if not isinstance(facts, dict) or set(facts) - {"lease"} != fields:
        _refuse("its fields are others")
    if facts.get("offsets", True) is not True:
        _refuse("its fields are others")
    return facts


def _list(value: object) -> list[Any]:
    if not isinstance(value, list):
        _refuse("a list is missing")
    return value


def _text(value: object) -> str:
    if not isinstance(value, str):
        _refuse("a name is missing")
    return value


def _number(value: object) -> int:
    # A bool is an int to Python, not to us.
    if type(value) is not int or not 0 <= value <= OFFSET_MAX:
        _refuse("a number is missing or out of range")
    return value


def _filter(value: object) -> bytes | None:
    if value is None:
        return None
    try:
        return base64.b64decode(_text(value), validate=True)
    except (binascii.Error, ValueError) as error:
        _refuse("its filter is damaged", error)


def _buckets(rows: list[Any]) -> tuple[BucketPosition, ...]:
    found: dict[tuple[str | None, int], BucketPosition] = {}
    for row in rows:
        if not isinstance(row, list) or len(row) != 4:
            _refuse("a bucket's position is malformed")
        partition, bucket, log_offset, next_offset = row
        position = BucketPosition(
            partition=None if partition is None else _text(partition),
            bucket=_number(bucket),
            log_offset=_number(log_offset),
            next_offset=None if next_offset is None else _number(next_offset),
        )
        if next_offset is not None and next_offset > log_offset:
            _refuse("a bucket's position is beyond its snapshot")
        found[position.partition, position.bucket] = position
    if len(found) != len(rows):
        _refuse("a bucket is named twice")
    return tuple(found.values())
