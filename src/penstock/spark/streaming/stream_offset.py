"""Where a stream stands, as Spark keeps it in its checkpoint: readable JSON, checked in full when it comes back.

A stream passes through three phases. *initial* says nothing but the table: Spark asks for it again when
the first micro-batch is replayed, so nothing that time changes may be in it. *snapshot* has the cut X and,
for each bucket, the offset up to which its rows at X were read. *log* has the next change of each bucket.
The first offset after the initial one also says where it began, for a replay of the first micro-batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from penstock.client.link.link import Link
from penstock.client.link.origin_check import check_database
from penstock.errors import ConflictError, InvalidError
from penstock.model.place.bucket import TableBucket
from penstock.model.table.table import TableInfo

VERSION: Final = 3
VERSION_WITHOUT_BIRTHS: Final = 1
VERSION_WITHOUT_DATABASE: Final = 2
Positions = Mapping[TableBucket, int]


class Phase(StrEnum):
    """What a stream is reading."""

    INITIAL = "initial"
    SNAPSHOT = "snapshot"
    LOG = "log"


@dataclass(frozen=True)
class StreamOffset:
    """Where a stream stands. `cut` and `cut_us` belong to the snapshot, `began` to the first offset only.

    Partitions of lower ids than `births` that are not named were read to their end, and dropped.
    """

    phase: Phase
    next: Positions
    cut: Positions | None = None
    cut_us: int = 0
    began: Positions | None = None
    lease: str | None = None
    births: int | None = None

    @property
    def snapshot_done(self) -> bool:
        """Tell whether every row at the cut was read."""
        return self.cut is not None and all(self.next[bucket] >= x for bucket, x in self.cut.items())

    def to_json(self, database: str, info: TableInfo) -> dict[str, Any]:
        """Return the offset as Spark keeps it."""
        facts: dict[str, Any] = {
            "version": VERSION,
            "database": database,
            "table": info.path,
            "table_id": info.table_id,
            "bucket_count": info.buckets,
            "phase": self.phase.value,
        }
        if self.phase is not Phase.INITIAL:
            facts["next"] = _named(self.next)
        if self.cut is not None:
            facts |= {"cut": _named(self.cut), "cut_us": self.cut_us}
        if self.began is not None:
            facts["began"] = _named(self.began)
        if self.lease is not None:
            facts["lease"] = self.lease
        if self.births is not None:
            facts["births"] = self.births
        return facts

    @classmethod
    def from_json(cls, facts: Mapping[str, Any], link: Link, info: TableInfo) -> StreamOffset:
        """Return the offset that Spark kept.

        Raises:
            ConflictError: the table was dropped and created again since, or is another.
            InvalidError: it is no offset of this kind of stream, or of another database.
        """
        stands = cls._read(facts, link, info)
        # None in a checkpoint of before databases had ids.
        database = facts.get("database")
        reached = {**(stands.cut or {}), **stands.next}
        check_database(
            link, "checkpoint", database=database, table_id=info.table_id, offsets=reached, births=stands.births
        )
        return stands

    @classmethod
    def _read(cls, facts: Mapping[str, Any], link: Link, info: TableInfo) -> StreamOffset:
        try:
            if facts["version"] not in (VERSION_WITHOUT_BIRTHS, VERSION_WITHOUT_DATABASE, VERSION):
                raise InvalidError("the checkpoint is of another version; upgrade", version=facts["version"])
            if (facts["table_id"], facts["bucket_count"]) != (info.table_id, info.buckets):
                same = facts["table"] == info.path
                raise ConflictError(
                    "the table was created again since the checkpoint was made; start with a new checkpoint"
                    if same
                    else f"the checkpoint is that of a query over {facts['table']}; each query has one of its own",
                    table=info.path,
                    table_id=info.table_id,
                    checkpoint=facts["table_id"],
                )
            return cls(
                Phase(facts["phase"]),
                _buckets(facts.get("next", {}), info),
                _buckets(facts["cut"], info) if "cut" in facts else None,
                int(facts.get("cut_us", 0)),
                _buckets(facts["began"], info) if "began" in facts else None,
                facts.get("lease"),
                int(facts["births"]) if "births" in facts else None,
            )
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            raise InvalidError(
                "not an offset of a stream over a table; use its own checkpoint", offset=facts
            ) from error


def _named(positions: Positions) -> dict[str, int]:
    return {
        str(bucket.bucket) if bucket.partition is None else f"{bucket.partition}#{bucket.bucket}": at
        for bucket, at in positions.items()
    }


def _buckets(named: Mapping[str, int], info: TableInfo) -> dict[TableBucket, int]:
    found = {}
    for name, at in named.items():
        partition, mark, number = name.rpartition("#")
        if bool(mark) != info.partitioned or at < 0:
            raise ValueError(name)
        found[TableBucket(info.path, partition if mark else None, int(number))] = at
    return found
