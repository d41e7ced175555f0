"""Every call that a server answers. The table is the protocol: what is not in it cannot be asked."""

from __future__ import annotations

from typing import Any, Final

from penstock.model.schema.aggregate import AggFunction
from penstock.wire.call import Call
from penstock.wire.call_tables import BY_ID, BY_IDS, BY_PATH, OF_CALL, OF_CALLS, OF_LEASE, OF_OWNER, ON_NO_TABLE
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
    BACKUP_FILE,
    BACKUP_PLAN,
    CHANGE_PAGE,
    CUT,
    FIRST_ROWS,
    LOOKUP_CALL,
    LOOKUP_RESULT,
    OFFSET_BY_BUCKET,
    OFFSETS_BY_BUCKET,
    OPEN_SCAN,
    PAGE,
    PIECE,
    PULL_CHANGES,
    ROW_COUNT,
    ROW_PASS,
    SCALAR,
    SCANNER_INFO,
    TABLE_INFO,
    TABLE_LOGS,
    TABLE_SPEC,
    TABLE_STATS,
    TYPE,
    WRITE_CALL,
    WRITE_RESULT,
)

DATABASE_ID: Final = Call("database_id", "catalog.database_id", ON_NO_TABLE, TEXT)
CHECK_ORIGIN: Final = Call(
    "check_origin",
    "catalog.check_origin",
    BY_ID,
    NOTHING,
    {"database": TEXT, "table_id": INT, "offsets": OFFSET_BY_BUCKET, "births": maybe(INT)},
)

CREATE_DATABASE: Final = Call(
    "create_database", "catalog.create_database", ON_NO_TABLE, NOTHING, {"name": TEXT, "if_not_exists": BOOL}, once=True
)
LIST_DATABASES: Final = Call("list_databases", "catalog.list_databases", ON_NO_TABLE, listed(TEXT))
DROP_DATABASE: Final = Call(
    "drop_database",
    "catalog.drop_database",
    ON_NO_TABLE,
    NOTHING,
    {"name": TEXT, "cascade": BOOL, "if_exists": BOOL},
    once=True,
)

CREATE_TABLE: Final = Call(
    "create_table",
    "catalog.create_table",
    BY_PATH,
    TABLE_INFO,
    {"path": TEXT, "spec": TABLE_SPEC, "if_not_exists": BOOL},
    once=True,
)
TABLE: Final = Call("table", "catalog.table", BY_PATH, TABLE_INFO, {"path": TEXT})
TABLE_BY_ID: Final = Call("table_by_id", "catalog.table_by_id", BY_ID, TABLE_INFO, {"table_id": INT})
LIST_TABLES: Final = Call("list_tables", "catalog.list_tables", ON_NO_TABLE, listed(TEXT), {"database": TEXT})
DROP_TABLE: Final = Call(
    "drop_table", "catalog.drop_table", BY_PATH, NOTHING, {"path": TEXT, "if_exists": BOOL}, once=True
)
ADD_COLUMN: Final = Call(
    "add_column",
    "catalog.add_column",
    BY_ID,
    TABLE_INFO,
    {"table_id": INT, "name": TEXT, "type": TYPE, "agg": maybe(choice(AggFunction))},
    once=True,
)

ADD_DEFAULTED_COLUMN: Final = Call(
    "add_defaulted_column",
    "catalog.add_column",
    BY_ID,
    TABLE_INFO,
    {"table_id": INT, "name": TEXT, "type": TYPE, "agg": maybe(choice(AggFunction)), "default": SCALAR},
    once=True,
)
TABLE_AS_OF: Final = Call("table_as_of", "catalog.table_as_of", BY_ID, TABLE_INFO, {"table_id": INT, "schema_id": INT})
RENAME_COLUMN: Final = Call(
    "rename_column", "catalog.rename_column", BY_ID, TABLE_INFO, {"table_id": INT, "old": TEXT, "new": TEXT}, once=True
)
DROP_COLUMN: Final = Call(
    "drop_column", "catalog.drop_column", BY_ID, TABLE_INFO, {"table_id": INT, "name": TEXT}, once=True
)
WIDEN_COLUMN: Final = Call(
    "widen_column", "catalog.widen_column", BY_ID, TABLE_INFO, {"table_id": INT, "name": TEXT, "type": TYPE}, once=True
)
SET_PROPERTIES: Final = Call(
    "set_properties", "catalog.set_properties", BY_ID, TABLE_INFO, {"table_id": INT, "properties": VALUE}, once=True
)

LIST_PARTITIONS: Final = Call("list_partitions", "catalog.list_partitions", BY_ID, listed(TEXT), {"table_id": INT})
CREATE_PARTITION: Final = Call(
    "create_partition",
    "catalog.create_partition",
    BY_ID,
    TEXT,
    {"table_id": INT, "values": VALUE, "if_not_exists": BOOL},
    once=True,
)
DROP_PARTITION: Final = Call(
    "drop_partition",
    "catalog.drop_partition",
    BY_ID,
    NOTHING,
    {"table_id": INT, "values": VALUE, "if_exists": BOOL},
    once=True,
)
BUCKETS: Final = Call("buckets", "catalog.buckets", BY_ID, listed(BUCKET), {"table_id": INT})

WRITE: Final = Call("write", "tables.write", OF_CALL, WRITE_RESULT, {"call": WRITE_CALL})
DELETE_WHERE: Final = Call(
    "delete_where",
    "tables.delete_where",
    BY_ID,
    WRITE_RESULT,
    {"table_id": INT, "filter": BYTES, "writer_id": BYTES, "sequence": INT},
)
TRUNCATE: Final = Call("truncate", "tables.truncate", BY_ID, WRITE_RESULT, {"table_id": INT}, once=True)

OPEN_CUT: Final = Call(
    "open_cut",
    "scan.open_cut",
    BY_ID,
    CUT,
    {"table_id": INT, "as_of": maybe(OFFSET_BY_BUCKET), "buckets": maybe(listed(BUCKET))},
)
OPEN_CUT_AT: Final = Call(
    "open_cut_at",
    "scan.open_cut_at",
    BY_ID,
    CUT,
    {"table_id": INT, "timestamp_ms": INT, "buckets": maybe(listed(BUCKET))},
)
OPEN_CUTS: Final = Call("open_cuts", "scan.open_cuts", BY_IDS, listed(CUT), {"table_ids": tupled(INT)})
RELEASE_CUT: Final = Call("release_cut", "scan.release_cut", ON_NO_TABLE, NOTHING, {"cut_id": TEXT})
NAMED_CUT: Final = Call("named_cut", "scan.named_cut", BY_ID, CUT, {"table_id": INT, "name": TEXT, "ttl_ms": INT})
OPEN_SCANNER: Final = Call("open_scanner", "scan.open", OF_CALL, PAGE, {"call": OPEN_SCAN})
OPEN_SCANNERS: Final = Call("open_scanners", "scan.open_some", OF_CALLS, listed(PAGE), {"calls": tupled(OPEN_SCAN)})
NEXT_PAGE: Final = Call("next_page", "scan.next_page", ON_NO_TABLE, PAGE, {"scanner_id": TEXT, "call_seq_id": INT})
CLOSE_SCANNER: Final = Call("close_scanner", "scan.close", ON_NO_TABLE, NOTHING, {"scanner_id": TEXT})
READ_TOKEN: Final = Call("read_token", "scan.read_token", ON_NO_TABLE, OPEN_SCAN, {"token": BYTES})
LIST_SCANNERS: Final = Call("list_scanners", "scan.list", ON_NO_TABLE, listed(SCANNER_INFO))
KILL_SCANNER: Final = Call("kill_scanner", "scan.kill", ON_NO_TABLE, NOTHING, {"scanner_id": TEXT}, once=True)

COUNT_ROWS: Final = Call("count_rows", "scan.count", OF_CALL, ROW_COUNT, {"call": ROW_PASS})
FIRST_ROWS_OF: Final = Call("first_rows", "scan.first", OF_CALL, FIRST_ROWS, {"call": ROW_PASS})

OFFSETS: Final = Call(
    "offsets",
    "changes.offsets",
    BY_ID,
    OFFSETS_BY_BUCKET,
    {"table_id": INT, "timestamp_ms": maybe(INT), "lease_id": maybe(TEXT)},
)
LOG_STATE: Final = Call("log_state", "changes.log_state", BY_ID, TABLE_LOGS, {"table_id": INT, "since": INT})
PULL: Final = Call("pull_changes", "changes.pull", OF_CALL, listed(CHANGE_PAGE), {"call": PULL_CHANGES})
LOOKUP: Final = Call("lookup", "lookup.rows", OF_CALL, LOOKUP_RESULT, {"call": LOOKUP_CALL})
PREFIX_LOOKUP: Final = Call("prefix_lookup", "lookup.prefix", OF_CALL, LOOKUP_RESULT, {"call": LOOKUP_CALL})
STATS: Final = Call("stats", "tables.stats", BY_ID, TABLE_STATS, {"table_id": INT})

CREATE_SNAPSHOT: Final = Call("create_snapshot", "leases.create_snapshot", BY_ID, SNAPSHOTS, {"table_id": INT})
LIST_SNAPSHOTS: Final = Call("list_snapshots", "leases.list_snapshots", BY_ID, SNAPSHOTS, {"table_id": INT})
ACQUIRE: Final = Call("acquire_lease", "leases.acquire", OF_LEASE, LEASE_INFO, {"call": ACQUIRE_LEASE})
RENEW_LEASE: Final = Call(
    "renew_lease", "leases.renew", ON_NO_TABLE, LEASE_TIME, {"lease_id": TEXT, "duration_ms": maybe(INT)}
)
RELEASE_LEASE: Final = Call(
    "release_lease", "leases.release", ON_NO_TABLE, LEASE_INFO, {"lease_id": TEXT, "buckets": listed(BUCKET)}
)
DROP_LEASE: Final = Call("drop_lease", "leases.drop", ON_NO_TABLE, NOTHING, {"lease_id": TEXT}, once=True)
LIST_LEASES: Final = Call("list_leases", "leases.list", ON_NO_TABLE, listed(LEASE_INFO))
LEASE: Final = Call("lease", "leases.get", ON_NO_TABLE, LEASE_INFO, {"lease_id": TEXT})
LEASE_BYTES: Final = Call("lease_bytes", "leases.kept_bytes", ON_NO_TABLE, INT, {"lease_id": TEXT})

ACQUIRE_AN_OWNER: Final = Call("acquire_owner", "owners.acquire", OF_CALL, OWNER_GRANT, {"call": ACQUIRE_OWNER})
RENEW_OWNER: Final = Call("renew_owner", "owners.renew", OF_OWNER, INT, {"owner": BYTES})
RELEASE_OWNER: Final = Call("release_owner", "owners.release", OF_OWNER, NOTHING, {"owner": BYTES})
DROP_OWNER: Final = Call(
    "drop_owner", "owners.drop", BY_ID, UNDO_RESULT, {"table_id": INT, "owner": TEXT, "undo": BOOL}, once=True
)
LIST_OWNERS: Final = Call("list_owners", "owners.list", ON_NO_TABLE, listed(OWNER_INFO))
BEGIN_EPOCH: Final = Call("begin_epoch", "owners.begin", OF_OWNER, EPOCH_BEGUN, {"owner": BYTES, "epoch": INT})
COMMIT_EPOCH: Final = Call(
    "commit_epoch",
    "owners.commit",
    OF_OWNER,
    NOTHING,
    {"owner": BYTES, "epoch": INT, "attempts": maybe(ATTEMPTS), "replaces": BOOL},
)
UNDO_OWNER: Final = Call("undo_owner", "owners.undo", OF_OWNER, UNDO_RESULT, {"owner": BYTES}, once=True)
LEAVE_EPOCHS: Final = Call("leave_epochs", "owners.leave", OF_OWNER, UNDO_RESULT, {"owner": BYTES}, once=True)
STAGE: Final = Call("stage", "owners.stage", OF_CALL, WRITE_RESULT, {"call": WRITE_CALL})
END_ATTEMPT: Final = Call(
    "end_attempt", "owners.end_attempt", OF_OWNER, ATTEMPT_END, {"owner": BYTES, "attempt": BYTES, "written": INT}
)

BEGIN_BACKUP: Final = Call("begin_backup", "backup.begin", ON_NO_TABLE, BACKUP_PLAN, {"target": TEXT}, once=True)
BACKUP_FILES: Final = Call(
    "backup_files", "backup.files", ON_NO_TABLE, listed(BACKUP_FILE), {"backup_id": TEXT, "start": INT}
)
READ_BACKUP: Final = Call(
    "read_backup",
    "backup.read",
    ON_NO_TABLE,
    PIECE,
    {"backup_id": TEXT, "path": TEXT, "position": INT, "length": INT},
)
END_BACKUP: Final = Call("end_backup", "backup.end", ON_NO_TABLE, NOTHING, {"backup_id": TEXT})

CALLS: Final[dict[str, Call[Any]]] = {call.name: call for call in list(globals().values()) if isinstance(call, Call)}
