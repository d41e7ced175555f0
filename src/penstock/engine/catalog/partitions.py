"""The partitions of tables, as the catalog knows them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from penstock.engine.catalog.records import (
    CatalogRecords,
    dropped_key,
    encode,
    gone_key,
    partition_counter_key,
    partition_key,
    table_key,
)
from penstock.engine.metadata.store import ABSENT, WRITES_MAX, Check, Delete, Put, Write
from penstock.errors import AlreadyExistsError, LimitError, PartitionNotFoundError, UnsupportedError
from penstock.model.node.log_state import GonePartition
from penstock.model.place.bucket import LIFE_OFFSETS
from penstock.model.place.change import OFFSET_MAX
from penstock.model.table.partition import PartitionInfo, parse_partition_name, partition_columns, partition_name
from penstock.model.table.table import TableInfo
from penstock.runtime.clock import Clock


class Partitions:
    """Partitions of all tables. Thread-safe by the lock of the records; every change is durable when it returns."""

    def __init__(self, records: CatalogRecords, clock: Clock) -> None:
        self._records = records
        self._clock = clock

    def create(self, table_id: int, values: Mapping[str, object], *, if_not_exists: bool = False) -> PartitionInfo:
        """Create the partition with these values.

        Raises:
            TableNotFoundError: the table was dropped.
            UnsupportedError: the table is not partitioned.
            InvalidError: the values do not fit the partition columns.
            AlreadyExistsError: it is there.
            LimitError: the table has `partition.max` partitions, or its offsets are used up.
        """
        with self._records.lock:
            name = self.name(table_id, values)
            if not if_not_exists and name in self._records.partitions[table_id]:
                raise AlreadyExistsError(
                    "the partition is there; pass if_not_exists=True if that will do", partition=name
                )
            return self.ensure(table_id, [name])[0]

    def ensure(self, table_id: int, names: Sequence[str]) -> list[PartitionInfo]:
        """Return the partitions of these names, in order; those that are missing are created in one step.

        Raises:
            TableNotFoundError: the table was dropped.
            UnsupportedError: the table is not partitioned.
            InvalidError: a name does not fit the partition columns.
            LimitError: the table would have more than `partition.max` partitions, or its offsets are used up.
        """
        with self._records.lock:
            info = self._partitioned(table_id)
            known = self._records.partitions[table_id]
            missing = [name for name in dict.fromkeys(names) if name not in known]
            if missing:
                self._create(info, missing)
            return [known[name] for name in names]

    def get(self, table_id: int, name: str) -> PartitionInfo:
        """Return the partition of that name.

        Raises:
            TableNotFoundError: the table was dropped.
            PartitionNotFoundError: there is none.
        """
        with self._records.lock:
            self._records.table(table_id)
            partition = self._records.partitions[table_id].get(name)
            if partition is None:
                raise PartitionNotFoundError("no such partition; look at list_partitions", partition=name)
            return partition

    def name(self, table_id: int, values: Mapping[str, object]) -> str:
        """Return the name of the partition with these values, whether it exists or not.

        Raises:
            TableNotFoundError: the table was dropped.
            UnsupportedError: the table is not partitioned.
            InvalidError: the values do not fit the partition columns.
        """
        info = self._partitioned(table_id)
        return partition_name(partition_columns(info.schema, info.partitioned_by), values)

    def of(self, table_id: int, *, dropped: bool = False) -> list[PartitionInfo]:
        """Return the partitions of a table, sorted by name; none if it is not partitioned.

        Raises:
            TableNotFoundError: the table was dropped, and `dropped` does not ask for such.
        """
        with self._records.lock:
            self._records.table(table_id, dropped=dropped)
            return sorted(self._records.partitions[table_id].values(), key=lambda partition: partition.name)

    def present(
        self, table_id: int, values: Mapping[str, object] | PartitionInfo, *, if_exists: bool = False
    ) -> PartitionInfo | None:
        """Return the partition with these values, or that very one.

        Without one, and with `if_exists`, there is nothing to return. Nor is there if the one given is gone
        already, for the name may stand for a younger one.

        Raises:
            TableNotFoundError: the table was dropped.
            UnsupportedError: the table is not partitioned.
            InvalidError: the values do not fit the partition columns.
            PartitionNotFoundError: there is none.
        """
        records = self._records
        with records.lock:
            self._partitioned(table_id)
            known = records.partitions[table_id]
            if isinstance(values, PartitionInfo):
                name = values.name
                if known.get(name) != values:
                    return None
            else:
                name = self.name(table_id, values)
                if if_exists and name not in known:
                    return None
            return self.get(table_id, name)

    def drop(self, partition: PartitionInfo, ends: Sequence[int], *, now_ms: int | None = None) -> None:
        """Drop a partition that is there, whose buckets end so, at a moment (None: now).

        Its record stays until `forget`. Where it ended stays known beyond that: who stood in it is told by it whether
        anything was left to read.
        """
        records, table_id, partition_id = self._records, partition.table_id, partition.partition_id
        with records.lock:
            assert records.partitions[table_id][partition.name] == partition, "it is there"
            gone = GonePartition(
                partition_id,
                partition.name,
                partition.first_offset,
                tuple(ends),
                self._clock.wall_ms() if now_ms is None else now_ms,
            )
            key, word = partition_key(table_id, partition_id), dropped_key(table_id, partition_id)
            said = Put(gone_key(table_id, partition_id), encode(gone.to_json()), ABSENT)
            records.commit([Check(key, records.expected(key)), Put(word, b"", ABSENT), said], drops=True)

    def first_known_ms(self, table_id: int, kept_since_ms: int) -> int:
        """Return the moment from which on all partitions are known that there were, if drops are kept for so long."""
        records = self._records
        with records.lock:
            gone = records.gone.get(table_id, {}).values()
            born = records.next_partition(table_id) - 1
            known = len(records.partitions[table_id]) + len(gone)
            last_drop_ms = max((partition.dropped_ms for partition in gone), default=0)
            return max(last_drop_ms, kept_since_ms) if known < born else last_drop_ms

    def births(self, table_id: int) -> int:
        """Return the id that the next partition of a table gets."""
        with self._records.lock:
            return self._records.next_partition(table_id)

    def gone(self, table_id: int, since: int = 0) -> tuple[GonePartition, ...]:
        """Return the dropped partitions of which it is known where they ended, from an id on, in their order."""
        with self._records.lock:
            known = self._records.gone.get(table_id, {})
            return tuple(known[partition_id] for partition_id in sorted(known) if partition_id >= since)

    def forget_gone(self, table_id: int, dropped_before_ms: int) -> None:
        """Forget where partitions ended that were dropped so long ago, except those that a reader still holds.

        The one that was dropped last stays known: before that the table had rows that cannot be read any more.
        """
        records = self._records
        with records.lock:
            known = records.gone.get(table_id, {})
            newest = max(known, key=lambda partition_id: (known[partition_id].dropped_ms, partition_id), default=0)
            old = [
                partition_id
                for partition_id, gone in known.items()
                if gone.dropped_ms < dropped_before_ms
                and partition_id != newest
                and (table_id, partition_id) not in records.dropped_partitions
            ][:WRITES_MAX]
            if old:
                records.commit([Delete(gone_key(table_id, partition_id)) for partition_id in old])

    def dropped(self) -> list[tuple[int, int]]:
        """Return (table id, partition id) of dropped partitions whose directories may still be there."""
        with self._records.lock:
            return sorted(self._records.dropped_partitions)

    def find(self, table_id: int, partition_id: int) -> PartitionInfo | None:
        """Return a partition by its id, also one that is dropping; None if there is none."""
        with self._records.lock:
            return self._records.partition(table_id, partition_id)

    def names(self, table_id: int) -> dict[int, str]:
        """Return the name of each partition of a table, by id, also of those that are dropping."""
        with self._records.lock:
            known = list(self._records.partitions.get(table_id, {}).values())
            gone = [p for (owner, _), p in self._records.dropped_partitions.items() if owner == table_id and p]
            return {partition.partition_id: partition.name for partition in (*known, *gone)}

    def forget(self, table_id: int, partition_id: int) -> None:
        """Remove the record of a dropped partition, its directories being gone; idempotent."""
        with self._records.lock:
            if (table_id, partition_id) not in self._records.dropped_partitions:
                return
            keys = (partition_key(table_id, partition_id), dropped_key(table_id, partition_id))
            self._records.commit([Delete(key) for key in keys])

    def forget_all(self, table_id: int) -> None:
        """Remove the records of all partitions of a dropped table; a crash in between is gone over again."""
        records = self._records
        with records.lock:
            gone = [partition_id for owner, partition_id in records.dropped_partitions if owner == table_id]
            live = [partition.partition_id for partition in records.partitions[table_id].values()]
            keys = [partition_key(table_id, partition_id) for partition_id in (*live, *gone)]
            keys += [dropped_key(table_id, partition_id) for partition_id in gone]
            keys += [gone_key(table_id, partition_id) for partition_id in records.gone.get(table_id, {})]
            for start in range(0, len(keys), WRITES_MAX):
                records.commit([Delete(key) for key in keys[start : start + WRITES_MAX]])

    def _create(self, info: TableInfo, names: Sequence[str]) -> None:
        records = self._records
        table_id, limit = info.table_id, info.options.partition_max
        count = len(records.partitions[table_id]) + len(names)
        if count > limit:
            raise LimitError(
                "the table has as many partitions as partition.max allows; drop some, or set it higher",
                table=info.path,
                partitions=count,
                max=limit,
            )
        columns = partition_columns(info.schema, info.partitioned_by)
        first = records.next_partition(table_id)
        first_offset = self._first_offset(info, births=first - 1)
        now_ms = self._clock.wall_ms()
        created = []
        for partition_id, name in enumerate(names, first):
            records.check_unused(table_id, partition_id)
            parse_partition_name(columns, name)
            created.append(PartitionInfo(table_id, partition_id, name, now_ms, first_offset))
        counter, table = partition_counter_key(table_id), table_key(table_id)
        writes: list[Write] = [Check(table, records.expected(table))]
        writes.append(Put(counter, encode(first + len(created)), records.expected(counter)))
        writes += [Put(partition_key(table_id, p.partition_id), encode(p.to_json()), ABSENT) for p in created]
        records.commit(writes)

    def _first_offset(self, info: TableInfo, *, births: int) -> int:
        """Return where the logs of partitions begin that are created now: in the life after all drops so far.

        A partition that was born and is not here was dropped, so nothing needs to be kept to know how many were. A name
        that comes back was dropped in between, and so gets a later life than it ever had.
        """
        drops = births - len(self._records.partitions[info.table_id])
        first_offset = drops * LIFE_OFFSETS
        if first_offset + LIFE_OFFSETS > OFFSET_MAX:
            raise LimitError(
                "the table has dropped as many partitions as it can; go on in a new table",
                table=info.path,
                dropped=drops,
            )
        return first_offset

    def _partitioned(self, table_id: int) -> TableInfo:
        info = self._records.table(table_id)
        if not info.partitioned:
            raise UnsupportedError("the table is not partitioned", table=info.path)
        return info
