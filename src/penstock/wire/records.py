"""The values of `penstock.model.node.calls` and `penstock.model.node.backup` as fields of a frame."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

import google_crc32c
import pyarrow as pa

from penstock.errors import InvalidError, PenstockError, UnavailableError
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
from penstock.model.node.log_state import GonePartition, LogState
from penstock.model.place.bucket import TableBucket
from penstock.model.schema.agg_mode import AggMode
from penstock.model.schema.stored_field import decode_default, encode_default
from penstock.model.schema.type_words import format_type, parse_type
from penstock.model.table.spec import spec_from_json
from penstock.model.table.table import TableInfo, TableSpec
from penstock.wire.field import (
    BATCH,
    BOOL,
    BUCKET,
    BYTES,
    INT,
    LOOSE,
    NAME,
    TEXT,
    Field,
    by_bucket,
    choice,
    listed,
    maybe,
    record,
    tupled,
)

T = TypeVar("T")

COLUMNS: Final = maybe(tupled(TEXT))
AGG_MODE: Final[Field[AggMode]] = Field(lambda value, _: value, lambda value, _: AggMode.parse(value))
OFFSET_BY_BUCKET: Final[Field[Mapping[TableBucket, int]]] = by_bucket(INT, make=int)
RANGE_BY_BUCKET: Final[Field[Mapping[TableBucket, tuple[int, int]]]] = by_bucket(
    INT, INT, make=lambda start, end: (start, end)
)
OFFSETS_BY_BUCKET: Final[Field[Mapping[TableBucket, Offsets]]] = by_bucket(INT, INT, make=Offsets)
POSITIONS: Final[Field[Mapping[TableBucket, tuple[int, int | None]]]] = by_bucket(
    INT, maybe(INT), make=lambda start, end: (start, end)
)


def described(write: Callable[[T], Any], read: Callable[[Any], T]) -> Field[T]:
    """Return the field of a noun that describes itself as JSON; what does not fit it is refused."""

    def check(value: Any, _: Sequence[pa.RecordBatch]) -> T:
        try:
            return read(value)
        except PenstockError:
            raise
        except (LookupError, TypeError, ValueError, AttributeError, RecursionError) as error:
            raise InvalidError("malformed message: a description does not fit", cause=type(error).__name__) from error

    return Field(lambda value, _: write(value), check)


TABLE_SPEC: Final[Field[TableSpec]] = described(TableSpec.to_json, spec_from_json)
TABLE_INFO: Final[Field[TableInfo]] = described(TableInfo.to_json, TableInfo.from_json)
TYPE: Final[Field[pa.DataType]] = described(format_type, lambda words: parse_type(words, "new column"))
SCALAR: Final[Field[pa.Scalar]] = described(
    lambda value: encode_default(value).decode(), lambda text: decode_default(text.encode())
)

WRITE_CALL: Final = record(
    WriteCall,
    table_id=INT,
    schema_id=INT,
    operation=choice(Operation),
    batch=BATCH,
    columns=COLUMNS,
    agg_mode=AGG_MODE,
    writer_id=BYTES,
    sequence=INT,
    owner=maybe(BYTES),
    attempt=BYTES,
)
WRITE_RESULT: Final = record(
    WriteResult,
    "ignored_because",
    rows=INT,
    changes=INT,
    ignored=INT,
    offsets=RANGE_BY_BUCKET,
    done=BOOL,
    ignored_because=TEXT,
)
CUT: Final = record(Cut, "schema_id", cut_id=TEXT, offsets=OFFSET_BY_BUCKET, births=maybe(INT), schema_id=INT)
OPEN_SCAN: Final = record(
    OpenScan,
    "offsets",
    table_id=INT,
    schema_id=INT,
    bucket=BUCKET,
    columns=COLUMNS,
    filter=maybe(BYTES),
    limit=maybe(INT),
    page_bytes=maybe(INT),
    as_of=maybe(INT),
    start=INT,
    cut_id=maybe(NAME),
    lease_id=maybe(NAME),
    end=maybe(INT),
    pin=BOOL,
    scanner_id=maybe(TEXT),
    offsets=BOOL,
)
PAGE: Final = record(
    Page,
    "schema_id",
    scanner_id=maybe(TEXT),
    log_offset=INT,
    batches=tupled(BATCH),
    has_more=BOOL,
    next_offset=INT,
    resume_token=BYTES,
    cut_id=maybe(TEXT),
    inner_ends=tupled(INT),
    schema_id=maybe(INT),
)
SCANNER_INFO: Final = record(
    ScannerInfo,
    scanner_id=TEXT,
    bucket=BUCKET,
    log_offset=INT,
    principal=TEXT,
    opened_ms=INT,
    idle_ms=INT,
    pages=INT,
    rows=INT,
    bytes=INT,
)
ROW_PASS: Final = record(
    RowPass,
    table_id=INT,
    schema_id=INT,
    positions=POSITIONS,
    filter=maybe(BYTES),
    cut_id=maybe(NAME),
    lease_id=maybe(NAME),
    columns=COLUMNS,
    order=tupled(TEXT),
    descending=tupled(BOOL),
    limit=INT,
    offsets=BOOL,
)
ROW_COUNT: Final = record(RowCount, rows=INT, left=POSITIONS)
FIRST_ROWS: Final = record(FirstRows, batch=BATCH, left=POSITIONS)
PULL_CHANGES: Final = record(
    PullChanges,
    "filter",
    table_id=INT,
    schema_id=INT,
    positions=POSITIONS,
    columns=COLUMNS,
    images=choice(Images),
    max_bytes=INT,
    wait_ms=INT,
    reader_id=maybe(NAME),
    lease_id=maybe(TEXT),
    births=maybe(INT),
    filter=maybe(BYTES),
)
GONE_PARTITION: Final = record(
    GonePartition,
    partition_id=INT,
    name=TEXT,
    first_offset=INT,
    ends=tupled(INT),
    dropped_ms=INT,
    bases=maybe(tupled(INT)),
)
TABLE_LOGS: Final = record(
    LogState, offsets=OFFSETS_BY_BUCKET, births=INT, gone=tupled(GONE_PARTITION), away=tupled(BUCKET)
)
CHANGE_PAGE: Final = record(ChangePage, bucket=BUCKET, batch=BATCH, start=INT, next_offset=INT, end=INT)
LOOKUP_CALL: Final = record(
    LookupCall,
    "offsets",
    "as_of",
    "cut_id",
    table_id=INT,
    schema_id=INT,
    keys=BATCH,
    columns=COLUMNS,
    offsets=BOOL,
    as_of=maybe(OFFSET_BY_BUCKET),
    cut_id=maybe(NAME),
)
LOOKUP_RESULT: Final = record(LookupResult, "schema_id", batch=BATCH, offsets=OFFSET_BY_BUCKET, schema_id=maybe(INT))
BUCKET_STATS: Final = record(
    BucketStats,
    bucket=BUCKET,
    base=INT,
    visible=INT,
    rows=INT,
    live_rows=INT,
    bytes=INT,
    files=INT,
    tail_rows=INT,
    checkpoint=INT,
    pins=LOOSE,
)
TABLE_STATS: Final = record(
    TableStats, rows=INT, live_rows=INT, bytes=INT, buckets=listed(BUCKET_STATS), background=LOOSE
)

# A piece of a file travels as a batch of one value: a header would carry it a third larger.
_PIECE: Final = pa.schema([pa.field("piece", pa.large_binary(), nullable=False)])


def _write_piece(value: bytes, batches: list[pa.RecordBatch]) -> Any:
    sizes = pa.py_buffer(len(value).to_bytes(8, "little").rjust(16, b"\x00"))
    column = pa.LargeBinaryArray.from_buffers(pa.large_binary(), 1, [None, sizes, pa.py_buffer(value)])
    batch = pa.RecordBatch.from_arrays([column], schema=_PIECE)
    return [BATCH.write(batch, batches), google_crc32c.value(value)]


def _read_piece(value: Any, batches: Sequence[pa.RecordBatch]) -> bytes:
    if not isinstance(value, list) or len(value) != 2 or type(value[1]) is not int:
        raise InvalidError("malformed message: expected a piece of a file", found=type(value).__name__)
    batch = BATCH.read(value[0], batches)
    if batch.schema != _PIECE or batch.num_rows != 1:
        raise InvalidError("malformed message: expected a piece of a file", found=str(batch.schema.names)[:200])
    piece: bytes = batch.column(0)[0].as_py()
    if google_crc32c.value(piece) != value[1]:
        raise UnavailableError("a piece of a file was damaged on its way; try again", bytes=len(piece))
    return piece


PIECE: Final[Field[bytes]] = Field(_write_piece, _read_piece)
BACKUP_PLAN: Final = record(BackupPlan, backup_id=TEXT, database=TEXT, created_ms=INT, tables=INT, files=INT, bytes=INT)
BACKUP_FILE: Final = record(BackupFile, path=TEXT, bytes=INT, fingerprint=TEXT)
