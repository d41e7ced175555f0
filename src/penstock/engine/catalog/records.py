"""The records of the catalog: their keys in the metadata store, and the same in memory.

`catalog/database/<name>`                      when it was created
`catalog/name/<database>/<table>`              the id of the table that has the name
`catalog/table/<table>`                        the table, without its columns
`catalog/creator/<table>`                      who created it, if the caller had a name
`catalog/schema/<table>/<schema>`              the columns, one entry for each schema id
`catalog/partition/<table>/<partition>`        a partition
`catalog/dropped/<table>[/<partition>]`        dropped, directories not removed yet
`catalog/gone/<table>/<partition>`             where a dropped partition ended, for as long as the table keeps its log
`catalog/counter`, `catalog/counter/<table>`   the next id of a table; of a partition

Ids stand in the keys in decimal; values are JSON. What is read at the start and what a commit stores get into
memory by the same steps, key by key.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from typing import Any, Final, TypeVar

from penstock.engine.metadata.store import ABSENT, Absent, Delete, MetadataStore, Put, Write
from penstock.errors import CorruptionError, InvalidError, TableNotFoundError
from penstock.model.node.log_state import GonePartition
from penstock.model.schema.schema import Schema
from penstock.model.table.partition import PartitionInfo
from penstock.model.table.table import TableInfo
from penstock.model.words.names import TablePath

T = TypeVar("T")

ROOT: Final = "catalog/"
TABLE_COUNTER: Final = f"{ROOT}counter"

_ORDER: Final = ("counter", "database", "schema", "dropped", "table", "name", "creator", "partition", "gone")
"""The kinds of keys in the order in which they are applied: a table needs its schemas, a partition its table."""


def database_key(name: str) -> str:
    """Return the key of a database."""
    return f"{ROOT}database/{name}"


def name_key(path: TablePath) -> str:
    """Return the key that holds a table's name."""
    return f"{ROOT}name/{path.database}/{path.table}"


def table_key(table_id: int) -> str:
    """Return the key of a table."""
    return f"{ROOT}table/{table_id}"


def creator_key(table_id: int) -> str:
    """Return the key that says who created a table."""
    return f"{ROOT}creator/{table_id}"


def schema_key(table_id: int, schema_id: int) -> str:
    """Return the key of one schema of a table."""
    return f"{ROOT}schema/{table_id}/{schema_id}"


def partition_key(table_id: int, partition_id: int) -> str:
    """Return the key of a partition."""
    return f"{ROOT}partition/{table_id}/{partition_id}"


def dropped_key(table_id: int, partition_id: int | None = None) -> str:
    """Return the key that says a table, or one partition of it, is dropped."""
    return f"{ROOT}dropped/{table_id}" + ("" if partition_id is None else f"/{partition_id}")


def gone_key(table_id: int, partition_id: int) -> str:
    """Return the key that says where a dropped partition ended."""
    return f"{ROOT}gone/{table_id}/{partition_id}"


def partition_counter_key(table_id: int) -> str:
    """Return the key of a table's next partition id."""
    return f"{TABLE_COUNTER}/{table_id}"


def encode(value: Any) -> bytes:
    """Return a stored value."""
    return json.dumps(value, separators=(",", ":")).encode()


def encode_table(info: TableInfo) -> bytes:
    """Return a table as it is stored: its columns, those of the creation too, stand under keys of their own."""
    stored = info.to_json()
    del stored["schema"], stored["created_with"]
    return encode(stored)


class CatalogRecords:
    """Everything stored of a catalog, in memory too: read once, and changed by its own commits alone.

    Thread-safe by its lock, which the caller holds while it reads the properties, and from there to its commit.
    """

    def __init__(
        self,
        store: MetadataStore,
        is_used: Callable[[str], bool] = lambda directory: False,
        make_room: Callable[[], None] = lambda: None,
    ) -> None:
        """Read the catalog; `is_used` tells whether a directory is there, `make_room` lets a full disk take a drop.

        Raises:
            CorruptionError: an entry cannot be read.
        """
        self._store = store
        self._is_used = is_used
        self._make_room = make_room
        self.lock = threading.RLock()
        self._versions: dict[str, int] = {}
        self._databases: set[str] = set()
        self._tables: dict[int, TableInfo] = {}
        self._ids: dict[TablePath, int] = {}
        self._creators: dict[int, str] = {}
        self._schemas: dict[int, dict[int, Schema]] = {}
        self._stored_partitions: dict[tuple[int, int], PartitionInfo] = {}
        self._partitions: dict[int, dict[str, PartitionInfo]] = {}
        self._dropped_tables: set[int] = set()
        self._dropped_partitions: dict[tuple[int, int], PartitionInfo | None] = {}
        self._gone: dict[int, dict[int, GonePartition]] = {}
        self._next_table = 1
        self._next_partition: dict[int, int] = {}
        for entry in sorted(store.list(ROOT), key=lambda entry: _rank(entry.key)):
            self._versions[entry.key] = entry.version
            self._apply(entry.key, entry.value)
        self._check_names()

    @property
    def databases(self) -> AbstractSet[str]:
        """Return the names of the databases."""
        return self._databases

    @property
    def tables(self) -> Mapping[int, TableInfo]:
        """Return every table by its id, also those that are dropping."""
        return self._tables

    @property
    def ids(self) -> Mapping[TablePath, int]:
        """Return the id of each table that is not dropped."""
        return self._ids

    @property
    def creators(self) -> Mapping[int, str]:
        """Return the names of those who created tables, by the table's id; some had none."""
        return self._creators

    @property
    def schemas(self) -> Mapping[int, Mapping[int, Schema]]:
        """Return the schemas of each table, by the table's id and their own."""
        return self._schemas

    @property
    def partitions(self) -> Mapping[int, Mapping[str, PartitionInfo]]:
        """Return the partitions of each table that are not dropped, by the table's id and their name."""
        return self._partitions

    @property
    def dropped_tables(self) -> AbstractSet[int]:
        """Return the ids of the tables that are dropping."""
        return self._dropped_tables

    @property
    def dropped_partitions(self) -> Mapping[tuple[int, int], PartitionInfo | None]:
        """Return the partitions that are dropping, by both ids; None where nothing but that is stored."""
        return self._dropped_partitions

    @property
    def gone(self) -> Mapping[int, Mapping[int, GonePartition]]:
        """Return where the dropped partitions of each table ended, by the table's id and theirs."""
        return self._gone

    @property
    def next_table(self) -> int:
        """Return the id that the next table gets."""
        return self._next_table

    def next_partition(self, table_id: int) -> int:
        """Return the id that the next partition of a table gets."""
        return self._next_partition.get(table_id, 1)

    def partition(self, table_id: int, partition_id: int) -> PartitionInfo | None:
        """Return a partition by its id, also one that is dropping; None if there is none."""
        return self._stored_partitions.get((table_id, partition_id))

    def commit(self, writes: Sequence[Write], *, drops: bool = False) -> None:
        """Store changes of the catalog, all or none, and apply them in memory.

        What `drops` something is also stored on a full disk.

        Raises:
            ConflictError: another node changed the store.
        """
        if drops:
            self._make_room()
        version = self._store.commit(writes)
        for write in sorted(writes, key=lambda write: _rank(write.key)):
            if isinstance(write, Put):
                self._versions[write.key] = version
                self._apply(write.key, write.value)
            elif isinstance(write, Delete):
                self._versions.pop(write.key, None)
                self._remove(write.key)

    def expected(self, key: str) -> int | Absent:
        """Return what a commit expects of a key: what was last seen there."""
        return self._versions.get(key, ABSENT)

    def table(self, table_id: int, *, dropped: bool = False) -> TableInfo:
        """Return the table of that id; one that is dropping only if `dropped`.

        Raises:
            TableNotFoundError: there is none.
        """
        with self.lock:
            info = self._tables.get(table_id)
            if info is None or (table_id in self._dropped_tables and not dropped):
                raise TableNotFoundError("the table was dropped; open it again by its path", table_id=table_id)
            return info

    def check_unused(self, table_id: int, partition_id: int | None = None) -> None:
        """Refuse to give an id whose directory is there: what is in it would appear under a new name.

        Raises:
            CorruptionError: it is.
        """
        directory = f"tables/{table_id}" + ("" if partition_id is None else f"/{partition_id}")
        if self._is_used(directory):
            raise CorruptionError(
                "the next id has files already, so the catalog is older than they are; open the node again to see more",
                directory=directory,
            )

    def _apply(self, key: str, content: bytes) -> None:
        """Have in memory what is stored under a key: the one way in, at the start and after each commit."""
        with _readable(key):
            match key.removeprefix(ROOT).split("/"):
                case ["counter"]:
                    self._next_table = json.loads(content)
                case ["counter", table]:
                    self._next_partition[int(table)] = json.loads(content)
                case ["database", name]:
                    self._databases.add(name)
                case ["name", database, table]:
                    self._ids[TablePath(database, table)] = json.loads(content)
                case ["creator", table]:
                    self._creators[int(table)] = json.loads(content)
                case ["schema", table, schema]:
                    self._schemas.setdefault(int(table), {})[int(schema)] = Schema.from_json(json.loads(content))
                case ["table", table]:
                    self._apply_table(int(table), json.loads(content))
                case ["partition", _, _]:
                    self._apply_partition(PartitionInfo.from_json(json.loads(content)))
                case ["dropped", table]:
                    self._dropped_tables.add(int(table))
                case ["dropped", table, partition]:
                    self._apply_partition_drop(int(table), int(partition))
                case ["gone", table, partition]:
                    ended = GonePartition.from_json(int(partition), json.loads(content))
                    self._gone.setdefault(int(table), {})[ended.partition_id] = ended
                case [kind, *_] if kind in _ORDER:
                    raise ValueError("the key has too few parts, or too many")

    def _apply_table(self, table_id: int, stored: dict[str, Any]) -> None:
        schemas = self._schemas[table_id]
        stored["created_with"] = schemas[0].ids_end
        self._tables[table_id] = TableInfo.from_json(stored, schemas[stored["schema_id"]])
        self._partitions.setdefault(table_id, {})

    def _apply_partition(self, partition: PartitionInfo) -> None:
        identity = (partition.table_id, partition.partition_id)
        self._stored_partitions[identity] = partition
        if identity in self._dropped_partitions:
            self._dropped_partitions[identity] = partition
        else:
            self._partitions[partition.table_id][partition.name] = partition

    def _apply_partition_drop(self, table_id: int, partition_id: int) -> None:
        # At the start drops come before partitions: then there is no partition to take away yet.
        partition = self._stored_partitions.get((table_id, partition_id))
        self._dropped_partitions[table_id, partition_id] = partition
        if partition is not None:
            del self._partitions[table_id][partition.name]

    def _remove(self, key: str) -> None:
        """Have nothing in memory of a key that was deleted; it may have been gone already."""
        match key.removeprefix(ROOT).split("/"):
            case ["counter", table]:
                self._next_partition.pop(int(table), None)
            case ["database", name]:
                self._databases.discard(name)
            case ["name", database, table]:
                self._ids.pop(TablePath(database, table), None)
            case ["creator", table]:
                self._creators.pop(int(table), None)
            case ["schema", table, schema]:
                _remove_below(self._schemas, int(table), int(schema))
            case ["table", table]:
                self._tables.pop(int(table), None)
                self._partitions.pop(int(table), None)
            case ["partition", table, partition]:
                self._remove_partition(int(table), int(partition))
            case ["dropped", table]:
                self._dropped_tables.discard(int(table))
            case ["dropped", table, partition]:
                self._dropped_partitions.pop((int(table), int(partition)), None)
            case ["gone", table, partition]:
                _remove_below(self._gone, int(table), int(partition))
            case _:
                raise AssertionError(f"nothing deletes {key}")

    def _remove_partition(self, table_id: int, partition_id: int) -> None:
        partition = self._stored_partitions.pop((table_id, partition_id), None)
        known = self._partitions.get(table_id, {})
        # A dropped one is not there any more, and its name may be that of a younger partition.
        if partition is not None and known.get(partition.name) is partition:
            del known[partition.name]

    def _check_names(self) -> None:
        """Refuse a catalog whose names do not lead to its tables, or whose tables have no database."""
        paths = {}
        for table_id, info in self._tables.items():
            with _readable(table_key(table_id)):
                if table_id not in self._dropped_tables:
                    paths[TablePath.parse(info.path)] = table_id
        if paths != self._ids:
            differing = sorted(str(path) for path, _ in paths.items() ^ self._ids.items())
            raise CorruptionError("the catalog's names and tables differ; restore it", tables=", ".join(differing[:10]))
        homeless = sorted(str(path) for path in paths if path.database not in self._databases)
        if homeless:
            raise CorruptionError("tables are of a database that is missing; restore it", tables=", ".join(homeless))


def _rank(key: str) -> int:
    """Return when a key is applied; one of a kind that is not known, and not read, comes last."""
    kind = key.removeprefix(ROOT).split("/", 1)[0]
    return _ORDER.index(kind) if kind in _ORDER else len(_ORDER)


def _remove_below(known: dict[int, dict[int, T]], table_id: int, number: int) -> None:
    """Remove what a table has under a number, and the table with the last one."""
    of_table = known.get(table_id, {})
    of_table.pop(number, None)
    if not of_table:
        known.pop(table_id, None)


@contextmanager
def _readable(key: str) -> Iterator[None]:
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, InvalidError) as cause:
        raise CorruptionError("metadata cannot be read; restore it", key=key, cause=repr(cause)) from cause
