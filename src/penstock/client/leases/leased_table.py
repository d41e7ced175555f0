"""A table as a lease holds it: at the leased offsets, whatever became of the table since."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, NoReturn

import pyarrow.compute as pc

from penstock.client.catalog.known_table import KnownTable
from penstock.client.changes.range import EARLIEST, StartLike
from penstock.client.changes.stream import ChangeStream
from penstock.client.changes.streams import StreamRequest, Timeout, open_changes
from penstock.client.cut.as_of import AsOfLike
from penstock.client.cut.cut import Cut, CutLike
from penstock.client.link.buckets import BucketName
from penstock.client.link.link import Link
from penstock.client.scan.builder import ScanBuilder
from penstock.client.scan.request import ScanRequest
from penstock.client.table import Table
from penstock.errors import InvalidError, UnsupportedError
from penstock.model.node.calls import Images, ImagesLike, Offsets
from penstock.model.place.bucket import TableBucket
from penstock.model.table.table import TableInfo


class LeasedTable(Table):
    """A handle that reads what a lease holds of a table. Thread-safe, cheap to share.

    It has the columns that the table had when the lease was acquired, and names it by id. What is not read under the
    lease is asked of the table itself, which may be dropped.
    """

    def __init__(self, link: Link, info: TableInfo, lease_id: str) -> None:
        super().__init__(link, info)
        self._known = KnownTable(link, info, fixed=True)
        self._lease_id = lease_id

    def new_scan(self) -> ScanBuilder:
        """Begin to say what to scan of what the lease holds."""
        request = replace(ScanRequest.default(self._info), lease_id=self._lease_id)
        return ScanBuilder(self._link, self._known, request)

    def cut(self, as_of: AsOfLike | None = None) -> Cut:
        """Return the leased cut.

        Raises:
            InvalidError: another one is asked for.
            LeaseNotFoundError: the lease has expired, or is unknown.
        """
        if as_of is not None:
            raise InvalidError("a lease holds one cut; leave as_of out", lease_id=self._lease_id)
        held = {bucket: at.end for bucket, at in self.offsets().items()}
        return Cut(held, database=self._link.database, table_id=self._info.table_id)

    def changes(
        self,
        start: StartLike = EARLIEST,
        end: CutLike | None = None,
        follow: bool = False,
        timeout: Timeout = None,
        columns: Iterable[str] | None = None,
        *,
        images: ImagesLike = Images.FULL,
        buckets: Iterable[BucketName] | None = None,
        filter: str | pc.Expression | None = None,
    ) -> ChangeStream:
        """Stream changes from `start` to `end` or the leased offsets.

        Raises:
            InvalidError: the request is wrong, or the lease does not hold a bucket that it names.
            OffsetOutOfRangeError: the start is no longer kept, or start or end are beyond what is leased.
            UnsupportedError: `follow` is asked for: a lease ends at its offsets.
            LeaseNotFoundError: the lease has expired, or is unknown.
        """
        request = StreamRequest(
            end=end,
            follow=follow,
            timeout=timeout,
            columns=columns,
            images=images,
            buckets=buckets,
            lease_id=self._lease_id,
            filter=filter,
        )
        return open_changes(self._link, self._info, start, request)

    def snapshot_and_follow(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Refuse: a lease ends at its offsets.

        Raises:
            UnsupportedError: always.
        """
        raise UnsupportedError(
            "a lease ends at its offsets; scan them, and follow the table itself from there", lease_id=self._lease_id
        )

    def offsets(self) -> dict[TableBucket, Offsets]:
        """Return for each bucket the oldest change that is kept, and the leased offset.

        Raises:
            LeaseNotFoundError: the lease has expired, or is unknown.
        """
        return self._link.retry.run(
            lambda: self._link.node.changes.offsets(self._info.table_id, lease_id=self._lease_id)
        )

    def lookup(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Refuse: a lease keeps no index.

        Raises:
            UnsupportedError: always.
        """
        self._refuse_lookup()

    def get(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Refuse: a lease keeps no index.

        Raises:
            UnsupportedError: always.
        """
        self._refuse_lookup()

    def prefix_lookup(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Refuse: a lease keeps no index.

        Raises:
            UnsupportedError: always.
        """
        self._refuse_lookup()

    def _refuse_lookup(self) -> NoReturn:
        raise UnsupportedError(
            "the key index knows the present only, not what is leased; scan it with a filter", lease_id=self._lease_id
        )

    def __repr__(self) -> str:
        return f"{super().__repr__()[:-1]}, as lease {self._lease_id} holds it>"
