"""Where a change stream stands, as JSON text that a caller may store and bring back.

The text comes back from outside: it is checked in full. While the snapshot is being read it also
holds the scan's resume token, so that a reader who stops there goes on there.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NoReturn

from penstock.errors import InvalidError
from penstock.model.place.bucket import TableBucket
from penstock.model.place.change import OFFSET_MAX
from penstock.model.place.cut_text import CUT_FIELDS, CutText

VERSION: Final = 3
VERSION_WITHOUT_BIRTHS: Final = 1
VERSION_WITHOUT_DATABASE: Final = 2
POSITION_LENGTH_MAX: Final = 64 << 20
_FIELDS: Final = {
    VERSION_WITHOUT_BIRTHS: {"version", "table_id", "offsets", "snapshot"},
    VERSION_WITHOUT_DATABASE: {"version", "table_id", "births", "offsets", "snapshot"},
    VERSION: {"version", "database", "table_id", "births", "offsets", "snapshot"},
}


@dataclass(frozen=True, slots=True)
class SnapshotPosition:
    """Where the snapshot before the changes stands, and when its cut was taken."""

    token: bytes
    cut_us: int


@dataclass(frozen=True, slots=True)
class StreamPosition:
    """The next offset of each bucket, and the snapshot that is to be read before (None: it was).

    Partitions of lower ids than `births` that are not named were read to their end, and dropped (None: it is unknown,
    or the table has none).
    `database` is the id of the table's database (None: a position of before there were ids).
    """

    table_id: int
    offsets: Mapping[tuple[str | None, int], int]
    snapshot: SnapshotPosition | None = None
    births: int | None = None
    database: str | None = None

    @classmethod
    def of(
        cls,
        database: str,
        table_id: int,
        offsets: Mapping[TableBucket, int],
        snapshot: SnapshotPosition | None,
        births: int | None = None,
    ) -> StreamPosition:
        """Return the position of a stream over a table."""
        named = {(b.partition, b.bucket): offset for b, offset in offsets.items()}
        return cls(table_id, named, snapshot, births, database)

    def bucket_offsets(self, path: str) -> dict[TableBucket, int]:
        """Return the next offset of each bucket, as users name them."""
        return {TableBucket(path, partition, bucket): at for (partition, bucket), at in self.offsets.items()}

    def encode(self) -> str:
        """Return the position as JSON."""
        snapshot = self.snapshot
        facts: dict[str, Any] = {
            "version": VERSION,
            "database": self.database,
            "table_id": self.table_id,
            "births": self.births,
            "offsets": [[partition, bucket, at] for (partition, bucket), at in self.offsets.items()],
            "snapshot": snapshot and {"token": base64.b64encode(snapshot.token).decode(), "cut_us": snapshot.cut_us},
        }
        return json.dumps(facts, separators=(",", ":"))

    @classmethod
    def decode(cls, text: str) -> StreamPosition:
        """Return the position that a text says, which may also be the text of a cut.

        Raises:
            InvalidError: the text is no position, or of another version.
        """
        facts = _facts(text)
        if set(facts) == CUT_FIELDS:
            cut = CutText.read(facts)
            return cls(cut.table_id, cut.offsets, None, None, cut.database)
        offsets: dict[tuple[str | None, int], int] = {}
        for row in facts["offsets"]:
            if not isinstance(row, list) or len(row) != 3 or not isinstance(row[0], str | None):
                _refuse("an offset is malformed")
            offsets[row[0], _number(row[1])] = _number(row[2])
        if len(offsets) != len(facts["offsets"]):
            _refuse("a bucket is named twice")
        births, database = _births(facts), _database(facts)
        return cls(_number(facts["table_id"]), offsets, _snapshot(facts["snapshot"]), births, database)


def _refuse(why: str, cause: Exception | None = None) -> NoReturn:
    raise InvalidError(f"not a position of a change stream: {why}; pass stream.position unchanged") from cause


def _facts(text: str) -> dict[str, Any]:
    if len(text) > POSITION_LENGTH_MAX:
        _refuse(f"it has {len(text)} characters")
    try:
        facts = json.loads(text)
    except (ValueError, RecursionError) as error:
        _refuse("it is no json", error)
    if not isinstance(facts, dict) or ("version" not in facts and set(facts) != CUT_FIELDS):
        _refuse("its fields are others")
    if "version" not in facts:
        return facts
    if facts["version"] not in _FIELDS:
        _refuse(f"it is of version {facts['version']}, this is version {VERSION}")
    if facts.keys() != _FIELDS[facts["version"]] or not isinstance(facts["offsets"], list):
        _refuse("its fields are others")
    return facts


def _database(facts: dict[str, Any]) -> str | None:
    if facts["version"] < VERSION:
        return None
    if not isinstance(facts["database"], str):
        _refuse("its database is missing")
    return facts["database"]


def _number(value: object) -> int:
    if type(value) is not int or not 0 <= value <= OFFSET_MAX:
        _refuse("a number is missing or out of range")
    return value


def _births(facts: Mapping[str, Any]) -> int | None:
    if facts["version"] == VERSION_WITHOUT_DATABASE:
        return _number(facts["births"])
    return None if facts.get("births") is None else _number(facts["births"])


def _snapshot(value: object) -> SnapshotPosition | None:
    if value is None:
        return None
    if not isinstance(value, dict) or value.keys() != {"token", "cut_us"} or not isinstance(value["token"], str):
        _refuse("its snapshot is malformed")
    try:
        token = base64.b64decode(value["token"], validate=True)
    except (binascii.Error, ValueError) as error:
        _refuse("its snapshot is damaged", error)
    return SnapshotPosition(token, _number(value["cut_us"]))
