"""Keys from outside: checked, encoded, and told apart by the bucket that they are in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.codec.keys.routing import bucket_of
from penstock.engine.table.open_table import OpenTable
from penstock.errors import InvalidError, PartitionNotFoundError, SchemaMismatchError, UnsupportedError
from penstock.model.place.bucket import BucketId, TableBucket
from penstock.model.schema.schema import Column, Schema
from penstock.model.table.partition import partition_codes

FindBucket = Callable[[TableBucket], BucketId | None]
Rows = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class KeyRows:
    """The first key columns (or all) of some rows, by name, and by the names that the caller knows."""

    table: OpenTable
    arrays: dict[str, pa.Array]
    shown: dict[str, pa.Array]
    count: int

    @classmethod
    def of(cls, table: OpenTable, batch: pa.RecordBatch, known: Schema) -> KeyRows:
        """Check keys; the batch has the first key columns as the caller knows them, in any order.

        Raises:
            UnsupportedError: the table has no key.
            SchemaMismatchError: a column is missing, not of its type, null, or not among the first of the key.
            InvalidError: the batch is no valid Arrow data.
        """
        info = table.info
        if not info.keyed:
            raise UnsupportedError("a log table has no key to look up; read its log", table=info.path)
        try:
            batch.validate(full=True)
        except pa.ArrowException as error:
            raise InvalidError("the batch is not valid Arrow data", error=str(error)) from error
        names = batch.schema.names
        columns = known.key_columns[: len(names)]
        if not columns or {column.name for column in columns} != set(names) or len(set(names)) < len(names):
            raise SchemaMismatchError(
                "keys have the columns of the primary key, from the first on",
                primary_key=list(known.primary_key),
                columns=names,
            )
        shown = {c.name: _checked(batch.column(c.name), c) for c in columns}
        if known is info.schema:
            return cls(table, shown, shown, batch.num_rows)
        # A key column may have another name by now; its place in the key is the same.
        arrays = dict(zip(info.primary_key, shown.values(), strict=False))
        return cls(table, arrays, shown, batch.num_rows)

    @property
    def complete(self) -> bool:
        """Tell whether every key column is there."""
        return len(self.arrays) == len(self.table.info.primary_key)

    def encode(self) -> pa.BinaryArray:
        """Return the key bytes of each row, or what the keys that begin so begin with."""
        codec = self.table.schema.codec
        assert codec is not None
        arrays = list(self.arrays.values())
        return codec.encode(arrays) if self.complete else codec.encode_prefix(arrays)

    def buckets(self, find: FindBucket | None = None) -> dict[BucketId, Rows | None]:
        """Return for each bucket the rows in it; None stands for all. Rows of partitions that do not exist are in none.

        The arrays must have every partition and bucket key column. `find` returns the bucket that a name stands for, if
        it is not the present one.
        """
        info = self.table.info
        codes = np.zeros(self.count, np.int64)
        names: list[str | None] = [None]
        if info.partitioned:
            columns = tuple(info.schema.column(name) for name in info.partitioned_by)
            named, codes = partition_codes(columns, [self.arrays[name] for name in info.partitioned_by])
            names = list(named)
        if info.buckets > 1:
            codes = codes * info.buckets + bucket_of([self.arrays[name] for name in info.bucket_key], info.buckets)
        found = np.unique(codes) if self.count != 1 else codes
        parts: dict[BucketId, Rows | None] = {}
        for code in found.tolist():
            partition, number = divmod(code, info.buckets)
            bucket = (find or self._bucket_id)(TableBucket(info.path, names[partition], number))
            if bucket is not None:
                parts[bucket] = None if len(found) == 1 else np.flatnonzero(codes == code)
        return parts

    def possible_buckets(self) -> list[BucketId]:
        """Return the buckets in which keys that begin as the one row does can be."""
        info = self.table.info
        partitions: list[str | None] = [None]
        if info.partitioned:
            partitions = [partition.name for partition in self.table.partitions()]
            if all(name in self.arrays for name in info.partitioned_by):
                columns = tuple(info.schema.column(name) for name in info.partitioned_by)
                partitions = list(partition_codes(columns, [self.arrays[name] for name in info.partitioned_by])[0])
        numbers = list(range(info.buckets))
        if all(name in self.arrays for name in info.bucket_key):
            numbers = bucket_of([self.arrays[name] for name in info.bucket_key], info.buckets).tolist()
        found = [
            self._bucket_id(TableBucket(info.path, partition, number)) for partition in partitions for number in numbers
        ]
        return [bucket for bucket in found if bucket is not None]

    def _bucket_id(self, name: TableBucket) -> BucketId | None:
        try:
            return self.table.bucket_id(name)
        except PartitionNotFoundError:
            return None


def _checked(array: pa.Array, column: Column) -> pa.Array:
    if array.type != column.type:
        raise SchemaMismatchError(
            "column has another type", column=column.name, type=str(array.type), expected=str(column.type)
        )
    if array.null_count:
        raise SchemaMismatchError("key columns are never null", column=column.name)
    return array
