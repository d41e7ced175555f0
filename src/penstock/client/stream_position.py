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
from penstock.model.bucket import TableBucket
from penstock.model.change import OFFSET_MAX

VERSION: Final = 2
OLD_VERSION: Final = 1
"""Without `births`: of a table that is not partitioned, or made before they were told."""
POSITION_LENGTH_MAX: Final = 64 << 20
_FIELDS: Final = {
    OLD_VERSION: {"version", "table_id", "offsets", "snapshot"},
    VERSION: {"version", "table_id", "births", "offsets", "snapshot"},
}


@dataclass(frozen=True, slots=True)
class SnapshotPosition:
    """Where the snapshot before the changes stands, and when its cut was taken."""

    token: bytes
    cut_us: int


@dataclass(frozen=True, slots=True)
class StreamPosition:
    """The next offset of each bucket, and the snapshot that is to be read before (None: it was).

    Partitions of lower ids than `births` that are not named were read to their end, and dropped.
    """

    table_id: int
    offsets: Mapping[tuple[str | None, int], int]
    snapshot: SnapshotPosition | None = None
    births: int | None = None

    @classmethod
    def of(
        cls,
        table_id: int,
        offsets: Mapping[TableBucket, int],
        snapshot: SnapshotPosition | None,
        births: int | None = None,
    ) -> StreamPosition:
        """Return the position of a stream over a table."""
        return cls(table_id, {(b.partition, b.bucket): offset for b, offset in offsets.items()}, snapshot, births)

    def bucket_offsets(self, path: str) -> dict[TableBucket, int]:
        """Return the next offset of each bucket, as users name them."""
        return {TableBucket(path, partition, bucket): at for (partition, bucket), at in self.offsets.items()}

    def encode(self) -> str:
        """Return the position as JSON."""
        snapshot = self.snapshot
        facts: dict[str, Any] = {"version": OLD_VERSION, "table_id": self.table_id}
        if self.births is not None:
            facts |= {"version": VERSION, "births": self.births}
        facts |= {
            "offsets": [[partition, bucket, at] for (partition, bucket), at in self.offsets.items()],
            "snapshot": snapshot and {"token": base64.b64encode(snapshot.token).decode(), "cut_us": snapshot.cut_us},
        }
        return json.dumps(facts, separators=(",", ":"))

    @classmethod
    def decode(cls, text: str) -> StreamPosition:
        """Return the position that a text says.

        Raises:
            InvalidError: the text is no position, or of another version.
        """
        facts = _facts(text)
        offsets: dict[tuple[str | None, int], int] = {}
        for row in facts["offsets"]:
            if not isinstance(row, list) or len(row) != 3 or not isinstance(row[0], str | None):
                _refuse("an offset is malformed")
            offsets[row[0], _number(row[1])] = _number(row[2])
        if len(offsets) != len(facts["offsets"]):
            _refuse("a bucket is named twice")
        return cls(_number(facts["table_id"]), offsets, _snapshot(facts["snapshot"]), _births(facts))


def _refuse(why: str, cause: Exception | None = None) -> NoReturn:
    raise InvalidError(f"not a position of a change stream: {why}; pass stream.position unchanged") from cause


def _facts(text: str) -> dict[str, Any]:
    if len(text) > POSITION_LENGTH_MAX:
        _refuse(f"it has {len(text)} characters")
    try:
        facts = json.loads(text)
    except (ValueError, RecursionError) as error:
        _refuse("it is no json", error)
    if not isinstance(facts, dict) or "version" not in facts:
        _refuse("its fields are others")
    if facts["version"] not in (OLD_VERSION, VERSION):
        _refuse(f"it is of version {facts['version']}, this is version {VERSION}")
    if facts.keys() != _FIELDS[facts["version"]] or not isinstance(facts["offsets"], list):
        _refuse("its fields are others")
    return facts


def _number(value: object) -> int:
    if type(value) is not int or not 0 <= value <= OFFSET_MAX:
        _refuse("a number is missing or out of range")
    return value


def _births(facts: Mapping[str, Any]) -> int | None:
    return _number(facts["births"]) if "births" in facts else None


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
