"""Every call that a server answers. The table is the protocol: what is not in it cannot be asked."""

from __future__ import annotations

from typing import Any, Final

from penstock.model.schema.aggregate import AggFunction
from penstock.wire.call import Call
from penstock.wire.field import BOOL, BUCKET, BYTES, INT, NOTHING, TEXT, VALUE, choice, listed, maybe, tupled
from penstock.wire.lease_records import ACQUIRE_LEASE, LEASE_INFO, LEASE_TIME, SNAPSHOTS
from penstock.wire.owner_records import (
    ACQUIRE_OWNER,
    ATTEMPT_END,
    ATTEMPTS,
    EPOCH_BEGUN,
    OWNER_GRANT,
    OWNER_INFO,
    UNDO_RESULT,
)
from penstock.wire.records import (
    CHANGE_PAGE,
    CUT,
    LOOKUP_CALL,
    LOOKUP_RESULT,
    OFFSET_BY_BUCKET,
    OFFSETS_BY_BUCKET,
    OPEN_SCAN,
    PAGE,
    PULL_CHANGES,
    SCANNER_INFO,
    TABLE_INFO,
    TABLE_LOGS,
    TABLE_SPEC,
    TABLE_STATS,
    TYPE,
    WRITE_CALL,
    WRITE_RESULT,
)

DATABASE_ID: Final = Call("database_id", "catalog.database_id", TEXT)
CHECK_ORIGIN: Final = Call(
    "check_origin",
    "catalog.check_origin",
    NOTHING,
    {"database": TEXT, "table_id": INT, "offsets": OFFSET_BY_BUCKET, "births": maybe(INT)},
)

CREATE_DATABASE: Final = Call(
    "create_database", "catalog.create_database", NOTHING, {"name": TEXT, "if_not_exists": BOOL}, once=True
)
LIST_DATABASES: Final = Call("list_databases", "catalog.list_databases", listed(TEXT))
DROP_DATABASE: Final = Call(
    "drop_database", "catalog.drop_database", NOTHING, {"name": TEXT, "cascade": BOOL, "if_exists": BOOL}, once=True
)

CREATE_TABLE: Final = Call(
    "create_table",
    "catalog.create_table",
    TABLE_INFO,
    {"path": TEXT, "spec": TABLE_SPEC, "if_not_exists": BOOL},
    once=True,
)
TABLE: Final = Call("table", "catalog.table", TABLE_INFO, {"path": TEXT})
TABLE_BY_ID: Final = Call("table_by_id", "catalog.table_by_id", TABLE_INFO, {"table_id": INT})
LIST_TABLES: Final = Call("list_tables", "catalog.list_tables", listed(TEXT), {"database": TEXT})
DROP_TABLE: Final = Call("drop_table", "catalog.drop_table", NOTHING, {"path": TEXT, "if_exists": BOOL}, once=True)
ADD_COLUMN: Final = Call(
    "add_column",
    "catalog.add_column",
    TABLE_INFO,
    {"table_id": INT, "name": TEXT, "type": TYPE, "agg": maybe(choice(AggFunction))},
    once=True,
)

LIST_PARTITIONS: Final = Call("list_partitions", "catalog.list_partitions", listed(TEXT), {"table_id": INT})
CREATE_PARTITION: Final = Call(
    "create_partition",
    "catalog.create_partition",
    TEXT,
    {"table_id": INT, "values": VALUE, "if_not_exists": BOOL},
    once=True,
)
DROP_PARTITION: Final = Call(
    "drop_partition",
    "catalog.drop_partition",
    NOTHING,
    {"table_id": INT, "values": VALUE, "if_exists": BOOL},
    once=True,
)
BUCKETS: Final = Call("buckets", "catalog.buckets", listed(BUCKET), {"table_id": INT})

WRITE: Final = Call("write", "tables.write", WRITE_RESULT, {"call": WRITE_CALL})
DELETE_WHERE: Final = Call(
    "delete_where",
    "tables.delete_where",
    WRITE_RESULT,
    {"table_id": INT, "filter": BYTES, "writer_id": BYTES, "sequence": INT},
)
TRUNCATE: Final = Call("truncate", "tables.truncate", WRITE_RESULT, {"table_id": INT}, once=True)

OPEN_CUT: Final = Call(
    "open_cut",
    "scan.open_cut",
    CUT,
    {"table_id": INT, "as_of": maybe(OFFSET_BY_BUCKET), "buckets": maybe(listed(BUCKET))},
)
RELEASE_CUT: Final = Call("release_cut", "scan.release_cut", NOTHING, {"cut_id": TEXT})
NAMED_CUT: Final = Call("named_cut", "scan.named_cut", CUT, {"table_id": INT, "name": TEXT, "ttl_ms": INT})
OPEN_SCANNER: Final = Call("open_scanner", "scan.open", PAGE, {"call": OPEN_SCAN})
OPEN_SCANNERS: Final = Call("open_scanners", "scan.open_some", listed(PAGE), {"calls": tupled(OPEN_SCAN)})
NEXT_PAGE: Final = Call("next_page", "scan.next_page", PAGE, {"scanner_id": TEXT, "call_seq_id": INT})
CLOSE_SCANNER: Final = Call("close_scanner", "scan.close", NOTHING, {"scanner_id": TEXT})
READ_TOKEN: Final = Call("read_token", "scan.read_token", OPEN_SCAN, {"token": BYTES})
LIST_SCANNERS: Final = Call("list_scanners", "scan.list", listed(SCANNER_INFO))
KILL_SCANNER: Final = Call("kill_scanner", "scan.kill", NOTHING, {"scanner_id": TEXT}, once=True)

OFFSETS: Final = Call(
    "offsets",
    "changes.offsets",
    OFFSETS_BY_BUCKET,
    {"table_id": INT, "timestamp_ms": maybe(INT), "lease_id": maybe(TEXT)},
)
LOG_STATE: Final = Call("log_state", "changes.log_state", TABLE_LOGS, {"table_id": INT, "since": INT})
PULL: Final = Call("pull_changes", "changes.pull", listed(CHANGE_PAGE), {"call": PULL_CHANGES})
LOOKUP: Final = Call("lookup", "lookup.rows", LOOKUP_RESULT, {"call": LOOKUP_CALL})
PREFIX_LOOKUP: Final = Call("prefix_lookup", "lookup.prefix", LOOKUP_RESULT, {"call": LOOKUP_CALL})
STATS: Final = Call("stats", "tables.stats", TABLE_STATS, {"table_id": INT})

CREATE_SNAPSHOT: Final = Call("create_snapshot", "leases.create_snapshot", SNAPSHOTS, {"table_id": INT})
LIST_SNAPSHOTS: Final = Call("list_snapshots", "leases.list_snapshots", SNAPSHOTS, {"table_id": INT})
ACQUIRE: Final = Call("acquire_lease", "leases.acquire", LEASE_INFO, {"call": ACQUIRE_LEASE})
RENEW_LEASE: Final = Call("renew_lease", "leases.renew", LEASE_TIME, {"lease_id": TEXT, "duration_ms": maybe(INT)})
RELEASE_LEASE: Final = Call(
    "release_lease", "leases.release", LEASE_INFO, {"lease_id": TEXT, "buckets": listed(BUCKET)}
)
DROP_LEASE: Final = Call("drop_lease", "leases.drop", NOTHING, {"lease_id": TEXT}, once=True)
LIST_LEASES: Final = Call("list_leases", "leases.list", listed(LEASE_INFO))
LEASE: Final = Call("lease", "leases.get", LEASE_INFO, {"lease_id": TEXT})
LEASE_BYTES: Final = Call("lease_bytes", "leases.kept_bytes", INT, {"lease_id": TEXT})

ACQUIRE_AN_OWNER: Final = Call("acquire_owner", "owners.acquire", OWNER_GRANT, {"call": ACQUIRE_OWNER})
RENEW_OWNER: Final = Call("renew_owner", "owners.renew", INT, {"owner": BYTES})
RELEASE_OWNER: Final = Call("release_owner", "owners.release", NOTHING, {"owner": BYTES})
DROP_OWNER: Final = Call(
    "drop_owner", "owners.drop", UNDO_RESULT, {"table_id": INT, "owner": TEXT, "undo": BOOL}, once=True
)
LIST_OWNERS: Final = Call("list_owners", "owners.list", listed(OWNER_INFO))
BEGIN_EPOCH: Final = Call("begin_epoch", "owners.begin", EPOCH_BEGUN, {"owner": BYTES, "epoch": INT})
COMMIT_EPOCH: Final = Call(
    "commit_epoch",
    "owners.commit",
    NOTHING,
    {"owner": BYTES, "epoch": INT, "attempts": maybe(ATTEMPTS), "replaces": BOOL},
)
UNDO_OWNER: Final = Call("undo_owner", "owners.undo", UNDO_RESULT, {"owner": BYTES}, once=True)
LEAVE_EPOCHS: Final = Call("leave_epochs", "owners.leave", UNDO_RESULT, {"owner": BYTES}, once=True)
STAGE: Final = Call("stage", "owners.stage", WRITE_RESULT, {"call": WRITE_CALL})
END_ATTEMPT: Final = Call(
    "end_attempt", "owners.end_attempt", ATTEMPT_END, {"owner": BYTES, "attempt": BYTES, "written": INT}
)

CALLS: Final[dict[str, Call[Any]]] = {call.name: call for call in list(globals().values()) if isinstance(call, Call)}
