"""The plan of an undo: from the changes of an owner in a bucket to the requests that undo them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.log.batch_directory import BatchDirectory
from penstock.model.node.owner import BucketUndo
from penstock.model.place.change import NO_OFFSET, OP, PREV, SYSTEM_FIELDS, BatchKind, Op
from penstock.model.place.facts import NO_ID
from penstock.model.schema.stored_field import absent_values
from penstock.tablet.merge.rule import Request, defaulted
from penstock.tablet.tablet import Tablet
from penstock.tablet.undo.undo import KEEP, Changes, Target, Undone, find_undone
from penstock.tablet.view.view import TabletView

Int64s = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

ColumnsOf = Callable[[int], tuple[int, ...]]
"""Return the ids of the columns outside the key of a schema."""

KEYS_MAX = 65_536
"""Keys of one log batch of an undo."""


@dataclass(frozen=True, slots=True)
class UndoPlan:
    """The requests to write in one bucket, in order, and what they come to."""

    requests: tuple[tuple[BatchKind, Request], ...]
    counts: BucketUndo


@dataclass(frozen=True, slots=True)
class _Rows:
    """The changes of the keys concerned, as numbers; `keys` are the distinct keys that these stand for."""

    changes: Changes
    keys: pa.BinaryArray


def plan_undo(
    tablet: Tablet,
    start: int,
    *,
    owner: int,
    committed: int,
    reach: int | None = None,
    attempt: bytes = NO_ID,
    locked: bool,
    columns_of: ColumnsOf,
    required: Sequence[int] = (),
) -> UndoPlan:
    """Return how to undo an owner's changes from `start` on that are above its committed epoch.

    From `reach` on, if it is lower, the log has what other undos took back since, on which these may stand.
    `required` are the columns outside the key that are never null.
    """
    view, schema = tablet.view, tablet.schema
    # Other owners' undoes may have taken back changes below `start` on which these stand, so the log is read from
    # there.
    reach = start if reach is None else reach
    directory = view.directory(reach, view.visible)
    wanted = (directory.owner == owner) & (directory.epoch > committed) & (directory.rows > 0)
    columns = tuple(int(f.name) for f in schema.user_columns if int(f.name) not in schema.key_columns)
    found = _read(tablet, reach, directory, wanted, columns=columns, columns_of=columns_of) if wanted.any() else None
    if found is None:
        return UndoPlan((), BucketUndo(0, 0, 0))
    codes = _attempt_codes(directory)
    # -1 is the code of no change: an attempt that wrote nothing in reach has nothing to undo. 0 would mean every
    # attempt.
    target = Target(owner, committed, 0 if attempt == NO_ID else codes.get(attempt, -1), start)
    undone = find_undone(found.changes, target, locked=locked, required=np.isin(columns, required))
    handled = np.flatnonzero(~undone.superseded)
    # From here on an index into `undone` stands for a key. A key that goes and is absent already needs no delete:
    # that is why doing an undo again changes nothing.
    live = tablet.live_offsets(found.keys.take(pa.array(undone.key)))
    goes = handled[~undone.lives[handled] & (live[handled] != NO_OFFSET)]
    stays = handled[undone.lives[handled]]
    requests: list[tuple[BatchKind, Request]] = []
    for kind, chosen in (
        (BatchKind.UNDO, goes),
        (BatchKind.UNDO, stays[~undone.orphan[stays]]),
        (BatchKind.ORPHAN, stays[undone.orphan[stays]]),
    ):
        for part in _parts(chosen):
            request = _request(tablet, found, undone, part, live=live, columns=columns, deletes=chosen is goes)
            requests.append((kind, request))
    counts = BucketUndo(len(handled), len(goes), int(np.count_nonzero(undone.superseded)))
    return UndoPlan(tuple(requests), counts)


def _parts(chosen: Int64s) -> Iterator[Int64s]:
    for start in range(0, len(chosen), KEYS_MAX):
        yield chosen[start : start + KEYS_MAX]


def _read(
    tablet: Tablet,
    start: int,
    directory: BatchDirectory,
    wanted: Mask,
    *,
    columns: tuple[int, ...],
    columns_of: ColumnsOf,
) -> _Rows | None:
    """Read all changes from `start` on of the keys that the wanted batches changed."""
    view, schema = tablet.view, tablet.schema
    projection = pa.schema([*schema.key_fields, *SYSTEM_FIELDS])
    blocks = list(view.changes(start, view.visible, projection))
    encoded = [schema.encode_keys(block.batch) for block in blocks]
    batches = [directory.batch_of(block.offsets) for block in blocks]
    candidates = [keys.filter(pa.array(wanted[batch])) for keys, batch in zip(encoded, batches, strict=True)]
    # Two passes over the same blocks: the first finds the keys to undo, the second takes every change of these keys,
    # for what survives must be known too. A key's place among the distinct ones becomes its number.
    distinct = pc.unique(pa.chunked_array(candidates, pa.binary()))
    if len(distinct) == 0:
        return None
    places = [pc.index_in(keys, value_set=distinct) for keys in encoded]
    hits = [place.is_valid().to_numpy(zero_copy_only=False) for place in places]
    key = np.concatenate([place.drop_null().to_numpy() for place in places]).astype(np.int64)
    batch = np.concatenate([found[hit] for found, hit in zip(batches, hits, strict=True)])
    offset = np.concatenate([block.offsets[hit] for block, hit in zip(blocks, hits, strict=True)])
    op, prev = (
        np.concatenate([b.batch.column(name).to_numpy()[hit] for b, hit in zip(blocks, hits, strict=True)])
        for name in (OP, PREV)
    )
    # `find_undone` folds runs of one key, so a key's changes must lie together, in the order of the log.
    order = np.lexsort((offset, key))
    key, batch, offset, op, prev = key[order], batch[order], offset[order], op[order].astype(np.int64), prev[order]
    codes = _attempt_codes(directory)
    attempts = np.array([codes[bytes(attempt)] for attempt in directory.attempt.tolist()], np.int64)
    named = _named(directory, batch, columns, columns_of)
    # A delete ends every column, whatever its batch names.
    named[op == Op.DELETE] = True
    changes = Changes(
        key,
        offset,
        op,
        prev,
        directory.owner[batch],
        directory.epoch[batch],
        directory.kind[batch].astype(np.int64),
        attempts[batch],
        named,
    )
    return _Rows(changes, distinct)


def _attempt_codes(directory: BatchDirectory) -> dict[bytes, int]:
    """Return a number for each attempt; 0 for none."""
    codes = {NO_ID: 0}
    for attempt in directory.attempt.tolist():
        codes.setdefault(bytes(attempt), len(codes))
    return codes


def _named(
    directory: BatchDirectory, batch: Int64s, columns: tuple[int, ...], columns_of: ColumnsOf
) -> npt.NDArray[np.bool_]:
    """Tell for each change which of the columns its batch names."""
    # Batches that name the same columns share a code, and there are few codes: each is read once and spread to its
    # changes.
    _, first, inverse = np.unique(directory.columns_code[batch], return_index=True, return_inverse=True)
    rows = np.zeros((len(first), len(columns)), np.bool_)
    for row, number in enumerate(batch[first].tolist()):
        facts = directory.facts(number)
        names = columns_of(facts.schema_id) if facts.columns is None else facts.columns
        rows[row] = np.isin(columns, names)
    named: npt.NDArray[np.bool_] = rows[inverse]
    return named


def _request(
    tablet: Tablet,
    found: _Rows,
    undone: Undone,
    chosen: Int64s,
    *,
    live: Int64s,
    columns: tuple[int, ...],
    deletes: bool,
) -> Request:
    """Return the images that the chosen keys have afterwards, or their deletes."""
    view, schema = tablet.view, tablet.schema
    keys = found.keys.take(pa.array(undone.key[chosen]))
    # The key columns are read from the first change undone: that row is in the log for sure, while a live row may not
    # exist.
    key_rows = view.gather(found.changes.offset[undone.first[chosen]], schema.key_fields)
    if deletes:
        return Request(key_rows, keys, np.ones(len(chosen), np.bool_), exact=True)
    arrays = {name: key_rows.column(name) for name in schema.key_fields.names}
    for place, column in enumerate(columns):
        source = undone.source[chosen, place]
        # A column that keeps its value takes it from the live row. Without a live row that is NO_OFFSET: null,
        # or the column's default.
        source = np.where(source == KEEP, live[chosen], source)
        arrays[str(column)] = _values(view, source, schema.storage.field(str(column)))
    fields = schema.user_columns
    rows = pa.RecordBatch.from_arrays([arrays[field.name] for field in fields], schema=fields)
    return Request(rows, keys, exact=True)


def _values(view: TabletView, source: Int64s, field: pa.Field) -> pa.Array:
    """Return a column's values in the rows of these offsets; for none what a new row has that leaves it out."""
    there = source >= 0
    if not there.any():
        return absent_values(field, len(source))
    # Many keys may take a value from the same rows; `gather` reads each row once, in ascending order.
    offsets, inverse = np.unique(source[there], return_inverse=True)
    values = view.gather(offsets, pa.schema([field])).column(0)
    # The 0 of rows without a source is never read: the mask makes them null before `defaulted` fills them.
    place = np.zeros(len(source), np.int64)
    place[there] = inverse
    return defaulted(values.take(pa.array(place, mask=~there)), field, ~there)
