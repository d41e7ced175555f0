"""A bucket's schema in storage terms: columns by id, and how keys are made of them."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa

from penstock.codec.keys import KeyCodec
from penstock.model.change import SYSTEM_FIELDS


@dataclass(frozen=True, slots=True)
class TabletSchema:
    """The storage schema of one schema id. No key columns: an append-only log."""

    schema_id: int
    storage: pa.Schema
    key_columns: tuple[int, ...] = ()
    codec: KeyCodec | None = field(default=None, compare=False)

    @classmethod
    def of(cls, schema_id: int, storage: pa.Schema, key_columns: tuple[int, ...]) -> TabletSchema:
        """Return the schema with the codec of its key."""
        codec = KeyCodec([storage.field(str(column)).type for column in key_columns]) if key_columns else None
        return cls(schema_id, storage, key_columns, codec)

    @property
    def keyed(self) -> bool:
        """Tell whether rows have a key."""
        return bool(self.key_columns)

    @property
    def user_columns(self) -> pa.Schema:
        """Return the storage schema without system columns."""
        return pa.schema(list(self.storage)[: -len(SYSTEM_FIELDS)]) if self.keyed else self.storage

    @property
    def key_fields(self) -> pa.Schema:
        """Return the key columns."""
        return pa.schema([self.storage.field(str(column)) for column in self.key_columns])

    def encode_keys(self, rows: pa.RecordBatch) -> pa.BinaryArray:
        """Return the key bytes of rows that have the key columns."""
        assert self.codec is not None
        return self.codec.encode([rows.column(str(column)) for column in self.key_columns])
