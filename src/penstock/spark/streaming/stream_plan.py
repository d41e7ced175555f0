"""How far a stream may read next: first through the rows at its cut, then through the log."""

from __future__ import annotations

import logging
import time
from dataclasses import replace

from penstock.client.changes.range import EARLIEST, resolve_starts
from penstock.client.cut.cut_pin import CutPin
from penstock.client.link.retry import worth_retrying
from penstock.errors import (
    OffsetOutOfRangeError,
    PartitionNotFoundError,
    PenstockError,
    UnknownOrExpiredScannerError,
)
from penstock.model.node.calls import Offsets, OpenScan
from penstock.model.node.log_state import LogState, dropped_unread
from penstock.model.place.bucket import TableBucket
from penstock.spark.reading.change_reader import parse_start
from penstock.spark.reading.read_request import ReadRequest
from penstock.spark.session.links import link_for
from penstock.spark.streaming.stream_hold import StreamHold
from penstock.spark.streaming.stream_lease import StreamLease
from penstock.spark.streaming.stream_limit import share_out
from penstock.spark.streaming.stream_offset import Phase, Positions, StreamOffset

_log = logging.getLogger("penstock.spark")
SNAPSHOT = "snapshot"
TRIES = 5


class StreamPlan:
    """Plans micro-batches of one stream, on the driver. Holds the way to the server, nothing else."""

    def __init__(self, request: ReadRequest, *, fails_on_loss: bool) -> None:
        self._request = request
        self._info = request.info
        self._link = link_for(request.options)
        self._fails_on_loss = fails_on_loss
        self._lease = StreamLease(self._link, self._info.table_id, request.options.duration_ms("retain"))
        self._hold = StreamHold(self._link, self._info)

    def ends(self) -> dict[TableBucket, int]:
        """Return the end of every bucket."""
        return {bucket: known.end for bucket, known in self._state().offsets.items()}

    def close(self) -> None:
        """Hold nothing any more; idempotent."""
        self._hold.release()

    def reach(self, stands: StreamOffset, rows: int | None, target: Positions | None) -> StreamOffset:
        """Return where the next micro-batch ends; the same offset if there is nothing to read.

        It has at most `rows` changes, and goes not beyond `target`.

        Raises:
            OffsetOutOfRangeError: changes that the stream needs are gone, and it is told to fail then.
            PartitionNotFoundError: they went with their partition.
        """
        if stands.phase is Phase.INITIAL:
            return self._first(rows, target)
        if stands.phase is Phase.SNAPSHOT and not stands.snapshot_done:
            return self._through_snapshot(stands, rows)
        # A snapshot that was read says of the partitions what it said when it began.
        reached, births = self._through_log(stands.next, stands.births, rows, target)
        if reached == stands.next:
            return stands
        lease = stands.lease if self._lease.keeps_log else None
        if lease is None and self._lease.keeps_log:
            lease = self._lease.take({bucket: at for bucket, at in stands.next.items() if bucket in reached})
        return StreamOffset(Phase.LOG, reached, lease=lease, births=births)

    def let_go(self, stands: StreamOffset) -> None:
        """Let the lease stand where the query stands, or end."""
        if stands.lease is None:
            return
        if stands.cut is not None and not stands.snapshot_done:
            self._lease.move(stands.lease, stands.cut)
        elif self._lease.keeps_log:
            self._lease.move(stands.lease, stands.next)
        else:
            self._lease.drop(stands.lease)

    def _first(self, rows: int | None, target: Positions | None) -> StreamOffset:
        """Return the end of the first micro-batch, which fixes where the stream began."""
        word = self._request.options.get("starting") or SNAPSHOT
        if word.strip().lower() == SNAPSHOT and self._info.keyed:
            # Under AvailableNow the cut is the one that was fixed when the run began.
            buckets = None if target is None else tuple(target)
            # Before the cut: a partition that is not in it was born since, also if it is dropped again at once.
            births = self._state().births if self._info.partitioned else None
            pin = CutPin.take(self._link, self._info.table_id, as_of=target, buckets=buckets)
            cut = dict(pin.offsets)
            lease = self._lease.take(cut)
            self._hold.stand(cut, births)
            pin.release()
            firsts = {bucket: bucket.first_offset(x) for bucket, x in cut.items()}
            begun = StreamOffset(Phase.SNAPSHOT, firsts, cut, time.time_ns() // 1000, lease=lease, births=births)
            return self._through_snapshot(begun, rows)
        start = EARLIEST if word.strip().lower() == SNAPSHOT else parse_start(word)
        state = self._state()
        began = resolve_starts(self._link, self._info, start, state)
        lease_id = self._lease.take(began) if self._lease.keeps_log else None
        reached, births = self._through_log(began, state.births if self._info.partitioned else None, rows, target)
        return StreamOffset(Phase.LOG, reached, began=began, lease=lease_id, births=births)

    def _through_snapshot(self, stands: StreamOffset, rows: int | None) -> StreamOffset:
        assert stands.cut is not None, "a snapshot has a cut"
        cut = stands.cut
        if rows is None:
            return replace(stands, next=dict(cut))
        unread = {bucket: x - stands.next[bucket] for bucket, x in cut.items() if stands.next[bucket] < x}
        # A share counts rows; a bucket has at most as many as it has offsets left.
        reached = {
            bucket: self._after_rows(bucket, x=cut[bucket], start=stands.next[bucket], rows=share)
            for bucket, share in share_out(unread, rows).items()
            if share
        }
        return replace(stands, next={**stands.next, **reached})

    def _after_rows(self, bucket: TableBucket, *, x: int, start: int, rows: int) -> int:
        """Return the offset after so many rows of a bucket at X: the key column alone is read for it."""
        call = OpenScan(
            table_id=self._info.table_id,
            schema_id=self._info.schema_id,
            bucket=bucket,
            columns=self._info.primary_key[:1],
            limit=rows,
            as_of=x,
            start=start,
        )
        return self._link.retry.run(lambda: self._scanned_to(call, rows, x), when=_worth_scanning_again)

    def _scanned_to(self, call: OpenScan, rows: int, x: int) -> int:
        page = self._link.node.scan.open(call)
        count, number = page.rows, 0
        while page.has_more and page.scanner_id is not None:
            number += 1
            page = self._link.node.scan.next_page(page.scanner_id, number)
            count += page.rows
        return x if count < rows else page.next_offset

    def _through_log(
        self, stands: Positions, births: int | None, rows: int | None, target: Positions | None
    ) -> tuple[dict[TableBucket, int], int | None]:
        """Return where the next micro-batch ends, and the id of the next partition then."""
        state, ranges = self._held_ranges(stands, births)
        if target is not None:
            ranges = {bucket: (at, min(end, target.get(bucket, 0))) for bucket, (at, end) in ranges.items()}
        shares = share_out({bucket: end - at for bucket, (at, end) in ranges.items() if at < end}, rows)
        reached = {bucket: at + shares.get(bucket, 0) for bucket, (at, _) in ranges.items()}
        # Where no node leads the bucket just now, the query stays until one does.
        kept = {bucket: at for bucket, at in stands.items() if bucket in state.away}
        # An empty new bucket is no reason for a micro-batch; with the others it is named, for `births` counts it.
        named = {bucket: at for bucket, at in reached.items() if at > bucket.first_offset(at) or bucket in stands}
        if kept | named == stands:
            return dict(stands), births
        return kept | reached, state.births if self._info.partitioned else None

    def _held_ranges(
        self, stands: Positions, births: int | None
    ) -> tuple[LogState, dict[TableBucket, tuple[int, int]]]:
        """Return what can be read of each bucket, which is held from now on."""
        for attempt in range(TRIES):
            state = self._state()
            ranges = self._ranges(state, stands, births)
            unread = {bucket: at for bucket, (at, _) in ranges.items()}
            try:
                self._hold.stand(unread, births if births is None else self._awaited(state, unread, births))
                return state, ranges
            except (PartitionNotFoundError, OffsetOutOfRangeError):
                # It went between looking and holding: whether anything is lost by that is looked at again.
                if attempt == TRIES - 1:
                    raise
        raise AssertionError("the last attempt returns or raises")

    def _awaited(self, state: LogState, stands: Positions, births: int) -> int:
        # A query that just began holds nothing yet, and may find lives that wait: all of them count.
        return state.awaited(self._info.path, stands, births, self._hold.births)

    def _ranges(self, state: LogState, stands: Positions, births: int | None) -> dict[TableBucket, tuple[int, int]]:
        """Return from where to where each bucket can be read: of a name's lives the first that was not read."""
        named = dict(stands)
        for bucket, at in stands.items():
            if not state.has(bucket, at) and state.gone_with(bucket, at) is None:
                self._lose(dropped_unread(bucket, at, None))
                del named[bucket]
        ranges: dict[TableBucket, tuple[int, int]] = {}
        for bucket, at, gone in state.unread(self._info.path, named, births):
            if bucket in ranges:
                continue
            base = gone.bases[bucket.bucket] if gone.bases is not None else None
            if base is None or at < base:
                self._lose(dropped_unread(bucket, at, gone))
            if base is not None:
                ranges[bucket] = (max(at, base), gone.ends[bucket.bucket])
        for bucket, known in state.offsets.items():
            if bucket not in ranges:
                first = bucket.first_offset(known.base)
                ranges[bucket] = (self._readable(bucket, max(named.get(bucket, 0), first), known), known.end)
        return ranges

    def _lose(self, loss: PartitionNotFoundError) -> None:
        """Fail for what went with its partition, or say so and go on, as the query was told.

        Raises:
            PartitionNotFoundError: the query fails on losses.
        """
        if self._fails_on_loss:
            raise PartitionNotFoundError(
                f"{loss.message}; failOnDataLoss=false goes on without them, retain keeps them for a stopped query",
                **loss.facts,
            )
        _log.warning("changes were lost, going on: %s", loss)

    def _readable(self, bucket: TableBucket, at: int, known: Offsets) -> int:
        if at > known.end:
            raise OffsetOutOfRangeError(
                "the checkpoint is ahead of the table, which was restored to an older state; use a new checkpoint",
                bucket=bucket,
                offset=at,
                end=known.end,
            )
        if at >= known.base:
            return at
        if self._fails_on_loss:
            raise OffsetOutOfRangeError(
                "changes that the query has not read are gone; use a new checkpoint, or set failOnDataLoss=false to"
                " go on with the oldest there are, and retain to keep them for a stopped query",
                bucket=bucket,
                offset=at,
                base=known.base,
            )
        _log.warning("changes were lost, going on bucket=%s offset=%d base=%d", bucket, at, known.base)
        return known.base

    def _state(self) -> LogState:
        return self._link.retry.run(lambda: self._link.node.changes.log_state(self._info.table_id))


def _worth_scanning_again(error: PenstockError) -> bool:
    return isinstance(error, UnknownOrExpiredScannerError) or worth_retrying(error)
