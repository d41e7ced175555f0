"""A bucket's schema in storage terms: columns by id, and how keys are made of them."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa

from penstock.codec.keys.keys import KeyCodec
from penstock.model.place.change import SYSTEM_FIELDS
from penstock.model.table.table import TableInfo


@dataclass(frozen=True, slots=True)
class TabletSchema:
    """The storage schema of one schema id. No key columns: an append-only log."""

    schema_id: int
    storage: pa.Schema
    key_columns: tuple[int, ...]
    user_columns: pa.Schema
    """The storage schema without system columns."""
    key_fields: pa.Schema
    """The key columns."""
    codec: KeyCodec | None = field(default=None, compare=False)

    @classmethod
    def of(cls, schema_id: int, storage: pa.Schema, key_columns: tuple[int, ...]) -> TabletSchema:
        """Return the schema with the codec of its key."""
        key_fields = pa.schema([storage.field(str(column)) for column in key_columns])
        codec = KeyCodec(key_fields.types) if key_columns else None
        user_columns = pa.schema(list(storage)[: -len(SYSTEM_FIELDS)]) if key_columns else storage
        return cls(schema_id, storage, key_columns, user_columns, key_fields, codec)

    @classmethod
    def of_table(cls, info: TableInfo) -> TabletSchema:
        """Return a table's schema in storage terms."""
        keys = tuple(column.id for column in info.schema.key_columns)
        return cls.of(info.schema_id, info.schema.storage_schema(), keys)

    @property
    def keyed(self) -> bool:
        """Tell whether rows have a key."""
        return bool(self.key_columns)

    def encode_keys(self, rows: pa.RecordBatch) -> pa.BinaryArray:
        """Return the key bytes of rows that have the key columns."""
        assert self.codec is not None
        return self.codec.encode([rows.column(str(column)) for column in self.key_columns])
