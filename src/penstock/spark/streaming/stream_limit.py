"""How much a micro-batch reads: limits count changes, shared out evenly over the buckets that have some."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxBytes, ReadMaxRows

from penstock.client.link.link import Link
from penstock.model.place.bucket import TableBucket
from penstock.spark.session.options import Options


class StreamLimit:
    """The limits that a user set."""

    def __init__(self, options: Options) -> None:
        self._rows = options.count("max_rows_per_trigger")
        self._bytes = options.size("max_bytes_per_trigger")

    def for_spark(self) -> ReadLimit:
        """Return the limit that Spark hands back to `latestOffset`."""
        if self._rows is not None:
            return ReadMaxRows(self._rows)
        return ReadAllAvailable() if self._bytes is None else ReadMaxBytes(self._bytes)

    def rows(self, asked: ReadLimit, link: Link, table_id: int) -> int | None:
        """Return how many changes a micro-batch may have; None: all. Bytes count as changes of the usual size."""
        if isinstance(asked, ReadAllAvailable):
            return None
        limits = [limit for limit in (self._rows, self._rows_of_bytes(link, table_id)) if limit is not None]
        return min(limits, default=None)

    def _rows_of_bytes(self, link: Link, table_id: int) -> int | None:
        if self._bytes is None:
            return None
        stats = link.retry.run(lambda: link.node.tables.stats(table_id))
        return max(1, self._bytes * max(stats.rows, 1) // max(stats.bytes, 1))


def share_out(available: Mapping[TableBucket, int], limit: int | None) -> dict[TableBucket, int]:
    """Return how much of what each bucket has is taken: at most `limit` in all, and as evenly as it goes."""
    if limit is None or sum(available.values()) <= limit:
        return dict(available)
    shares = {}
    left = limit
    # The smallest first: what a bucket does not need goes to those after it.
    ordered = sorted(available, key=lambda bucket: (available[bucket], bucket.partition or "", bucket.bucket))
    for place, bucket in enumerate(ordered):
        # Rounded up, so that a limit below the number of buckets still moves on.
        even = -(-left // (len(ordered) - place))
        shares[bucket] = min(available[bucket], even)
        left -= shares[bucket]
    return shares
