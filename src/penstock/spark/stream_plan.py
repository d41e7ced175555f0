"""How far a stream may read next: first through the rows at its cut, then through the log."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import replace

from penstock.client.change_range import EARLIEST, resolve_starts
from penstock.client.cut_pin import CutPin
from penstock.client.retry import worth_retrying
from penstock.errors import OffsetOutOfRangeError, PenstockError, UnknownOrExpiredScannerError
from penstock.model.bucket import TableBucket
from penstock.model.calls import Offsets, OpenScan
from penstock.spark.change_reader import parse_start
from penstock.spark.links import link_for
from penstock.spark.read_request import ReadRequest
from penstock.spark.stream_lease import StreamLease
from penstock.spark.stream_limit import share_out
from penstock.spark.stream_offset import Phase, Positions, StreamOffset

_log = logging.getLogger("penstock.spark")
SNAPSHOT = "snapshot"


class StreamPlan:
    """Plans micro-batches of one stream, on the driver. Holds the way to the server, nothing else."""

    def __init__(self, request: ReadRequest, *, fails_on_loss: bool) -> None:
        self._request = request
        self._info = request.info
        self._link = link_for(request.options)
        self._fails_on_loss = fails_on_loss
        self._lease = StreamLease(self._link, self._info.table_id, request.options.duration_ms("retain"))

    def ends(self) -> dict[TableBucket, int]:
        """Return the end of every bucket."""
        return {bucket: known.end for bucket, known in self._known().items()}

    def reach(self, stands: StreamOffset, rows: int | None, target: Positions | None) -> StreamOffset:
        """Return where the next micro-batch ends; the same offset if there is nothing to read.

        It has at most `rows` changes, and goes not beyond `target`.

        Raises:
            OffsetOutOfRangeError: changes that the stream needs are gone, and it is told to fail then.
        """
        if stands.phase is Phase.INITIAL:
            return self._first(rows, target)
        if stands.phase is Phase.SNAPSHOT and not stands.snapshot_done:
            return self._through_snapshot(stands, rows)
        reached = self._through_log(stands.next, rows, target)
        if reached == stands.next:
            return stands
        lease = stands.lease if self._lease.keeps_log else None
        if lease is None and self._lease.keeps_log:
            lease = self._lease.take(stands.next)
        return StreamOffset(Phase.LOG, reached, lease=lease)

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
            pin = CutPin.take(self._link, self._info.table_id, as_of=target, buckets=buckets)
            cut = dict(pin.offsets)
            lease = self._lease.take(cut)
            pin.release()
            firsts = {bucket: bucket.first_offset(x) for bucket, x in cut.items()}
            begun = StreamOffset(Phase.SNAPSHOT, firsts, cut, time.time_ns() // 1000, lease=lease)
            return self._through_snapshot(begun, rows)
        start = EARLIEST if word.strip().lower() == SNAPSHOT else parse_start(word)
        began = resolve_starts(self._link, self._info, start, self._known())
        lease_id = self._lease.take(began) if self._lease.keeps_log else None
        return StreamOffset(Phase.LOG, self._through_log(began, rows, target), began=began, lease=lease_id)

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
        page = self._link.node.open_scanner(call)
        count, number = page.rows, 0
        while page.has_more and page.scanner_id is not None:
            number += 1
            page = self._link.node.next_page(page.scanner_id, number)
            count += page.rows
        return x if count < rows else page.next_offset

    def _through_log(self, stands: Positions, rows: int | None, target: Positions | None) -> dict[TableBucket, int]:
        known = self._known()
        kept = self._not_led(stands, known)
        starts = {bucket: self._start(bucket, stands.get(bucket), offsets) for bucket, offsets in known.items()}
        ends = {bucket: offsets.end for bucket, offsets in known.items()}
        if target is not None:
            ends = {bucket: min(end, target.get(bucket, 0)) for bucket, end in ends.items()}
        available = {bucket: ends[bucket] - at for bucket, at in starts.items() if at < ends[bucket]}
        shares = share_out(available, rows)
        reached = {bucket: at + shares.get(bucket, 0) for bucket, at in starts.items()}
        # A bucket is named once it has a change: an empty new one is no reason for a micro-batch.
        named = {bucket: at for bucket, at in reached.items() if at > bucket.first_offset(at) or bucket in stands}
        return kept | named

    def _not_led(self, stands: Positions, known: Mapping[TableBucket, Offsets]) -> dict[TableBucket, int]:
        """Return where the stream stands in buckets that nobody leads just now; it stays there until somebody does."""
        silent = [bucket for bucket in stands if bucket not in known]
        if not silent:
            return {}
        there = set(self._link.retry.run(lambda: self._link.node.buckets(self._info.table_id)))
        gone = [bucket for bucket in silent if bucket not in there]
        if gone:
            _log.warning("partitions were dropped, and what was unread with them buckets=%s", gone)
        return {bucket: stands[bucket] for bucket in silent if bucket in there}

    def _start(self, bucket: TableBucket, stands: int | None, known: Offsets) -> int:
        """Return where to go on in a bucket: where the stream stands, or with its first change if it was born since."""
        first = bucket.first_offset(known.base)
        if stands is not None and stands < first:
            _log.warning("a partition was dropped, and what was unread with it, and created again bucket=%s", bucket)
        return self._readable(bucket, max(stands or 0, first), known)

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

    def _known(self) -> Mapping[TableBucket, Offsets]:
        return self._link.retry.run(lambda: self._link.node.offsets(self._info.table_id))


def _worth_scanning_again(error: PenstockError) -> bool:
    return isinstance(error, UnknownOrExpiredScannerError) or worth_retrying(error)
