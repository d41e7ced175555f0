"""The identity of a database: an id of its own, and those of the databases that it was restored from.

Everything that names a place in a table outside of the node carries the id: tokens, positions, cuts. A backup
carries the ids of its origin and of that one's ancestors, each with the offsets that it had when the copy was
made. A restored database has all changes of its origin below these offsets, and none beyond.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Final

from penstock.engine.metadata.store import ABSENT, MetadataStore, Put
from penstock.errors import CorruptionError, InvalidError
from penstock.model.place.bucket import TableBucket
from penstock.model.place.cut_text import name_bucket

DATABASE: Final = "identity/database"
ANCESTORS: Final = "identity/ancestor/"

Offsets = Mapping[TableBucket, int]


_NOT_COPIED: Final = "this database was restored from a backup that does not have those changes; start anew with it"


@dataclass(frozen=True, slots=True)
class _Copied:
    """The state of a table when it was copied: the next partition id, and the offset of each bucket."""

    births: int
    offsets: dict[str, int]


class Identity:
    """The identity of the database in a metadata store; a new database gets one. Immutable."""

    def __init__(self, metadata: MetadataStore) -> None:
        entry = metadata.get(DATABASE)
        if entry is None:
            self.database = uuid.uuid4().hex
            metadata.commit([Put(DATABASE, self.database.encode(), ABSENT)])
        else:
            self.database = entry.value.decode()
        self._ancestors: dict[tuple[str, int], _Copied] = {}
        for found in metadata.list(ANCESTORS):
            database, table_id = found.key.removeprefix(ANCESTORS).split("/")
            try:
                self._ancestors[database, int(table_id)] = _Copied(**json.loads(found.value))
            except (ValueError, TypeError) as error:
                raise CorruptionError("metadata cannot be read", key=found.key) from error

    def check_origin(self, database: str, table_id: int, offsets: Offsets, births: int | None = None) -> None:
        """Refuse a place in a table that is not of this database, nor of what it has of an ancestor.

        `births` is the id of the first partition that it has not seen, where it counts.

        Raises:
            InvalidError: the database is another one, or the copy that was restored ends before the place.
        """
        if database == self.database:
            return
        known = self._ancestors.get((database, table_id))
        if known is None:
            restored = any(ancestor == database for ancestor, _ in self._ancestors)
            raise InvalidError(
                "the table was made after the backup that this database was restored from; start anew with its tables"
                if restored
                else "it is of another database; connect to that one, or start anew with this one",
                database=self.database,
                found=database,
            )
        for bucket, offset in offsets.items():
            # A bucket that the copy does not have was born later; nothing of it was read at its first offset.
            end = known.offsets.get(name_bucket(bucket), bucket.first_offset(offset))
            if offset > end:
                raise InvalidError(_NOT_COPIED, bucket=bucket, offset=offset, restored=end)
        if births is not None and births > known.births:
            # Partitions that were born there since have ids that others have here.
            raise InvalidError(_NOT_COPIED, partitions=births, restored=known.births)

    def backed_up(self, cuts: Mapping[int, Offsets], births: Mapping[int, int]) -> dict[str, bytes]:
        """Return what the metadata of a copy says of its ancestors: those of this database, and itself at the cuts.

        `births` is, by table, the id that the next partition would have got before the cut.
        """
        own = {
            (self.database, table_id): _Copied(
                # By name: of one that was dropped and made anew the later offsets count, which are higher.
                births[table_id],
                {name_bucket(bucket): offset for bucket, offset in offsets.items()},
            )
            for table_id, offsets in cuts.items()
        }
        return {
            f"{ANCESTORS}{database}/{table_id}": json.dumps(asdict(copied), separators=(",", ":")).encode()
            for (database, table_id), copied in (self._ancestors | own).items()
        }
