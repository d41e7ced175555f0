"""How a table's change streams are opened."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta

import pyarrow.compute as pc

from penstock.client.changes.range import (
    EARLIEST,
    StartLike,
    decode_position,
    is_position,
    named_offsets,
    resolve_ends,
    resolve_starts,
)
from penstock.client.changes.stream import ChangeStream, Patience, SnapshotPhase
from penstock.client.cut.cut import CutLike, resolve_cut
from penstock.client.link.buckets import BucketName, resolve_buckets
from penstock.client.link.link import Link
from penstock.client.pages.change_pull import ChangePull
from penstock.client.scan.lease_cut import require_whole
from penstock.client.scan.request import ScanRequest, ScanSource, compile_filter, project
from penstock.client.scan.scan import Scan
from penstock.client.scan.token import ScanToken
from penstock.errors import (
    InvalidError,
    NotLeaderError,
    OffsetOutOfRangeError,
    PartitionNotFoundError,
    UnsupportedError,
)
from penstock.model.node.calls import Images, ImagesLike, Offsets
from penstock.model.node.log_state import LogState
from penstock.model.place.bucket import TableBucket
from penstock.model.place.system_columns import RESERVED_NAMES
from penstock.model.table.table import TableInfo
from penstock.model.words.names import name_list
from penstock.model.words.quantity import parse_duration_ms

Timeout = str | timedelta | float | None
TRIES = 5


@dataclass(frozen=True, kw_only=True)
class StreamRequest:
    """What a change stream reads, as users say it."""

    end: CutLike | None = None
    follow: bool = False
    timeout: Timeout = None
    columns: Iterable[str] | None = None
    images: ImagesLike = Images.FULL
    buckets: Iterable[BucketName] | None = None
    lease_id: str | None = None
    filter: str | pc.Expression | None = None


def open_changes(link: Link, info: TableInfo, start: StartLike, request: StreamRequest) -> ChangeStream:
    """Open a stream of changes; a position inside a snapshot goes on with that snapshot.

    Raises:
        InvalidError: something is not understood, or of another table.
        OffsetOutOfRangeError: the start is no longer kept, or not yet written.
        TableNotFoundError: the table was dropped.
    """
    stored = decode_position(link, info, start).snapshot if is_position(start) else None
    if stored is None:
        return _open(link, info, start, request)
    if request.buckets is not None:
        _check_unread(info, stored.token, resolve_buckets(info, request.buckets))
    scan = Scan.resume(link, stored.token)
    # What began with a snapshot goes on with the columns of then.
    info = scan.info
    columns = _columns(info, request.columns) or tuple(info.schema.names)
    if not set(columns) <= set(scan.schema.names):
        scan.close()
        raise InvalidError("the position was made with fewer columns; ask for the same", columns=scan.schema.names)
    if (compile_filter(request.filter, info.schema) or None) != (ScanToken.decode(stored.token).filter or None):
        scan.close()
        raise InvalidError("the position is inside a snapshot that was read with another filter; ask for the same")
    return _open(link, info, start, request, SnapshotPhase(scan, stored.cut_us))


def _check_unread(info: TableInfo, token: bytes, chosen: Collection[TableBucket]) -> None:
    """Refuse to go on with a snapshot of more buckets than were chosen: all that is left of it would come."""
    for position in ScanToken.decode(token).buckets:
        bucket = position.table_bucket(info.path)
        if position.next_offset is not None and bucket not in chosen:
            raise InvalidError(
                "the position is inside a snapshot of more buckets; ask for the same, or leave buckets= out",
                table=info.path,
                bucket=bucket,
            )


def open_snapshot_and_follow(link: Link, info: TableInfo, request: StreamRequest) -> ChangeStream:
    """Open a stream of the present rows and every change after them; of a log table, everything.

    Raises:
        InvalidError: something is not understood.
        TableNotFoundError: the table was dropped.
    """
    if not info.keyed:
        return _open(link, info, EARLIEST, request)
    buckets = None if request.buckets is None else resolve_buckets(info, request.buckets)
    columns, chosen = _columns(info, request.columns), compile_filter(request.filter, info.schema)
    # Before the cut: a partition that is not in it was born since, also if it is dropped again at once.
    births = _log_state(link, info, None).births if info.partitioned else None
    scan = Scan.begin(link, info, ScanRequest(ScanSource.LIVE_KV, columns=columns, filter=chosen, buckets=buckets))
    return _open(link, info, scan.log_offsets, request, SnapshotPhase(scan, time.time_ns() // 1000, births))


def _open(
    link: Link, info: TableInfo, start: StartLike, request: StreamRequest, snapshot: SnapshotPhase | None = None
) -> ChangeStream:
    only: frozenset[TableBucket] | None = None
    if request.buckets is not None:
        only = frozenset(resolve_buckets(info, request.buckets))
    # Only partitions bring new buckets; an end that was given is a cut, and names all that count.
    follows_births = request.follow and request.end is None and info.partitioned
    patience = Patience(request.follow, _timeout_ms(request.timeout), follows_births, only)
    for attempt in range(TRIES):
        state = _log_state(link, info, request.lease_id)
        if request.lease_id is not None:
            check_leased(link, info, request.lease_id, state.offsets, request=request, only=only)
        known = {bucket: at for bucket, at in state.offsets.items() if only is None or bucket in only}
        _check_there(state, only or (), named_offsets(link, info, start), waits=follows_births)
        births = state.births if info.partitioned and request.lease_id is None else None
        if snapshot is not None and snapshot.births is not None:
            # Its cut is pinned: what it names can be read, also if it is dropped by now.
            births, cut = snapshot.births, snapshot.scan.log_offsets
            starts = {bucket: bucket.first_offset(at.base) for bucket, at in known.items()} | cut
            known = {bucket: known.get(bucket) or _dropped(state, bucket, at) for bucket, at in starts.items()}
        else:
            starts = resolve_starts(
                link, info, start, replace(state, offsets=known), only=only, lease_id=request.lease_id
            )
        ends = resolve_ends(
            link,
            info,
            request.end,
            replace(state, offsets=known),
            named_offsets(link, info, start),
            only=only,
            follow=request.follow,
        )
        pull = ChangePull(
            link,
            info,
            {bucket: (starts[bucket], ends[bucket]) for bucket in known},
            columns=_columns(info, request.columns),
            filter=compile_filter(request.filter, info.schema),
            images=_images(request.images),
            lease_id=request.lease_id,
        )
        try:
            return ChangeStream(link, info, pull, patience, snapshot, births=births)
        except PartitionNotFoundError:
            # Dropped between looking and pinning: whether anything is lost by that is looked at again.
            if attempt == TRIES - 1:
                raise
    raise AssertionError("the last attempt returns or raises")


def _check_there(
    state: LogState, wanted: Collection[TableBucket], named: Mapping[TableBucket, int], *, waits: bool
) -> None:
    """Refuse buckets that were chosen and are not there: a stream of none would end as if it had read them."""
    for bucket in wanted:
        if bucket not in state.offsets and bucket not in named and not waits:
            raise PartitionNotFoundError("no such partition", partition=bucket.partition, bucket=bucket)


def _dropped(state: LogState, bucket: TableBucket, at: int) -> Offsets:
    """Return where a bucket ends that was dropped after its cut was pinned."""
    gone = state.gone_with(bucket, at)
    return Offsets(at, at if gone is None else gone.ends[bucket.bucket])


def _log_state(link: Link, info: TableInfo, lease_id: str | None) -> LogState:
    """Return the logs of a table, or what a lease holds of them.

    Raises:
        NotLeaderError: no node leads one of the buckets, and that did not change soon.
        PenstockError: as the node answered.
    """
    if lease_id is not None:
        return LogState(link.retry.run(lambda: link.node.changes.offsets(info.table_id, lease_id=lease_id)), births=0)

    def led() -> LogState:
        state = link.node.changes.log_state(info.table_id)
        if state.away:
            raise NotLeaderError("the bucket has no leader now; try again", bucket=state.away[0])
        return state

    return link.retry.run(led)


def check_leased(
    link: Link,
    info: TableInfo,
    lease_id: str,
    known: Mapping[TableBucket, Offsets],
    *,
    request: StreamRequest,
    only: Collection[TableBucket] | None,
) -> None:
    """Refuse to read less under a lease than was asked for.

    Raises:
        UnsupportedError: changes to come are asked for: the lease ends at its offsets.
        InvalidError: the lease holds not all, or not that, of the table.
        OffsetOutOfRangeError: the end is beyond what the lease holds.
    """
    if request.follow:
        raise UnsupportedError(
            "a lease ends at its offsets; read them without follow, and follow the table itself", lease_id=lease_id
        )
    named = {} if request.end is None else resolve_cut(link, info, request.end, "end")
    for bucket in (*(only or ()), *named):
        if bucket not in known:
            raise InvalidError("the lease does not hold that bucket", lease_id=lease_id, bucket=bucket)
    for bucket, at in named.items():
        if at > known[bucket].end:
            raise OffsetOutOfRangeError(
                "the end is beyond what the lease holds",
                lease_id=lease_id,
                bucket=bucket,
                offset=at,
                leased=known[bucket].end,
            )
    if not known:
        raise InvalidError("the lease holds nothing of this table", lease_id=lease_id, table=info.path)
    if only is None:
        require_whole(known, info, lease_id)


def _columns(info: TableInfo, columns: Iterable[str] | None) -> tuple[str, ...] | None:
    # What a change adds is always there; naming it does no harm.
    if columns is None:
        return None
    return project([name for name in name_list(columns) if name not in RESERVED_NAMES], info.schema)


def _images(images: Images | str) -> Images:
    if images not in list(Images):
        raise InvalidError(f"images are one of {', '.join(Images)}", images=images)
    return Images(images)


def _timeout_ms(timeout: Timeout) -> int | None:
    if timeout is None:
        return None
    if isinstance(timeout, str | timedelta):
        return parse_duration_ms(timeout)
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not 0 <= timeout < 1e9:
        raise InvalidError("a timeout is a duration such as 5s, or a number of seconds", timeout=repr(timeout))
    return round(timeout * 1000)
