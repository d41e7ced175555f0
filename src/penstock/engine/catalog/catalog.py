"""The catalog: which databases, tables, schemas and partitions there are.

One node owns the metadata store, so the catalog keeps all of it in memory and writes through: a
change is in the store first, then in memory. Every change is one commit that expects what was read.

- Ids of tables and partitions are never used again, also after a crash: the counter is in the commit.
- What is dropped is *dropping* until its directories are gone (`dropped`, `forget`), so that a crash in
  between leaks nothing, and the holder of a lease can still learn the schema.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import pyarrow as pa

from penstock.engine.catalog.partitions import Partitions
from penstock.engine.catalog.records import (
    TABLE_COUNTER,
    CatalogRecords,
    creator_key,
    database_key,
    dropped_key,
    encode,
    encode_table,
    name_key,
    partition_counter_key,
    schema_key,
    table_key,
)
from penstock.engine.metadata.store import ABSENT, Check, Delete, MetadataStore, Put, Write
from penstock.errors import (
    AlreadyExistsError,
    ConflictError,
    DatabaseNotFoundError,
    InvalidError,
    LimitError,
    NotFoundError,
    TableNotFoundError,
)
from penstock.model.node.principal import UNNAMED
from penstock.model.node.share import Share
from penstock.model.schema.aggregate import AggFunction
from penstock.model.schema.schema import Schema
from penstock.model.table.alteration import with_column, with_properties
from penstock.model.table.table import TableInfo, TableSpec
from penstock.model.words.names import DEFAULT_DATABASE, TablePath, check_database_name
from penstock.model.words.near_name import did_you_mean
from penstock.runtime.clock import Clock

TABLES_MAX: Final = 10_000


class Catalog:
    """Databases, tables, schemas and partitions of a node; every change is durable when it returns.

    Thread-safe by the lock of its records.
    """

    def __init__(
        self,
        store: MetadataStore,
        clock: Clock,
        is_used: Callable[[str], bool] = lambda directory: False,
        *,
        tables_max: int = TABLES_MAX,
        make_room: Callable[[], None] = lambda: None,
    ) -> None:
        """Read the catalog; make the database `default` if it is not there. `is_used` tells of a directory's being.

        `make_room` is called before a drop: it is to succeed on a full disk.

        Raises:
            CorruptionError: an entry cannot be read.
        """
        self._clock = clock
        self._tables_max = tables_max
        self._records = CatalogRecords(store, is_used, make_room)
        self.partitions = Partitions(self._records, clock)
        if DEFAULT_DATABASE not in self._records.databases:
            self.create_database(DEFAULT_DATABASE)

    def create_database(self, name: str, *, if_not_exists: bool = False) -> None:
        """Create a database.

        Raises:
            InvalidError: no valid name.
            AlreadyExistsError: there is one of that name.
        """
        check_database_name(name)
        with self._records.lock:
            twin = _twin(name, self._records.databases)
            if twin is not None:
                if if_not_exists and twin == name:
                    return
                raise AlreadyExistsError(_taken("database", name, twin), database=twin)
            self._records.commit([Put(database_key(name), encode({"created_ms": self._clock.wall_ms()}), ABSENT)])

    def drop_database(self, name: str, *, cascade: bool = False, if_exists: bool = False) -> list[TableInfo]:
        """Drop a database, with its tables if `cascade`; return the tables dropped.

        Raises:
            DatabaseNotFoundError: there is none of that name.
            InvalidError: it has tables, or is the default one.
        """
        with self._records.lock:
            if if_exists and name not in self._records.databases:
                return []
            self._check_database(name)
            if name == DEFAULT_DATABASE:
                raise InvalidError("the database is always there; drop its tables", database=name)
            paths = [path for path in self._records.ids if path.database == name]
            if paths and not cascade:
                raise InvalidError(
                    "the database has tables; drop them, or use cascade", database=name, tables=len(paths)
                )
            key = database_key(name)
            tables = [self.table(path) for path in paths]
            self._records.commit(
                [Delete(key, self._records.expected(key)), *(write for p in paths for write in self._drop_writes(p))],
                drops=True,
            )
            return tables

    def list_databases(self) -> list[str]:
        """Return the names of all databases, sorted."""
        with self._records.lock:
            return sorted(self._records.databases)

    def create_table(
        self, path: str | TablePath, spec: TableSpec, *, creator: str, if_not_exists: bool = False
    ) -> TableInfo:
        """Create a table; with `if_not_exists` return the one there is, whatever its schema.

        Raises:
            InvalidError: no valid path.
            DatabaseNotFoundError: its database does not exist.
            AlreadyExistsError: there is a table of that name.
            LimitError: there are too many tables, or too many of this creator.
        """
        parsed = TablePath.parse(path)
        with self._records.lock:
            self._check_database(parsed.database)
            siblings = [known.table for known in self._records.ids if known.database == parsed.database]
            twin = _twin(parsed.table, siblings)
            if twin is not None:
                if if_not_exists and twin == parsed.table:
                    return self.table(parsed)
                found = str(TablePath(parsed.database, twin))
                raise AlreadyExistsError(_taken("table", parsed.table, twin), table=found)
            self._check_room(creator)
            given = {field.name: getattr(spec, field.name) for field in dataclasses.fields(TableSpec)}
            table_id = self._records.next_table
            self._records.check_unused(table_id)
            info = TableInfo(
                path=str(parsed),
                table_id=table_id,
                created_ms=self._clock.wall_ms(),
                created_with=spec.schema.ids_end,
                **given,
            )
            database = database_key(parsed.database)
            named = [] if creator in UNNAMED else [Put(creator_key(table_id), encode(creator), ABSENT)]
            self._records.commit(
                [
                    *named,
                    Check(database, self._records.expected(database)),
                    Put(TABLE_COUNTER, encode(table_id + 1), self._records.expected(TABLE_COUNTER)),
                    Put(name_key(parsed), encode(table_id), ABSENT),
                    Put(table_key(table_id), encode_table(info), ABSENT),
                    Put(schema_key(table_id, 0), encode(info.schema.to_json()), ABSENT),
                ]
            )
            return self._records.tables[table_id]

    def table(self, path: str | TablePath) -> TableInfo:
        """Return the table of that path.

        Raises:
            InvalidError: no valid path.
            DatabaseNotFoundError: its database does not exist.
            TableNotFoundError: there is no such table.
        """
        parsed = TablePath.parse(path)
        with self._records.lock:
            self._check_database(parsed.database)
            table_id = self._records.ids.get(parsed)
            if table_id is None:
                # A name without its database is the likeliest slip.
                elsewhere = [str(other) for other in self._records.ids if other.table == parsed.table]
                near = [str(other) for other in self._records.ids if other.database == parsed.database]
                meant = f"did you mean {min(elsewhere)}? " if elsewhere else did_you_mean(parsed, near)
                raise TableNotFoundError(f"no such table; {meant}create it, or look at list_tables", table=str(parsed))
            return self._records.tables[table_id]

    def table_by_id(self, table_id: int, *, dropped: bool = False) -> TableInfo:
        """Return the table of that id; one that is dropping only if `dropped`.

        Raises:
            TableNotFoundError: there is none.
        """
        return self._records.table(table_id, dropped=dropped)

    def list_tables(self, database: str = DEFAULT_DATABASE) -> list[str]:
        """Return the names of a database's tables, sorted.

        Raises:
            DatabaseNotFoundError: there is none of that name.
        """
        with self._records.lock:
            self._check_database(database)
            return sorted(path.table for path in self._records.ids if path.database == database)

    def tables(self) -> list[TableInfo]:
        """Return every table that is not dropped, by id."""
        with self._records.lock:
            return [self._records.tables[table_id] for table_id in sorted(self._records.ids.values())]

    def drop_table(self, path: str | TablePath, *, if_exists: bool = False) -> TableInfo | None:
        """Drop a table and return it; its name is free at once, its record stays until `forget`.

        Raises:
            InvalidError: no valid path.
            DatabaseNotFoundError: its database does not exist.
            TableNotFoundError: there is no such table.
        """
        parsed = TablePath.parse(path)
        with self._records.lock:
            if if_exists and parsed not in self._records.ids:
                return None
            info = self.table(parsed)
            self._records.commit(self._drop_writes(parsed), drops=True)
            return info

    def add_column(
        self,
        table_id: int,
        name: str,
        type_: str | pa.DataType,
        agg: AggFunction | str | None = None,
        *,
        delimiter: str | None = None,
    ) -> TableInfo:
        """Add a nullable column; the table gets a new schema id.

        Raises:
            TableNotFoundError: the table was dropped.
            AlreadyExistsError: there is a column of that name.
            InvalidError: the column is not allowed, or does not go with the merge engine.
        """
        info = self.table_by_id(table_id)
        return self.replace(info, with_column(info, name, type_, agg, delimiter=delimiter))

    def set_properties(self, table_id: int, properties: Mapping[str, Any]) -> TableInfo:
        """Change properties of a table; None sets one back to its default.

        Raises:
            TableNotFoundError: the table was dropped.
            InvalidError: an unknown property, one that cannot change, or a value that does not go with the table.
        """
        info = self.table_by_id(table_id)
        return self.replace(info, with_properties(info, properties))

    def replace(self, before: TableInfo, after: TableInfo) -> TableInfo:
        """Put an altered table in the place of what was seen before; return it.

        Raises:
            TableNotFoundError: the table was dropped.
            ConflictError: it was altered meanwhile.
        """
        records, table_id = self._records, before.table_id
        with records.lock:
            if self.table_by_id(table_id) is not before:
                raise ConflictError("the table was altered meanwhile; look at it and try again", table=before.path)
            writes: list[Write] = [self._put_table(after)]
            if after.schema_id != before.schema_id:
                assert after.schema_id == before.schema_id + 1
                writes.append(Put(schema_key(table_id, after.schema_id), encode(after.schema.to_json()), ABSENT))
            records.commit(writes)
            return records.tables[table_id]

    def schema(self, table_id: int, schema_id: int) -> Schema:
        """Return a schema that the table has or had; also of a table that is dropping.

        Raises:
            TableNotFoundError: there is no such table.
            NotFoundError: it never had that schema.
        """
        with self._records.lock:
            self.table_by_id(table_id, dropped=True)
            schema = self._records.schemas[table_id].get(schema_id)
            if schema is None:
                raise NotFoundError("the table never had that schema", table_id=table_id, schema_id=schema_id)
            return schema

    def knows(self, table_id: int, partition_id: int | None = None) -> bool:
        """Tell whether there is a table, or a partition of it, of that id; also one that is dropping."""
        with self._records.lock:
            info = self._records.tables.get(table_id)
            if info is None or partition_id is None:
                return info is not None
            return self.partitions.find(table_id, partition_id) is not None if info.partitioned else partition_id == 0

    def has_given(self, table_id: int, partition_id: int | None = None) -> bool:
        """Tell whether an id was ever given to a table, or in a table to a partition."""
        with self._records.lock:
            if partition_id is None:
                return table_id < self._records.next_table
            return partition_id < self._records.next_partition(table_id)

    def dropped(self) -> list[int]:
        """Return the ids of dropped tables whose directories may still be there."""
        with self._records.lock:
            return sorted(self._records.dropped_tables)

    def forget(self, table_id: int) -> None:
        """Remove the record of a dropped table, its directories being gone; idempotent."""
        records = self._records
        with records.lock:
            if table_id not in records.dropped_tables:
                return
            self.partitions.forget_all(table_id)
            keys = [schema_key(table_id, schema_id) for schema_id in records.schemas[table_id]]
            keys += [partition_counter_key(table_id), table_key(table_id), dropped_key(table_id), creator_key(table_id)]
            records.commit([Delete(key) for key in keys])

    def _check_room(self, creator: str) -> None:
        ids, creators = self._records.ids, self._records.creators
        share = Share(creator, self._tables_max)
        if not share.fits(sum(creators.get(table_id) == share.principal for table_id in ids.values())):
            raise share.refusal(LimitError, "the tables (tables.max)", "drop some")
        if len(ids) >= self._tables_max:
            raise LimitError("there are tables.max tables; drop some, or raise the setting", max=self._tables_max)

    def _check_database(self, name: str) -> None:
        if name not in self._records.databases:
            meant = did_you_mean(name, self._records.databases)
            raise DatabaseNotFoundError(
                f"no such database; {meant}create it with create_database", database=ascii(name)
            )

    def _put_table(self, info: TableInfo) -> Put:
        key = table_key(info.table_id)
        return Put(key, encode_table(info), self._records.expected(key))

    def _drop_writes(self, path: TablePath) -> list[Write]:
        table_id = self._records.ids[path]
        name, table = name_key(path), table_key(table_id)
        return [
            Delete(name, self._records.expected(name)),
            Put(dropped_key(table_id), b"", ABSENT),
            Check(table, self._records.expected(table)),
        ]


def _twin(name: str, names: Iterable[str]) -> str | None:
    """Return the name among others that differs at most in case: SQL could not tell the two apart."""
    return next((known for known in names if known.lower() == name.lower()), None)


def _taken(noun: str, name: str, twin: str) -> str:
    """Say that there is one of a name, and what to do about it."""
    if twin != name:
        return f"there is a {noun} whose name differs only in case; use that name, or another"
    return f"there is a {noun} of that name; pass if_not_exists=True to use it, or choose another name"
