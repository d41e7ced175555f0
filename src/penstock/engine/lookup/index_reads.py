"""Reading the key index together with the view that it belongs to.

Index and view change together while `published` is held. A short read holds it too. A long one would
hold writers back, so it reads first and then looks whether its buckets changed meanwhile; a reader
that is overtaken again and again holds it in the end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import numpy as np
import numpy.typing as npt

from penstock.engine.commit.committer import Committer, TableView
from penstock.engine.table.pins import not_led
from penstock.model.place.bucket import BucketId
from penstock.tablet.tablet import Tablet

Offsets = npt.NDArray[np.int64]
IndexReads = Mapping[BucketId, Callable[[Tablet], Offsets]]
"""What to read of each bucket's index."""

_TRIES: Final = 3


def read_index(committer: Committer, reads: IndexReads, *, short: bool) -> tuple[TableView, dict[BucketId, Offsets]]:
    """Return a view, and what the index said when the view was the present one.

    Raises:
        NotLeaderError: a bucket is not open here.
    """
    for _ in range(0 if short else _TRIES):
        with committer.published:
            view = committer.view
        found = _read(committer, view, reads)
        # The committer holds this while it publishes: once we have it, what we read is either all old or overtaken.
        with committer.published:
            if all(committer.view.get(bucket) is view[bucket] for bucket in reads):
                return view, found
    with committer.published:
        return committer.view, _read(committer, committer.view, reads)


def _read(committer: Committer, view: TableView, reads: IndexReads) -> dict[BucketId, Offsets]:
    found = {}
    for bucket, read in reads.items():
        tablet = committer.tablets.get(bucket)
        if tablet is None or bucket not in view:
            raise not_led(bucket)
        found[bucket] = read(tablet)
    return found
