"""A node made of a dict and lists: the oracle behind the client's unit tests.

It keeps every change of every bucket for ever, and breaks on demand: a fault is raised before a call
is made, or after, as when a reply is lost.
"""

from __future__ import annotations

import threading
import zlib
from collections import defaultdict, deque
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
from tests.kit.flat_node import FlatNode
from tests.unit.client.fake_leases import FakeLeases
from tests.unit.client.fake_owners import FakeOwners

from penstock.errors import (
    InvalidError,
    InvalidScanRequestError,
    OffsetOutOfRangeError,
    PartitionNotFoundError,
    PenstockError,
    SequenceError,
    TableNotFoundError,
    UnknownOrExpiredScannerError,
)
from penstock.model.filter.filter import Filter
from penstock.model.node.calls import (
    ChangePage,
    Cut,
    Images,
    LookupCall,
    LookupResult,
    Offsets,
    OpenScan,
    Operation,
    Page,
    PullChanges,
    ScannerInfo,
    TableStats,
    WriteCall,
    WriteResult,
)
from penstock.model.node.log_state import GonePartition, LogState
from penstock.model.place.bucket import TableBucket
from penstock.model.schema.aggregate import AggFunction
from penstock.model.schema.schema import Schema
from penstock.model.table.alteration import (
    as_of,
    with_column,
    with_properties,
    with_renamed,
    with_widened,
    without_column,
)
from penstock.model.table.partition import partition_columns, partition_name
from penstock.model.table.table import TableInfo, TableSpec

Row = dict[str, Any]


@dataclass
class Change:
    before: Row | None
    after: Row | None
    time_ms: int


@dataclass
class Session:
    call: OpenScan
    snapshot: int
    seq: int = 0
    start: int = 0
    latest: Page | None = None


@dataclass
class FakeTable:
    info: TableInfo
    logs: dict[TableBucket, list[Change]] = field(default_factory=dict)
    live: dict[TableBucket, dict[tuple[Any, ...], Row]] = field(default_factory=dict)
    bases: dict[TableBucket, int] = field(default_factory=lambda: defaultdict(int))
    births: int = 1
    gone: list[GonePartition] = field(default_factory=list)

    def bear(self, partition: str | None) -> None:
        if TableBucket(self.info.path, partition, 0) not in self.logs:
            self.births += 1
        for number in range(self.info.buckets):
            bucket = TableBucket(self.info.path, partition, number)
            self.logs.setdefault(bucket, [])
            self.live.setdefault(bucket, {})


class FakeNode(FlatNode, FakeLeases, FakeOwners):
    """Implements `penstock.model.node.node.Node`."""

    def __init__(self, page_rows: int = 2) -> None:
        self.page_rows = page_rows
        self.made: dict[int, FakeTable] = {}
        self.schemas: dict[tuple[int, int], Schema] = {}
        self.sessions: dict[str, Session] = {}
        self.cuts: set[str] = set()
        self.away: set[TableBucket] = set()
        """Buckets that are not led just now: nothing says where they stand."""
        self.named_cuts: dict[tuple[int, str], Cut] = {}
        self.calls: list[str] = []
        self.faults: deque[tuple[str, str, PenstockError]] = deque()
        self.writes: dict[bytes, dict[int, WriteResult]] = defaultdict(dict)
        self.applied: list[WriteCall] = []
        self.now_ms = 1_000
        self.closed = False
        self.gate = threading.Event()
        self.gate.set()
        self._changed = threading.Condition(threading.RLock())
        self._ids = 0

    def fail(self, method: str, when: str, *errors: PenstockError) -> None:
        """Let the next calls of a method fail, `before` they are made or `after`."""
        self.faults.extend((method, when, error) for error in errors)

    def _enter(self, method: str) -> PenstockError | None:
        self.calls.append(method)
        if self.faults and self.faults[0][0] == method:
            _, when, error = self.faults.popleft()
            if when == "before":
                raise error
            return error
        return None

    @staticmethod
    def _leave(fault: PenstockError | None) -> None:
        if fault is not None:
            raise fault

    def _new_id(self) -> str:
        self._ids += 1
        return f"id-{self._ids}"

    def _table(self, table_id: int) -> FakeTable:
        if table_id not in self.made:
            raise TableNotFoundError("the table was dropped", table_id=table_id)
        return self.made[table_id]

    def create_database(self, name: str, *, if_not_exists: bool = False) -> None:
        raise NotImplementedError

    def list_databases(self) -> list[str]:
        fault = self._enter("list_databases")
        self._leave(fault)
        return ["default"]

    def drop_database(self, name: str, *, cascade: bool = False, if_exists: bool = False) -> None:
        raise NotImplementedError

    def create_table(self, path: str, spec: TableSpec, *, if_not_exists: bool = False) -> TableInfo:
        table_id = len(self.made) + 1
        values = {name: getattr(spec, name) for name in TableSpec.__dataclass_fields__}
        table = FakeTable(TableInfo(path=path, table_id=table_id, **values))
        if not spec.partitioned:
            table.bear(None)
        self.made[table_id] = table
        return table.info

    def table(self, path: str) -> TableInfo:
        return next(table.info for table in self.made.values() if table.info.path == path)

    def table_by_id(self, table_id: int) -> TableInfo:
        return self._table(table_id).info

    def list_tables(self, database: str) -> list[str]:
        return [table.info.name for table in self.made.values()]

    def drop_table(self, path: str, *, if_exists: bool = False) -> None:
        del self.made[self.table(path).table_id]

    def table_as_of(self, table_id: int, schema_id: int) -> TableInfo:
        info = self._table(table_id).info
        return as_of(info, self.schemas[table_id, schema_id], schema_id)

    def add_column(
        self,
        table_id: int,
        name: str,
        type: pa.DataType,
        agg: AggFunction | None = None,
        default: pa.Scalar | None = None,
    ) -> TableInfo:
        return self._alter(table_id, lambda info: with_column(info, name, type, agg, default=default))

    def rename_column(self, table_id: int, old: str, new: str) -> TableInfo:
        return self._alter(table_id, lambda info: with_renamed(info, old, new))

    def drop_column(self, table_id: int, name: str) -> TableInfo:
        return self._alter(table_id, lambda info: without_column(info, name))

    def widen_column(self, table_id: int, name: str, type: pa.DataType) -> TableInfo:
        return self._alter(table_id, lambda info: with_widened(info, name, type))

    def set_properties(self, table_id: int, properties: Mapping[str, str | None]) -> TableInfo:
        return self._alter(table_id, lambda info: with_properties(info, properties))

    def _alter(self, table_id: int, change: Callable[[TableInfo], TableInfo]) -> TableInfo:
        table = self._table(table_id)
        self.schemas[table_id, table.info.schema_id] = table.info.schema
        table.info = change(table.info)
        return table.info

    def list_partitions(self, table_id: int) -> list[str]:
        return sorted({str(bucket.partition) for bucket in self._table(table_id).logs})

    def create_partition(self, table_id: int, values: Mapping[str, object], *, if_not_exists: bool = False) -> str:
        table = self._table(table_id)
        name = partition_name(partition_columns(table.info.schema, table.info.partitioned_by), values)
        table.bear(name)
        return name

    def drop_partition(self, table_id: int, values: Mapping[str, object], *, if_exists: bool = False) -> None:
        table = self._table(table_id)
        name = partition_name(partition_columns(table.info.schema, table.info.partitioned_by), values)
        names = [TableBucket(table.info.path, name, number) for number in range(table.info.buckets)]
        ends = tuple(len(table.logs[bucket]) for bucket in names)
        table.gone.append(GonePartition(table.births - 1, name, 0, ends, self.now_ms))
        for bucket in names:
            del table.logs[bucket], table.live[bucket]

    def buckets(self, table_id: int) -> list[TableBucket]:
        return sorted(self._table(table_id).logs, key=lambda bucket: (bucket.partition or "", bucket.bucket))

    def write(self, call: WriteCall) -> WriteResult:
        fault = self._enter("write")
        self.gate.wait(30)
        with self._changed:
            known = self.writes[call.writer_id]
            if call.sequence not in known:
                if known and call.sequence != max(known) + 1:
                    raise SequenceError("the sequence is not the next", sequence=call.sequence)
                known[call.sequence] = self._apply(call)
                self.applied.append(call)
                self._changed.notify_all()
        self._leave(fault)
        return known[call.sequence]

    def _apply(self, call: WriteCall) -> WriteResult:
        table = self._table(call.table_id)
        touched: dict[TableBucket, tuple[int, int]] = {}
        rows = call.batch.to_pylist()
        for position, row in enumerate(rows):
            bucket, key = self._route(table, row, position)
            live, log = table.live[bucket], table.logs[bucket]
            before = live.get(key)
            after = None if call.operation is Operation.DELETE else {**(before or {}), **row}
            if after is None:
                live.pop(key, None)
            elif table.info.keyed:
                live[key] = after
            if before is not None or after is not None:
                log.append(Change(before, after, self.now_ms))
                touched[bucket] = (touched.get(bucket, (len(log) - 1, 0))[0], len(log))
        changes = sum(end - start for start, end in touched.values())
        return WriteResult(len(rows), changes, len(rows) - changes, touched)

    @staticmethod
    def _route(table: FakeTable, row: Row, position: int) -> tuple[TableBucket, tuple[Any, ...]]:
        info = table.info
        partition = None
        if info.partitioned:
            columns = partition_columns(info.schema, info.partitioned_by)
            partition = partition_name(columns, {name: row[name] for name in info.partitioned_by})
            table.bear(partition)
        key = tuple(row[name] for name in info.primary_key)
        spread = zlib.crc32(repr(key).encode()) if key else position
        return TableBucket(info.path, partition, spread % info.buckets), key

    def write_stream(self) -> None:
        return None

    def delete_where(self, table_id: int, filter: bytes, writer_id: bytes, sequence: int) -> WriteResult:
        raise NotImplementedError

    def truncate(self, table_id: int) -> WriteResult:
        raise NotImplementedError

    def open_cut(
        self,
        table_id: int,
        *,
        as_of: Mapping[TableBucket, int] | None = None,
        buckets: Sequence[TableBucket] | None = None,
    ) -> Cut:
        fault = self._enter("open_cut")
        table = self._table(table_id)
        chosen = self.buckets(table_id) if buckets is None else buckets
        absent = next((bucket for bucket in chosen if as_of is not None and bucket not in as_of), None)
        if absent is not None:
            raise InvalidError("as_of names every bucket that was there", bucket=absent)
        offsets = {bucket: len(table.logs[bucket]) if as_of is None else as_of[bucket] for bucket in chosen}
        for bucket, offset in offsets.items():
            if not table.bases[bucket] <= offset <= len(table.logs[bucket]):
                raise OffsetOutOfRangeError("not kept", bucket=bucket, offset=offset, base=table.bases[bucket])
        cut = Cut(self._new_id(), offsets)
        self.cuts.add(cut.cut_id)
        self._leave(fault)
        return cut

    def release_cut(self, cut_id: str) -> None:
        self.calls.append("release_cut")
        self.cuts.discard(cut_id)

    def named_cut(self, table_id: int, name: str, ttl_ms: int) -> Cut:
        assert ttl_ms > 0
        return self.named_cuts.setdefault((table_id, name), self.open_cut(table_id))

    def open_scanner(self, call: OpenScan) -> Page:
        fault = self._enter("open_scanner")
        if call.cut_id is not None and call.cut_id not in self.cuts:
            raise UnknownOrExpiredScannerError("no such cut", cut_id=call.cut_id)
        log = self._table(call.table_id).logs[call.bucket]
        session = Session(call, len(log) if call.as_of is None else call.as_of, start=call.start)
        scanner_id = self._new_id()
        page = self._page(scanner_id, session)
        if page.has_more:
            self.sessions[scanner_id] = session
            if call.pin:
                page = replace(page, cut_id=self._new_id())
                self.cuts.add(page.cut_id or "")
        self._leave(fault)
        return page

    def open_scanners(self, calls: Sequence[OpenScan]) -> list[Page]:
        pages = [self.open_scanner(calls[0])]
        for call in calls[1:]:
            if pages[-1].has_more:
                break
            pages.append(self.open_scanner(call))
        return pages

    def next_page(self, scanner_id: str, call_seq_id: int) -> Page:
        fault = self._enter("next_page")
        if scanner_id not in self.sessions:
            raise UnknownOrExpiredScannerError("no such session", scanner_id=scanner_id)
        session = self.sessions[scanner_id]
        assert session.latest is not None
        if call_seq_id == session.seq + 1:
            limit = session.call.limit
            left = None if limit is None else limit - session.latest.batch.num_rows
            session.call, session.start, session.seq = (
                replace(session.call, limit=left),
                session.latest.next_offset,
                call_seq_id,
            )
            self._page(scanner_id, session)
        elif call_seq_id != session.seq:
            raise InvalidScanRequestError("out of order", call_seq_id=call_seq_id)
        if not session.latest.has_more:
            del self.sessions[scanner_id]
        self._leave(fault)
        return session.latest

    def _page(self, scanner_id: str, session: Session) -> Page:
        call = session.call
        table = self._table(call.table_id)
        live: dict[tuple[Any, ...], tuple[int, Row]] = {}
        for offset, change in enumerate(table.logs[call.bucket][: session.snapshot]):
            row = change.after or change.before
            assert row is not None
            key = tuple(row[name] for name in table.info.primary_key)
            live.pop(key, None)
            if change.after is not None:
                live[key] = (offset, change.after)
        found = sorted((item for item in live.values() if item[0] >= session.start), key=lambda item: item[0])
        batch = self._batch(table.info, [row for _, row in found])
        if call.filter is not None:
            kept = Filter.from_bytes(call.filter, table.info.schema).mask(batch)
            found = [item for item, keep in zip(found, kept, strict=True) if keep]
        found = found[: call.limit]
        shown = found[: self.page_rows]
        names = call.columns or table.info.schema.names
        session.latest = Page(
            scanner_id,
            session.snapshot,
            (self._batch(table.info, [row for _, row in shown]).select(names),),
            len(found) > len(shown),
            shown[-1][0] + 1 if shown else session.snapshot,
            b"",
        )
        return session.latest

    @staticmethod
    def _batch(info: TableInfo, rows: list[Row]) -> pa.RecordBatch:
        fields = [item.with_nullable(True) for item in info.schema.arrow_schema]
        return pa.RecordBatch.from_pylist(rows, schema=pa.schema(fields))

    def pages(self, scanner_id: str, call_seq_id: int) -> Generator[Page, None, None]:
        page = self.next_page(scanner_id, call_seq_id)
        yield page
        while page.has_more:
            call_seq_id += 1
            page = self.next_page(scanner_id, call_seq_id)
            yield page

    def close_scanner(self, scanner_id: str) -> None:
        self.calls.append("close_scanner")
        self.sessions.pop(scanner_id, None)

    def read_token(self, token: bytes) -> OpenScan:
        raise NotImplementedError

    def database_id(self) -> str:
        return "f" * 32

    def check_origin(
        self, database: str, table_id: int, offsets: Mapping[TableBucket, int], births: int | None = None
    ) -> None:
        raise InvalidError("it is of another database; connect to that one, or start anew with this one")

    def list_scanners(self) -> list[ScannerInfo]:
        return []

    def kill_scanner(self, scanner_id: str) -> None:
        self.sessions.pop(scanner_id, None)

    def offsets(
        self, table_id: int, *, timestamp_ms: int | None = None, lease_id: str | None = None
    ) -> dict[TableBucket, Offsets]:
        table = self._table(table_id)
        found = {}
        for bucket, log in table.logs.items():
            if bucket in self.away:
                continue
            late = (at for at, change in enumerate(log) if timestamp_ms is None or change.time_ms >= timestamp_ms)
            base = table.bases[bucket] if timestamp_ms is None else next(late, len(log))
            found[bucket] = Offsets(base, len(log))
        return found

    def log_state(self, table_id: int, *, since: int = 0) -> LogState:
        table = self._table(table_id)
        gone = tuple(gone for gone in table.gone if gone.partition_id >= since)
        return LogState(self.offsets(table_id), table.births, gone, tuple(self.away & table.logs.keys()))

    def pull_changes(self, call: PullChanges) -> list[ChangePage]:
        fault = self._enter("pull_changes")
        table = self._table(call.table_id)
        with self._changed:
            pages = self._pages(table, call)
            if not pages and call.wait_ms:
                self._changed.wait(call.wait_ms / 1000)
                pages = self._pages(table, call)
        self._leave(fault)
        return pages

    def _pages(self, table: FakeTable, call: PullChanges) -> list[ChangePage]:
        pages = []
        for bucket, (start, end) in call.positions.items():
            if bucket not in table.logs:
                raise PartitionNotFoundError("the partition was dropped", bucket=bucket)
            if start < table.bases[bucket]:
                raise OffsetOutOfRangeError("not kept", bucket=bucket, offset=start, base=table.bases[bucket])
            log = table.logs[bucket]
            stop = min(len(log), len(log) if end is None else end, start + self.page_rows)
            if start < stop:
                batch = self._changes(table.info, call, list(enumerate(log))[start:stop])
                pages.append(ChangePage(bucket, batch, start, stop, len(log)))
        return pages

    def _changes(self, info: TableInfo, call: PullChanges, changes: list[tuple[int, Change]]) -> pa.RecordBatch:
        rows: list[Row] = []
        for offset, change in changes:
            system = {"_offset": offset, "_timestamp": change.time_ms * 1000}
            if change.before is not None and change.after is not None:
                if call.images is Images.FULL:
                    rows.append({**change.before, **system, "_change_type": "-U"})
                rows.append({**change.after, **system, "_change_type": "+U"})
            elif change.after is not None:
                rows.append({**change.after, **system, "_change_type": "+I" if info.keyed else "+A"})
            elif change.before is not None:
                kept = info.schema.names if call.images is Images.FULL else info.primary_key
                rows.append({**{name: change.before[name] for name in kept}, **system, "_change_type": "-D"})
        names = call.columns or info.schema.names
        fields = [info.schema.arrow_schema.field(name).with_nullable(True) for name in names]
        extra = [
            pa.field("_change_type", pa.string()),
            pa.field("_offset", pa.int64()),
            pa.field("_timestamp", pa.timestamp("us", tz="UTC")),
        ]
        return pa.RecordBatch.from_pylist(rows, schema=pa.schema([*fields, *extra]))

    def lookup_rows(self, call: LookupCall) -> LookupResult:
        table = self._table(call.table_id)
        rows = []
        for position, key in enumerate(call.keys.to_pylist()):
            bucket, values = self._route(table, key, position)
            row = table.live[bucket].get(values)
            rows.append({**(row or key), "_found": row is not None})
        fields = [table.info.schema.arrow_schema.field(n) for n in call.columns or table.info.schema.names]
        schema = pa.schema([*[item.with_nullable(True) for item in fields], pa.field("_found", pa.bool_())])
        return LookupResult(pa.RecordBatch.from_pylist(rows, schema=schema), {})

    def prefix_lookup(self, call: LookupCall) -> LookupResult:
        raise NotImplementedError

    def stats(self, table_id: int) -> TableStats:
        raise NotImplementedError

    def close(self) -> None:
        self.closed = True
