"""A cut as JSON text: the ids of database and table, and an offset for each bucket.

Buckets are named `0`, or `day=2026-01-01/0` in a partition. Offsets are texts, for they pass 2^53, beyond which
many readers of JSON round. The text comes back from outside: it is checked in full.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NoReturn

from penstock.errors import InvalidError
from penstock.model.place.bucket import TableBucket
from penstock.model.place.change import OFFSET_MAX

CUT_FIELDS: Final = {"database", "table", "offsets"}
CUT_LENGTH_MAX: Final = 64 << 20
_BUCKET_MAX: Final = 65_535


@dataclass(frozen=True, slots=True)
class CutText:
    """What the text of a cut says."""

    database: str
    table_id: int
    offsets: Mapping[tuple[str | None, int], int]

    def bucket_offsets(self, path: str) -> dict[TableBucket, int]:
        """Return the offsets by bucket, as users name them."""
        return {TableBucket(path, partition, bucket): at for (partition, bucket), at in self.offsets.items()}

    @classmethod
    def read(cls, cut: str | Mapping[str, Any]) -> CutText:
        """Return what a cut's JSON says, as text or parsed.

        Raises:
            InvalidError: it is none.
        """
        facts = _parsed(cut) if isinstance(cut, str) else cut
        if not isinstance(facts, Mapping) or set(facts) != CUT_FIELDS:
            _refuse("its fields are others")
        database, table_id, named = facts["database"], facts["table"], facts["offsets"]
        if not isinstance(database, str) or type(table_id) is not int or not isinstance(named, Mapping):
            _refuse("a field is of another type")
        return cls(database, table_id, {_bucket(name): _offset(at) for name, at in named.items()})


def write_cut(database: str, table_id: int, offsets: Mapping[TableBucket, int]) -> str:
    """Return the text of a cut."""
    named = {name_bucket(bucket): str(offset) for bucket, offset in offsets.items()}
    return json.dumps({"database": database, "table": table_id, "offsets": named}, separators=(",", ":"))


def name_bucket(bucket: TableBucket) -> str:
    """Return how a cut names a bucket of its table."""
    return str(bucket.bucket) if bucket.partition is None else f"{bucket.partition}/{bucket.bucket}"


def _refuse(why: str, cause: Exception | None = None) -> NoReturn:
    raise InvalidError(f"not the json of a cut: {why}; pass what cut.to_json() gave unchanged") from cause


def _parsed(text: str) -> object:
    if len(text) > CUT_LENGTH_MAX:
        _refuse(f"it has {len(text)} characters")
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        _refuse("it is no json", error)


def _bucket(name: object) -> tuple[str | None, int]:
    partition, mark, number = name.rpartition("/") if isinstance(name, str) else ("", "", "")
    if not number.isascii() or not number.isdecimal() or int(number) > _BUCKET_MAX or (mark and not partition):
        _refuse("a bucket is named otherwise")
    return partition if mark else None, int(number)


def _offset(value: object) -> int:
    # Parsed and written again by another program, a text may have become a number.
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) <= 19:
        value = int(value)
    if type(value) is not int or not 0 <= value <= OFFSET_MAX:
        _refuse("an offset is missing or out of range")
    return value
