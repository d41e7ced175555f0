"""Open a bucket: the newest manifest, the ends it saved, and the log for the rest.

Time grows with the log since the checkpoint, not with the table: ends are replayed from the oldest
offset as of which a file's ends were saved, the index from its own applied offset. Replaying what
was applied already changes nothing (I-2). Derived state that is lost or does not fit is made anew:
the ends from the `_prev` columns of the complete log, the index from the live rows.
"""

from __future__ import annotations

import logging

import numpy as np
import pyarrow as pa

from penstock.codec.stored.manifest import FileEntry, Manifest
from penstock.errors import CorruptionError
from penstock.index.key_index import KeyIndex
from penstock.log.segment import Segment
from penstock.log.tail import Tail
from penstock.model.place.change import OP, PREV, SYSTEM_FIELDS, Op
from penstock.model.place.facts import NO_ID
from penstock.tablet.files.bucket_files import BucketFiles
from penstock.tablet.files.durable import NOTHING_DURABLE, Durable
from penstock.tablet.files.found_log import FoundLog
from penstock.tablet.merge.rule import MergeRule
from penstock.tablet.schema import TabletSchema
from penstock.tablet.settings import TabletSettings
from penstock.tablet.state.closed_tail import ClosedTail
from penstock.tablet.state.owner_state import OwnerState
from penstock.tablet.state.tablet_state import TabletState
from penstock.tablet.state.writer_state import Applied, WriterState
from penstock.tablet.steps.index_replay import replay_index
from penstock.tablet.tablet import Tablet, file_name
from penstock.tablet.view.ends import Ends
from penstock.tablet.view.span import Run, Span
from penstock.tablet.view.view import TabletView

_log = logging.getLogger("penstock")


def open_tablet(
    files: BucketFiles,
    schema: TabletSchema,
    *,
    rule: MergeRule,
    index: KeyIndex,
    settings: TabletSettings,
    first_offset: int = 0,
    durable: Durable = NOTHING_DURABLE,
) -> Tablet:
    """Open or create a bucket, whose log begins at `first_offset`; its index is caught up with its log.

    Raises:
        CorruptionError: stored bytes are not what was written.
        UnsupportedError: a newer version wrote them.
        OSError: as the disk gave it.
    """
    log = find_log(files, index, first_offset, durable)
    return open_found(log, schema, rule=rule, index=index, settings=settings)


def find_log(files: BucketFiles, index: KeyIndex, first_offset: int, durable: Durable) -> FoundLog:
    """Return what the disk has of a bucket's log, which begins at `first_offset`.

    Raises:
        CorruptionError, UnsupportedError, OSError: as `open_tablet` has it.
    """
    # What there is of the index begins with the log: one that knows nothing is behind nothing else.
    applied = max(index.applied(files.bucket), first_offset)
    return FoundLog(files, first_offset=first_offset, applied=applied, durable=durable)


def open_found(
    log: FoundLog, schema: TabletSchema, *, rule: MergeRule, index: KeyIndex, settings: TabletSettings
) -> Tablet:
    """Open a bucket with the log that was found.

    Raises:
        CorruptionError, OSError: as `open_tablet` has it.
    """
    log.finish()
    tablet = _opened(log, schema, rule=rule, index=index, settings=settings)
    if schema.keyed:
        replay_index(tablet, index, log.applied, may_be_ahead=log.may_have_lost)
    tablet.snapshots.load()
    log.files.remove_rubbish(log.manifest)
    return tablet


def open_for_reading(
    log: FoundLog, schema: TabletSchema, *, rule: MergeRule, index: KeyIndex, settings: TabletSettings
) -> Tablet:
    """Open a bucket with the log that was found, and change nothing on the disk; the index is not caught up.

    Raises:
        CorruptionError, OSError: as `open_tablet` has it.
    """
    tablet = _opened(log, schema, rule=rule, index=index, settings=settings)
    tablet.snapshots.load(log_level=logging.DEBUG)
    return tablet


def _opened(
    log: FoundLog, schema: TabletSchema, *, rule: MergeRule, index: KeyIndex, settings: TabletSettings
) -> Tablet:
    state = _assemble(log.files, log.manifest, log.segments, schema, start=log.start)
    state.group = log.group
    if schema.keyed:
        _recover_ends(log.files, state)
    return Tablet(log.files, schema, rule=rule, index=index, settings=settings, state=state)


def _assemble(
    files: BucketFiles,
    manifest: Manifest | None,
    segments: list[tuple[str, Segment]],
    schema: TabletSchema,
    *,
    start: int,
) -> TabletState:
    sealed: list[Span] = []
    entries: dict[str, FileEntry] = {}
    for span in manifest.spans if manifest is not None else ():
        runs = []
        for entry in span.files:
            runs.append(Run(files.open_data(entry.name), Ends()))
            entries[entry.name] = entry
        sealed.append(Span(span.start, span.end, tuple(runs)))
    state = TabletState(
        base=manifest.base if manifest is not None else start,
        complete_from=manifest.complete_from if manifest is not None else start,
        checkpoint=manifest.checkpoint if manifest is not None else start,
        timestamp_ms=manifest.timestamp_ms if manifest is not None else 0,
        writers=WriterState.from_bytes(manifest.writer_state) if manifest is not None else WriterState(),
        owners=OwnerState.from_bytes(manifest.owner_state if manifest is not None else b""),
        sealed=tuple(sealed),
        closed=(),
        entries=entries,
        visible=segments[-1][1].end_offset if segments else start,
        before_base_ms=None if manifest is None else _before_base_ms(manifest),
    )
    _load_tails(state, segments, schema)
    return state


def _before_base_ms(manifest: Manifest) -> int | None:
    if manifest.before_base_ms is None and manifest.base == manifest.durable_end:
        # All of the log is before the base.
        return manifest.timestamp_ms
    return manifest.before_base_ms


def _load_tails(state: TabletState, segments: list[tuple[str, Segment]], schema: TabletSchema) -> None:
    """Take segments into memory, neighbours of one schema together, and their headers into the state."""
    groups: list[tuple[Tail, list[str], Segment]] = []
    for name, segment in segments:
        if groups and groups[-1][2].schema_id == segment.schema_id:
            groups[-1][1].append(name)
        else:
            groups.append((Tail(segment.schema, segment.base_offset), [name], segment))
        tail = groups[-1][0]
        for facts, batch in segment.batches:
            tail.append(facts, batch)
            state.timestamp_ms = max(state.timestamp_ms, facts.timestamp_ms)
            if facts.writer_id != NO_ID:
                state.writers.record(facts.writer_id, Applied(facts.sequence, facts.base_offset, facts.end_offset))
            state.owners.record(facts)
    state.closed = tuple(
        ClosedTail(
            Run(tail.snapshot(), Ends()),
            TabletSchema.of(segment.schema_id, segment.schema, schema.key_columns),
            tuple(names),
            tail.bytes,
        )
        for tail, names, segment in groups
    )


def _recover_ends(files: BucketFiles, state: TabletState) -> None:
    """Load the saved ends and replay the changes after them; make them anew if they do not fit."""
    spans = (*state.sealed, *(closed.span for closed in state.closed))
    view = TabletView.of(files.bucket, state.base, state.visible, spans)
    try:
        for run in (run for span in state.sealed for run in span.runs):
            saved = state.entries[file_name(run)].ends
            if saved is not None:
                run.ends.load(files.read_ends(saved, run.rows.rows))
        start = min([entry.ends_as_of for entry in state.entries.values()], default=state.visible)
        if replay_ends(view, min(start, _log_start(state))):
            return
        reason = "they do not fit the log"
    except (CorruptionError, OSError) as error:
        reason = str(error)
    _log.warning("saved ends are not usable, making them anew bucket=%s reason=%s", files.bucket, reason)
    for run in (run for span in spans for run in span.runs):
        run.ends.load(None)
    if not replay_ends(view, state.complete_from):
        raise CorruptionError("changes end rows that are not live; restore the bucket", directory=files.directory)
    # The next checkpoint saves all of them; until then, so does every manifest say.
    state.entries = {name: FileEntry(name, None, state.complete_from) for name in state.entries}


def _log_start(state: TabletState) -> int:
    return state.closed[0].run.rows.start if state.closed else state.visible


def replay_ends(view: TabletView, start: int) -> bool:
    """Store the ends that the changes from `start` on cause; False if one ends a row that is not live."""
    for block in view.changes(start, view.visible, pa.schema(SYSTEM_FIELDS)):
        ops = block.batch.column(OP).to_numpy()
        prev = block.batch.column(PREV).to_numpy()
        # A row that ended before the base may be gone already; its end is of no interest.
        replaces = (prev >= 0) & ((block.offsets >= view.base) | _retained(view, prev))
        deletes = ops == Op.DELETE
        ended = np.concatenate([prev[replaces], block.offsets[deletes]])
        ended_at = np.concatenate([block.offsets[replaces], block.offsets[deletes]])
        for run, asked, rows in view.locate(ended).parts:
            if not run.ends.restore(rows, ended_at[asked], run.rows.rows):
                return False
    return True


def _retained(
    view: TabletView, offsets: np.ndarray[tuple[int], np.dtype[np.int64]]
) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    if view.base == view.bucket.first_offset(view.base) or len(offsets) == 0:
        return np.ones(len(offsets), np.bool_)
    kept = np.zeros(len(offsets), np.bool_)
    for span in view.spans:
        inside = np.flatnonzero((offsets >= span.start) & (offsets < span.end))
        for run in span.runs if len(inside) else ():
            kept[inside] |= run.rows.row_of(offsets[inside]) >= 0
    return kept
