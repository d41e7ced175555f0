"""Bring the key index up to the log when a bucket is opened."""

from __future__ import annotations

import logging

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.index.key_index import KeyIndex
from penstock.model.place.change import NO_OFFSET, OP, PREV, SYSTEM_FIELDS, Op
from penstock.tablet.merge.key_groups import group_keys
from penstock.tablet.tablet import Tablet
from penstock.tablet.view.span import RowBlock

_log = logging.getLogger("penstock")
Offsets = npt.NDArray[np.int64]


def replay_index(tablet: Tablet, index: KeyIndex, applied: int, *, may_be_ahead: bool) -> None:
    """Apply the changes that the index lacks, those from `applied` on; rebuild it where it cannot be caught up.

    An index that may be ahead of the log may hold any key of the changes that were lost, also where its
    applied offset is not beyond the end.
    """
    view = tablet.view
    if may_be_ahead or applied > view.visible:
        _rebuild(tablet, "it may be ahead of the log, which was not synced")
        # The offsets of what was lost are given away again next: what a crash leaves must not refer to them.
        index.flush()
    elif applied < view.base and index.applied(tablet.bucket) == 0:
        # Of a restored directory nothing is wrong: the index is no part of a backup.
        _log.debug("making the key index, which is not there bucket=%s", tablet.bucket)
        tablet.rebuild_index()
    elif applied < view.base:
        _rebuild(tablet, "it is behind the base")
    elif applied < view.visible and not _catch_up(tablet, index, applied):
        _rebuild(tablet, "it does not fit the log")


def _rebuild(tablet: Tablet, reason: str) -> None:
    _log.warning("rebuilding the key index bucket=%s reason=%s", tablet.bucket, reason)
    tablet.rebuild_index()


def _catch_up(tablet: Tablet, index: KeyIndex, applied: int) -> bool:
    view, schema = tablet.view, tablet.schema
    projection = pa.schema([*schema.key_fields, *SYSTEM_FIELDS])
    for block in view.changes(applied, view.visible, projection):
        if not _apply(tablet, index, block, applied):
            return False
    index.apply(tablet.bucket, pa.array([], pa.binary()), np.empty(0, np.int64), applied=view.visible)
    return True


def _apply(tablet: Tablet, index: KeyIndex, block: RowBlock, applied: int) -> bool:
    """Apply a block of changes; False if the index holds what no prefix of the log explains."""
    groups, distinct = group_keys(tablet.schema.encode_keys(block.batch))
    first = groups.first_rows
    last = groups.order[np.append(np.flatnonzero(groups.starts)[1:], len(groups.order)) - 1]
    there = index.get_many(tablet.bucket, distinct)
    prev = block.batch.column(PREV).to_numpy()[first]
    # Half of a call may have survived a crash: then the key points into the replayed range, or is gone.
    explained = (there == prev) | (there >= applied) | (there == NO_OFFSET)
    if not explained.all():
        return False
    deleted = block.batch.column(OP).to_numpy()[last] == Op.DELETE
    index.apply(tablet.bucket, distinct, np.where(deleted, NO_OFFSET, block.offsets[last]), applied=applied)
    return True
