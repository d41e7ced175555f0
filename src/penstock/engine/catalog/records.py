"""How the catalog is stored, and what of it is kept in memory.

`catalog/database/<name>`                      when it was created
`catalog/name/<database>/<table>`              the id of the table that has the name
`catalog/table/<table>`                        the table, without its columns
`catalog/creator/<table>`                      who created it, if the caller had a name
`catalog/schema/<table>/<schema>`              the columns, one entry for each schema id
`catalog/partition/<table>/<partition>`        a partition
`catalog/dropped/<table>[/<partition>]`        dropped, directories not removed yet
`catalog/gone/<table>/<partition>`             where a dropped partition ended, for as long as the table keeps its log
`catalog/counter`, `catalog/counter/<table>`   the next id of a table; of a partition

Ids stand in the keys in decimal; values are JSON.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from penstock.engine.metadata.store import ABSENT, Absent, Delete, Entry, MetadataStore, Put, Write
from penstock.errors import CorruptionError, InvalidError, TableNotFoundError
from penstock.model.node.log_state import GonePartition
from penstock.model.schema.schema import Schema
from penstock.model.table.partition import PartitionInfo
from penstock.model.table.table import TableInfo
from penstock.model.words.names import TablePath

ROOT: Final = "catalog/"
TABLE_COUNTER: Final = f"{ROOT}counter"


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
    """Everything stored of a catalog, read once; the catalog keeps it in step."""

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
        self.versions: dict[str, int] = {}
        self.databases: set[str] = set()
        self.tables: dict[int, TableInfo] = {}
        self.ids: dict[TablePath, int] = {}
        self.creators: dict[int, str] = {}
        self.schemas: dict[int, dict[int, Schema]] = {}
        self.partitions: dict[int, dict[str, PartitionInfo]] = {}
        self.dropped_tables: set[int] = set()
        self.dropped_partitions: dict[tuple[int, int], PartitionInfo | None] = {}
        self.gone: dict[int, dict[int, GonePartition]] = {}
        self.next_table = 1
        self.next_partition: dict[int, int] = {}
        entries: dict[str, list[Entry]] = {}
        for entry in store.list(ROOT):
            self.versions[entry.key] = entry.version
            entries.setdefault(entry.key.split("/")[1], []).append(entry)
        self._read_counters(entries.get("counter", []))
        self.databases = {entry.key.split("/")[2] for entry in entries.get("database", [])}
        self._read_schemas(entries.get("schema", []))
        self._read_dropped(entries.get("dropped", []))
        self._read_tables(entries.get("table", []))
        self._read_partitions(entries.get("partition", []))
        self.creators = {_ids(entry)[0]: value for entry, value in _decoded(entries.get("creator", []))}
        for entry, value in _decoded(entries.get("gone", [])):
            table_id, partition_id = _ids(entry)
            self.gone.setdefault(table_id, {})[partition_id] = GonePartition.from_json(partition_id, value)
        self._check_names(entries.get("name", []))

    def commit(self, writes: Sequence[Write], *, drops: bool = False) -> None:
        """Store changes of the catalog, all or none; what is in memory besides versions is the caller's.

        What `drops` something is also stored on a full disk.

        Raises:
            ConflictError: another node changed the store.
        """
        if drops:
            self._make_room()
        version = self._store.commit(writes)
        for write in writes:
            if isinstance(write, Put):
                self.versions[write.key] = version
            elif isinstance(write, Delete):
                self.versions.pop(write.key, None)

    def expected(self, key: str) -> int | Absent:
        """Return what a commit expects of a key: what was last seen there."""
        return self.versions.get(key, ABSENT)

    def table(self, table_id: int, *, dropped: bool = False) -> TableInfo:
        """Return the table of that id; one that is dropping only if `dropped`.

        Raises:
            TableNotFoundError: there is none.
        """
        with self.lock:
            info = self.tables.get(table_id)
            if info is None or (table_id in self.dropped_tables and not dropped):
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

    def _check_names(self, entries: list[Entry]) -> None:
        names = {TablePath(*entry.key.split("/")[2:]): value for entry, value in _decoded(entries)}
        if names != self.ids:
            differing = sorted(str(path) for path, _ in names.items() ^ self.ids.items())
            raise CorruptionError("the catalog's names and tables differ; restore it", tables=", ".join(differing[:10]))
        homeless = sorted(str(path) for path in self.ids if path.database not in self.databases)
        if homeless:
            raise CorruptionError("tables are of a database that is missing; restore it", tables=", ".join(homeless))

    def _read_counters(self, entries: list[Entry]) -> None:
        for entry, value in _decoded(entries):
            if entry.key == TABLE_COUNTER:
                self.next_table = value
            else:
                self.next_partition[_ids(entry)[0]] = value

    def _read_schemas(self, entries: list[Entry]) -> None:
        for entry, value in _decoded(entries):
            table_id, schema_id = _ids(entry)
            with _readable(entry):
                self.schemas.setdefault(table_id, {})[schema_id] = Schema.from_json(value)

    def _read_dropped(self, entries: list[Entry]) -> None:
        for entry in entries:
            ids = _ids(entry)
            if len(ids) == 1:
                self.dropped_tables.add(ids[0])
            else:
                self.dropped_partitions[ids[0], ids[1]] = None

    def _read_tables(self, entries: list[Entry]) -> None:
        for entry, value in _decoded(entries):
            (table_id,) = _ids(entry)
            with _readable(entry):
                schemas = self.schemas[table_id]
                value["created_with"] = schemas[0].ids_end
                info = TableInfo.from_json(value, schemas[value["schema_id"]])
            self.tables[table_id] = info
            self.partitions[table_id] = {}
            if table_id not in self.dropped_tables:
                self.ids[TablePath.parse(info.path)] = table_id

    def _read_partitions(self, entries: list[Entry]) -> None:
        for entry, value in _decoded(entries):
            with _readable(entry):
                partition = PartitionInfo.from_json(value)
                identity = (partition.table_id, partition.partition_id)
                if identity in self.dropped_partitions:
                    self.dropped_partitions[identity] = partition
                else:
                    self.partitions[partition.table_id][partition.name] = partition


def _decoded(entries: list[Entry]) -> Iterator[tuple[Entry, Any]]:
    for entry in entries:
        try:
            yield entry, json.loads(entry.value)
        except ValueError as cause:
            raise CorruptionError("metadata cannot be read", key=entry.key) from cause


@contextmanager
def _readable(entry: Entry) -> Iterator[None]:
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, InvalidError) as cause:
        raise CorruptionError("metadata cannot be read; restore it", key=entry.key, cause=repr(cause)) from cause


def _ids(entry: Entry) -> list[int]:
    with _readable(entry):
        return [int(part) for part in entry.key.split("/")[2:]]
