"""Random writes to one bucket, each as a request to a tablet and as a call to the oracle."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Final, Literal

import numpy as np
import pyarrow as pa
from tests.kit.oracle import Oracle

from penstock.model.place.change import SYSTEM_FIELDS
from penstock.model.place.facts import NO_ID
from penstock.model.table.merge_engine import MergeEngine
from penstock.tablet.merge.rule import Request
from penstock.tablet.schema import TabletSchema

Kind = Literal["upsert", "update", "apply", "delete", "clear"]

_TYPES: Final = {"0": pa.int64(), "1": pa.string(), "2": pa.int64(), "3": pa.float64()}
COLUMNS: Final = ("0", "1", "2")
ADDED_COLUMN: Final = "3"
KEY: Final = "0"
VERSION: Final = "2"


def tablet_schema(*, added: bool = False) -> TabletSchema:
    """Return the schema of the bucket under test, or the one after a column was added."""
    names = (*COLUMNS, ADDED_COLUMN) if added else COLUMNS
    storage = pa.schema([*(pa.field(name, _TYPES[name]) for name in names), *SYSTEM_FIELDS])
    return TabletSchema.of(2 if added else 1, storage, (int(KEY),))


@dataclass(frozen=True, slots=True)
class TabletWrite:
    """One write; `deletes` marks the rows of an apply that delete, `columns` are those that it names."""

    kind: Kind
    rows: Sequence[dict[str, Any]]
    deletes: Sequence[bool] = ()
    columns: tuple[str, ...] | None = None
    writer_id: bytes = NO_ID
    sequence: int = -1

    def request(self, schema: TabletSchema) -> Request:
        """Return the write as a tablet takes it."""
        names = [name for name in schema.user_columns.names if name == KEY or self._has(name)]
        fields = [schema.storage.field(name) for name in names]
        arrays = [pa.array([row.get(field.name) for row in self.rows], field.type) for field in fields]
        batch = pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))
        deletes = None
        if self.kind in {"apply", "delete"}:
            deletes = np.array(self.deletes if self.kind == "apply" else [True] * len(self.rows), np.bool_)
        columns = None if self.columns is None else tuple(int(name) for name in self.columns)
        return Request(batch, schema.encode_keys(batch), deletes, columns, clears=self.kind == "clear")

    def tell(self, oracle: Oracle) -> None:
        """Do the same to the oracle."""
        if self.kind in {"upsert", "update"}:
            oracle.upsert(self.rows, self.columns)
        elif self.kind == "apply":
            oracle.apply(zip(self.rows, self.deletes, strict=True), self.columns)
        elif self.kind == "delete":
            oracle.delete(self.rows)
        else:
            assert self.columns is not None
            oracle.clear(self.rows, self.columns)

    def _has(self, name: str) -> bool:
        if self.kind in {"delete", "clear"}:
            return False
        return self.columns is None or name in self.columns


class RandomWrites:
    """Draws writes on few keys and few values, so that all that can meet does meet."""

    def __init__(
        self, random: Random, merge_engine: MergeEngine, *, keys: int = 20, rows_max: int = 12, writers: int = 3
    ) -> None:
        self._random = random
        self._merge_engine = merge_engine
        self._keys = keys
        self._rows_max = rows_max
        self._writers = [random.randbytes(16) for _ in range(writers)]
        self._sequences = dict.fromkeys(self._writers, 0)

    def next(self, columns: Sequence[str]) -> TabletWrite:
        """Return another write to a table that has these columns."""
        random = self._random
        rows = [self._row(columns) for _ in range(random.randint(1, self._rows_max))]
        writer_id = random.choice([NO_ID, *self._writers])
        sequence = -1
        if writer_id != NO_ID:
            self._sequences[writer_id] += random.randint(1, 3)
            sequence = self._sequences[writer_id]
        kinds: list[Kind] = ["upsert"]
        if self._merge_engine is MergeEngine.LAST_ROW:
            kinds += ["upsert", "update", "apply", "delete", "clear"]
        kind = random.choice(kinds)
        deletes = [random.random() < 0.4 for _ in rows] if kind == "apply" else ()
        some = tuple(name for name in columns if name != KEY and random.random() < 0.5) or (columns[-1],)
        partial = kind in {"update", "clear"} or (kind == "apply" and random.random() < 0.3)
        return TabletWrite(kind, rows, deletes, some if partial else None, writer_id, sequence)

    def _row(self, columns: Sequence[str]) -> dict[str, Any]:
        random = self._random
        values = {
            "0": random.randrange(self._keys),
            "1": random.choice((None, "", "a", "ž" * 9)),
            "2": random.choice((None, 1, 2, 3)),
            "3": random.choice((None, 0.5)),
        }
        return {name: values[name] for name in columns}
