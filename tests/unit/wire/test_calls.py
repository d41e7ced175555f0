"""The table of calls: it is the whole of a node, and every value crosses unchanged."""

from __future__ import annotations

import inspect
from contextlib import suppress
from datetime import date
from typing import Any

import pyarrow as pa
import pytest

from penstock.errors import InvalidError, TableNotFoundError
from penstock.model.node.backup import BackupFile, BackupPlan
from penstock.model.node.calls import (
    BucketStats,
    ChangePage,
    Cut,
    FirstRows,
    Images,
    LookupCall,
    LookupResult,
    Offsets,
    OpenScan,
    Operation,
    Page,
    PullChanges,
    RowCount,
    RowPass,
    ScannerInfo,
    TableStats,
    WriteCall,
    WriteResult,
)
from penstock.model.node.facets.backup import BackupFacet
from penstock.model.node.facets.catalog import CatalogFacet
from penstock.model.node.facets.changes import ChangesFacet
from penstock.model.node.facets.leases import LeasesFacet
from penstock.model.node.facets.lookup import LookupFacet
from penstock.model.node.facets.owners import OwnersFacet
from penstock.model.node.facets.scan import ScanFacet
from penstock.model.node.facets.tables import TablesFacet
from penstock.model.node.lease import AcquireLease, CutOffsets, Leased, LeaseInfo, LeaseTime, Snapshot
from penstock.model.node.log_state import GonePartition, LogState
from penstock.model.node.owner import (
    AcquireOwner,
    AttemptEnd,
    BucketUndo,
    EpochBegun,
    EpochStatus,
    OwnerGrant,
    OwnerInfo,
    UndoResult,
)
from penstock.model.node.owner_token import OwnerToken
from penstock.model.place.bucket import TableBucket
from penstock.model.schema.agg_mode import AggMode
from penstock.model.schema.aggregate import AggFunction
from penstock.model.table.spec import make_spec
from penstock.model.table.table import TableInfo
from penstock.wire.body import BodyLimits
from penstock.wire.call import read_batches
from penstock.wire.calls import CALLS, NEXT_PAGE, WRITE
from penstock.wire.fault import write_fault
from penstock.wire.frame import FrameKind, decode_frame, encode_frame

BATCH = pa.record_batch({"id": [1, 2], "note": ["a", None]})
ONE, TWO = TableBucket("shop.orders", None, 0), TableBucket("shop.orders", "day=2024-01-01", 1)
SPEC = make_spec("id BIGINT, note STRING, PRIMARY KEY (id)", buckets=4, properties={"log.retention": "1d"})
INFO = TableInfo(
    path="shop.orders",
    table_id=7,
    schema_id=1,
    created_ms=5,
    schema=SPEC.schema,
    buckets=4,
    bucket_key=SPEC.bucket_key,
    merge_engine=SPEC.merge_engine,
    properties=SPEC.properties,
)
PAGE = Page("s-1", 99, (BATCH, BATCH), True, 12, b"\x00token", inner_ends=(7,))
RESULT = WriteResult(2, 2, 0, {ONE: (3, 4), TWO: (0, 1)})
STATS = TableStats(3, 2, 100, [BucketStats(ONE, 0, 3, 3, 2, 100, 1, 3, 0, {"scanner": 2})], {"runs": 3, "last": None})
SNAPSHOT = Snapshot(3, TWO, 99, 5, 1000, ("job", "other"), "tables/7/1/1/snapshot-000000000003")
LEASE = LeaseInfo(
    "job",
    "ann",
    5_000,
    9_000,
    [Leased(7, SNAPSHOT, 99), Leased(7, Snapshot(None, ONE, 1, 2, 0), 0)],
    {TWO: "gone"},
)
UNDONE = UndoResult.of({ONE: BucketUndo(3, 1, 0), TWO: BucketUndo(1, 0, 2)})

ARGUMENTS: dict[str, dict[str, Any]] = {
    "create_database": {"name": "shop", "if_not_exists": True},
    "drop_database": {"name": "shop", "cascade": True, "if_exists": False},
    "create_table": {"path": "shop.orders", "spec": SPEC, "if_not_exists": False},
    "table": {"path": "shop.orders"},
    "list_tables": {"database": "shop"},
    "drop_table": {"path": "shop.orders", "if_exists": True},
    "add_column": {"table_id": 7, "name": "sum", "type": pa.decimal128(18, 2), "agg": AggFunction.SUM},
    "add_defaulted_column": {
        "table_id": 7,
        "name": "note",
        "type": pa.list_(pa.date32()),
        "agg": None,
        "default": pa.scalar([date(2026, 1, 2), None], pa.list_(pa.date32())),
    },
    "table_as_of": {"table_id": 7, "schema_id": 3},
    "rename_column": {"table_id": 7, "old": "note", "new": "remark"},
    "drop_column": {"table_id": 7, "name": "note"},
    "widen_column": {"table_id": 7, "name": "n", "type": pa.int64()},
    "set_properties": {"table_id": 7, "properties": {"log.retention": "1d", "partition.max": None}},
    "create_partition": {"table_id": 7, "values": {"day": date(2024, 1, 1), "n": 3}, "if_not_exists": True},
    "drop_partition": {"table_id": 7, "values": {"day": "2024-01-01"}, "if_exists": True},
    "write": {
        "call": WriteCall(7, 1, Operation.APPLY, BATCH, ("note",), AggMode.REPLACE, b"w" * 16, 9, b"owner", b"a" * 16)
    },
    "delete_where": {"table_id": 7, "filter": b"\x00f", "writer_id": b"w" * 16, "sequence": 1},
    "open_cut": {"table_id": 7, "as_of": {ONE: 5, TWO: 6}, "buckets": [ONE]},
    "open_cut_at": {"table_id": 7, "timestamp_ms": 1_700_000_000_000, "buckets": [ONE]},
    "open_cuts": {"table_ids": (7, 8)},
    "release_cut": {"cut_id": "c-1"},
    "named_cut": {"table_id": 1, "name": "job-7", "ttl_ms": 3_600_000},
    "count_rows": {"call": RowPass(7, 1, {ONE: (0, 9), TWO: (3, 9)}, b"f", "c-1")},
    "first_rows": {
        "call": RowPass(7, 1, {ONE: (0, 9)}, None, None, "l", ("id",), ("id", "n"), (True, False), 10, True)
    },
    "open_scanner": {"call": OpenScan(7, 1, TWO, ("id",), b"f", 10, 1 << 20, 99, 3, "c-1")},
    "open_scanners": {"calls": (OpenScan(7, 1, ONE, as_of=9, cut_id="c-1"), OpenScan(7, 1, TWO, cut_id="c-1"))},
    "next_page": {"scanner_id": "s-1", "call_seq_id": 1},
    "close_scanner": {"scanner_id": "s-1"},
    "read_token": {"token": b"\x00token"},
    "check_origin": {"database": "0f" * 16, "table_id": 7, "offsets": {ONE: 9, TWO: 3}, "births": 4},
    "kill_scanner": {"scanner_id": "s-1"},
    "log_state": {"table_id": 7, "since": 3},
    "offsets": {"table_id": 7, "timestamp_ms": 1, "lease_id": "job-7"},
    "pull_changes": {
        "call": PullChanges(7, 1, {ONE: (0, None), TWO: (3, 9)}, ("id",), Images.AFTER, 1 << 20, 100, "r-1")
    },
    "acquire_lease": {"call": AcquireLease("job", 5_000, (7, 8), {TWO: 3}, (CutOffsets(7, {ONE: 5}),))},
    "renew_lease": {"lease_id": "job", "duration_ms": None},
    "lease_bytes": {"lease_id": "job"},
    "release_lease": {"lease_id": "job", "buckets": [ONE, TWO]},
    "drop_lease": {"lease_id": "job"},
    "lease": {"lease_id": "job"},
    "acquire_owner": {"call": AcquireOwner(7, "job", ("note",), 5_000, "query", "ann:1")},
    "renew_owner": {"owner": b"token"},
    "release_owner": {"owner": b"token"},
    "drop_owner": {"table_id": 7, "owner": "job", "undo": False},
    "begin_epoch": {"owner": b"token", "epoch": 5},
    "commit_epoch": {"owner": b"token", "epoch": 5, "attempts": {b"a" * 16: 3, b"b" * 16: None}, "replaces": True},
    "undo_owner": {"owner": b"token"},
    "leave_epochs": {"owner": b"token"},
    "stage": {"call": WriteCall(7, 1, Operation.UPSERT, BATCH, owner=b"token", attempt=b"a" * 16)},
    "end_attempt": {"owner": b"token", "attempt": b"a" * 16, "written": 9},
    "begin_backup": {"target": "0f" * 16},
    "backup_files": {"backup_id": "b-1", "start": 5_000},
    "read_backup": {"backup_id": "b-1", "path": "description", "position": 1, "length": 2},
    "end_backup": {"backup_id": "b-1"},
    "lookup": {"call": LookupCall(7, 1, BATCH, ("note",))},
    "prefix_lookup": {"call": LookupCall(7, 1, BATCH)},
}
RESULTS: dict[str, Any] = {
    "list_databases": ["default", "shop"],
    "create_table": INFO,
    "table": INFO,
    "table_by_id": INFO,
    "list_tables": [],
    "add_column": INFO,
    "add_defaulted_column": INFO,
    "table_as_of": INFO,
    "rename_column": INFO,
    "drop_column": INFO,
    "widen_column": INFO,
    "set_properties": INFO,
    "list_partitions": ["day=2024-01-01"],
    "create_partition": "day=2024-01-01",
    "buckets": [ONE, TWO],
    "write": RESULT,
    "delete_where": RESULT,
    "truncate": RESULT,
    "open_cut": Cut("c-1", {ONE: 5, TWO: 6}),
    "open_cut_at": Cut("c-1", {ONE: 5, TWO: 6}, 3),
    "open_cuts": [Cut("c-1", {ONE: 5}), Cut("c-2", {TWO: 6})],
    "named_cut": Cut("c-2", {ONE: 5, TWO: 6}),
    "count_rows": RowCount(7, {TWO: (4, 9)}),
    "first_rows": FirstRows(PAGE.batches[0], {}),
    "open_scanner": PAGE,
    "open_scanners": [PAGE, PAGE],
    "next_page": PAGE,
    "read_token": OpenScan(7, 1, ONE, ("id",), b"\x01", 3, 4_096, 99, 17),
    "database_id": "0f" * 16,
    "list_scanners": [ScannerInfo("s-1", ONE, 99, "ann", 1, 2, 3, 4, 5)],
    "log_state": LogState(
        {ONE: Offsets(0, 9)}, 4, (GonePartition(3, "day=2024-01-01", 0, (9, 4), 5_000, (1, 2)),), (TWO,)
    ),
    "offsets": {ONE: Offsets(0, 9), TWO: Offsets(3, 3)},
    "pull_changes": [ChangePage(ONE, BATCH, 0, 2, 5), ChangePage(TWO, BATCH.slice(1), 3, 4, 9)],
    "create_snapshot": [SNAPSHOT],
    "list_snapshots": [SNAPSHOT],
    "acquire_lease": LEASE,
    "renew_lease": LeaseTime(7, 9),
    "lease_bytes": 12,
    "release_lease": LEASE,
    "list_leases": [LEASE],
    "lease": LEASE,
    "acquire_owner": OwnerGrant(b"token", 5_000, ("note",), 3, 4),
    "renew_owner": 5_000,
    "drop_owner": UNDONE,
    "list_owners": [OwnerInfo("shop.orders", "job", ("note",), 2, None, 3, None, 0, "ann:1", True, 5_000)],
    "begin_epoch": EpochBegun(EpochStatus.NEW, 3),
    "undo_owner": UNDONE,
    "leave_epochs": UNDONE,
    "stage": WriteResult(2, 0, 0, done=True),
    "end_attempt": AttemptEnd(b"a" * 16, 9, done=True),
    "lookup": LookupResult(BATCH, {ONE: 9}),
    "prefix_lookup": LookupResult(BATCH, {ONE: 9, TWO: 1}),
    "stats": STATS,
    "begin_backup": BackupPlan("b-1", "0f" * 16, 9, 2, 3, 1 << 40),
    "backup_files": [BackupFile("tables/1/0/0/data-000000000001", 77, "ab"), BackupFile("description", 3)],
    "read_backup": bytes(range(256)),
}


def facet_methods() -> dict[str, inspect.Signature]:
    """Return the methods of all facets by the target that a call names them with."""
    facets = (CatalogFacet, TablesFacet, ScanFacet, ChangesFacet, LookupFacet, LeasesFacet, OwnersFacet, BackupFacet)
    return {
        f"{facet.__name__.removesuffix('Facet').lower()}.{name}": inspect.signature(method)
        for facet in facets
        for name, method in inspect.getmembers(facet, inspect.isfunction)
        if not name.startswith("_")
    }


def test_every_call_of_a_node_can_be_asked_and_nothing_else() -> None:
    methods = facet_methods()

    # A column without a default is added by the call that older servers know, too.
    plain = [call for name, call in CALLS.items() if name != "add_column"]
    assert sorted(call.target for call in plain) == sorted({*methods} - {"scan.pages", "tables.write_stream"})
    for call in plain:
        assert list(call.arguments) == [part for part in methods[call.target].parameters if part != "self"], call.name


@pytest.mark.parametrize("name", sorted(CALLS))
def test_arguments_cross_unchanged(name: str) -> None:
    call = CALLS[name]
    arguments = ARGUMENTS.get(name, {"table_id": 7} if call.arguments else {})

    frame = decode_frame(call.encode_request(5, arguments))

    assert (frame.header["call"], frame.header["id"]) == (name, 5)
    assert call.decode_arguments(frame.header["args"], read_batches(frame, BodyLimits())) == arguments


@pytest.mark.parametrize("name", sorted(CALLS))
def test_results_cross_unchanged(name: str) -> None:
    call = CALLS[name]

    assert call.decode_reply(5, call.encode_reply(5, RESULTS.get(name)).frame()) == RESULTS.get(name)


ON_NO_TABLE = {
    "about all tables at once": {"begin_backup", "backup_files", "read_backup", "end_backup"},
    "about the node or a database": {
        "database_id",
        "create_database",
        "list_databases",
        "drop_database",
        "list_tables",
    },
    "by what an earlier call gave out": {
        "release_cut",
        "next_page",
        "close_scanner",
        "read_token",
        "kill_scanner",
        "renew_lease",
        "release_lease",
        "drop_lease",
        "lease",
        "lease_bytes",
    },
    "lists": {"list_scanners", "list_leases", "list_owners"},
}


@pytest.mark.parametrize("name", sorted(CALLS))
def test_every_call_says_which_tables_it_is_on(name: str) -> None:
    arguments = ARGUMENTS.get(name, {"table_id": 7} if CALLS[name].arguments else {})
    if "owner" in arguments and "table_id" not in arguments:
        arguments = arguments | {"owner": OwnerToken(7, 1, "job", 1, 1).to_bytes()}

    tables = CALLS[name].tables(arguments)

    if any(name in names for names in ON_NO_TABLE.values()):
        assert tables == ()
    elif name == "acquire_lease":
        assert tables == (7, 8, "shop.orders")
    elif name == "open_cuts":
        assert tables == (7, 8)
    else:
        assert tables in {(7,), (1,), ("shop.orders",)}


def test_error_in_a_reply_is_raised() -> None:
    error = TableNotFoundError("no such table", path="shop.none")

    with pytest.raises(TableNotFoundError, match=r"no such table path=shop\.none"):
        NEXT_PAGE.decode_reply(5, encode_frame(FrameKind.ERROR, {"id": -1, "error": write_fault(error)}))


def test_reply_to_another_call_is_refused() -> None:
    with pytest.raises(InvalidError, match="not asked"):
        NEXT_PAGE.decode_reply(5, NEXT_PAGE.encode_reply(4, PAGE).frame())


@pytest.mark.parametrize(
    "said",
    [
        None,
        [],
        {},
        {"scanner_id": "s"},
        {"scanner_id": "s", "call_seq_id": True},
        {"scanner_id": "s", "call_seq_id": 1 << 80},
        {"scanner_id": 3, "call_seq_id": 1},
        {"scanner_id": "s" * (2 << 20), "call_seq_id": 1},
        {"scanner_id": "s", "call_seq_id": 1, "surprise": 1},
    ],
)
def test_malformed_arguments_are_refused(said: object) -> None:
    with pytest.raises(InvalidError):
        NEXT_PAGE.decode_arguments(said, [])


@pytest.mark.parametrize("name", sorted(ARGUMENTS))
@pytest.mark.parametrize("junk", [None, -1, 1.5, "x", [], {}, [[]], {"a": {}}, ["x"] * 4])
def test_junk_in_any_argument_is_refused_or_harmless(name: str, junk: object) -> None:
    call = CALLS[name]
    said = decode_frame(call.encode_request(5, ARGUMENTS[name])).header["args"]
    record = said.get("call") if isinstance(said.get("call"), dict) else said

    for part in list(record):
        kept, record[part] = record[part], junk
        with suppress(InvalidError):
            call.decode_arguments(said, [BATCH])
        record[part] = kept


def test_batch_that_was_not_sent_is_refused() -> None:
    said = decode_frame(WRITE.encode_request(5, ARGUMENTS["write"])).header["args"]

    with pytest.raises(InvalidError, match="body"):
        WRITE.decode_arguments(said, [])


def test_lease_of_a_hundred_thousand_buckets_fits_a_frame() -> None:
    held = [
        Leased(7, Snapshot(3, TableBucket("shop.orders", f"day={i // 100}", i % 100), i, 5, 9, ("job",), "x" * 40), i)
        for i in range(100_000)
    ]
    lease = LeaseInfo("job", "ann", 1, 2, held)

    assert CALLS["lease"].decode_reply(5, CALLS["lease"].encode_reply(5, lease).frame()) == lease
