"""One page of changes: as many as there is room for, with the facts that a changelog adds to each row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
import pyarrow as pa

from penstock.engine.changes.images import ChangeImages, Shown
from penstock.engine.rows.page_size import BatchSize, fitting
from penstock.engine.rows.read_errors import reading
from penstock.model.node.calls import ChangePage
from penstock.model.place.bucket import TableBucket
from penstock.model.place.system_columns import PARTITION_COLUMN, SYSTEM_COLUMNS
from penstock.tablet.view.span import RowBlock
from penstock.tablet.view.view import TabletView

_SEARCHED_MAX: Final = 65_536
"""Changes that are looked through at once, while none of them passes a filter."""
_CHUNK_FIRST: Final = 2_048
"""Rows before may be far larger than the changes that replaced them, so the first chunk is a small one."""

_TYPE, _OFFSET, _TIMESTAMP, _BUCKET = SYSTEM_COLUMNS


def read_page(
    view: TabletView,
    name: TableBucket,
    images: ChangeImages,
    *,
    start: int,
    end: int,
    room: int,
    is_late: Callable[[], bool] = lambda: False,
) -> ChangePage:
    """Return changes of [start, end), from the first on, at least one, and as many as fit into `room` bytes.

    With a filter there may be none: the page says how far it looked, which is not to the end once it `is_late`.

    Raises:
        UnavailableError: the disk refused.
        CorruptionError: stored bytes are damaged.
    """
    added = 12 if name.partition is None else 16 + len(name.partition.encode())
    with reading(name):
        pieces, next_offset = _pieces(view, images, start=start, end=end, room=room, added=added, is_late=is_late)
        batch = pa.concat_batches(pieces) if pieces else pa.RecordBatch.from_pylist([], schema=_schema(images))
        stamps = view.directory(start, next_offset).timestamps_of(batch.column(_OFFSET.name).to_numpy())
    columns = [*batch.columns, pa.array(stamps * 1000, _TIMESTAMP.type)]
    columns.append(pa.repeat(pa.scalar(name.bucket, _BUCKET.type), batch.num_rows))
    fields = [*batch.schema, _TIMESTAMP, _BUCKET]
    if name.partition is not None:
        columns.append(pa.repeat(pa.scalar(name.partition, PARTITION_COLUMN.type), batch.num_rows))
        fields.append(PARTITION_COLUMN)
    return ChangePage(
        name, pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields)), start, next_offset, view.visible
    )


def _pieces(
    view: TabletView,
    images: ChangeImages,
    *,
    start: int,
    end: int,
    room: int,
    added: int,
    is_late: Callable[[], bool],
) -> tuple[list[pa.RecordBatch], int]:
    """Return rows of the changelog, and the offset after them; every row will have `added` bytes more."""
    pieces: list[pa.RecordBatch] = []
    schema, searches = _schema(images), not images.filter.is_all
    next_offset, chunk = start, _CHUNK_FIRST
    for block in view.changes(start, end, images.stored):
        place = 0
        while place < len(block.offsets):
            if searches and next_offset > start and is_late():
                return pieces, next_offset
            found = RowBlock(block.offsets[place : place + chunk], block.batch.slice(place, chunk))
            part, after = images.passing(view, found), int(found.offsets[-1]) + 1
            if not len(part.offsets):
                place, next_offset, chunk = place + len(found.offsets), after, min(2 * chunk, _SEARCHED_MAX)
                continue
            shown = images.show(view, part)
            batch = pa.RecordBatch.from_arrays([*shown.columns, shown.types, pa.array(shown.offsets)], schema=schema)
            size_at = _sizes(batch, shown, added)
            count, size = fitting(size_at, len(part.offsets), room, least=int(not pieces))
            if count:
                pieces.append(batch.slice(0, int(shown.ends[count - 1])))
                next_offset = int(part.offsets[count - 1]) + 1
            if count < len(part.offsets):
                return pieces, next_offset
            place, next_offset, room = place + len(found.offsets), after, room - size
            # Grow, but not far beyond what still fits: images that do not are gathered in vain.
            chunk = max(1, min(2 * chunk, room * count // max(size, 1) + count // 8 + 1))
    return pieces, next_offset


def _schema(images: ChangeImages) -> pa.Schema:
    return pa.schema([*images.shown, _TYPE, _OFFSET])


def _sizes(batch: pa.RecordBatch, shown: Shown, added: int) -> Callable[[int], int]:
    ends, size_of = np.concatenate([[0], shown.ends]), BatchSize(batch)

    def size_at(changes: int) -> int:
        rows = int(ends[changes])
        return size_of(rows) + rows * added

    return size_at
