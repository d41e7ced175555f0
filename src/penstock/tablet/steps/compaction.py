"""Compact: advance the base, and rewrite files without the rows that no reader can see any more.

The new base is durable before anything is rewritten, and pins below it are refused from then on.
Every sealed row whose end is before the base goes in one step: afterwards each row with an end has
the change that ended it in the log from the base, or from the first row not sealed, on, so ends can
be rebuilt from there alone. A sealed row is kept iff it is at the base or beyond, or ends there.

Rewritten rows that are still live and those that are history go to separate files, so that a scan
of the present opens only the first. Offsets never change. New files and their ends are durable
before a manifest names them; the swap copies the ends that were stored meanwhile; old files go with
the last view that holds them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import tee

import numpy as np
import numpy.typing as npt

from penstock.codec.stored.manifest import FileEntry
from penstock.log.batch_directory import UNKNOWN, BatchDirectory, concat
from penstock.log.data_file import DataFile, write_data_file
from penstock.model.place.change import OFFSET_MAX
from penstock.tablet.schema import TabletSchema
from penstock.tablet.tablet import Tablet, file_name
from penstock.tablet.view.ends import Ends
from penstock.tablet.view.span import Run, Span, in_order

Rows = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Chosen:
    """Rows of one run that go to a new file, ascending."""

    run: Run
    rows: Rows

    def offsets(self) -> Rows:
        """Return the offset of each row."""
        run = self.run.rows
        assert isinstance(run, DataFile)
        return run.start + self.rows if run.dense else run.offset_array()[self.rows]

    def ends(self) -> Rows:
        """Return the end of each row as it is now."""
        array = self.run.ends.array
        return np.full(len(self.rows), OFFSET_MAX, np.int64) if array is None else array[self.rows]


@dataclass(frozen=True, slots=True)
class Rewritten:
    """A new file, and the rows of old runs that it holds; `order` puts these in the file's order, None if they are."""

    file: DataFile
    entry: FileEntry
    sources: tuple[Chosen, ...]
    order: Rows | None

    def run(self) -> Run:
        """Return the new run with the ends as they are now."""
        return Run(self.file, Ends(_ends_of(self.sources, self.order)))


def _order_of(sources: list[Chosen]) -> Rows | None:
    """Return how to put the rows of several runs in offset order; spans follow each other, runs of one mix."""
    offsets = np.concatenate([source.offsets() for source in sources])
    return None if bool(np.all(offsets[1:] > offsets[:-1])) else np.argsort(offsets, kind="stable")


def _ends_of(sources: Sequence[Chosen], order: Rows | None) -> Rows | None:
    """Return the ends of these rows as they are now, None if all are live."""
    ends = np.concatenate([source.ends() for source in sources])
    if bool(np.all(ends == OFFSET_MAX)):
        return None
    return ends if order is None else ends[order]


@dataclass(frozen=True, slots=True)
class Replacement:
    """Neighbouring spans and what stands in their place; no files if nothing is left."""

    old: tuple[Span, ...]
    new: tuple[Rewritten, ...]


def compact(tablet: Tablet, target: int) -> bool:
    """Advance the base towards `target` and rewrite what that, or splitting, is worth; True if anything was done.

    Raises:
        OSError: as the disk gave it; old files stay and the bucket is whole.
    """
    written: list[str] = []
    try:
        done = _compact(tablet, target, written)
    except OSError:
        tablet.files.discard(written)
        raise
    tablet.files.sweep()
    return done


def truncate(tablet: Tablet, target: int) -> int:
    """Move the base of a log table to `target`, whatever is pinned; return how many changes that hides.

    What is pinned stays readable for its readers and goes with the last of them.

    Raises:
        OSError: as the disk gave it; the bucket is whole.
    """
    assert target <= tablet.state.checkpoint, "the base never passes the checkpoint"
    before = tablet.state.base
    base = tablet.pins.truncate(target)
    if base > before:
        tablet.exclusively(lambda: _publish_base(tablet, base))
    return base - before


def _compact(tablet: Tablet, target: int, written: list[str]) -> bool:
    base = tablet.pins.advance(min(target, tablet.state.checkpoint))
    advanced = base > tablet.state.base
    if advanced:
        tablet.exclusively(lambda: _publish_base(tablet, base))
    if not tablet.schema.keyed:
        # Readers of before a truncation may still stand below the base.
        base = min(base, tablet.pins.floor())
    replacements = [_rewrite(tablet, group, base, written) for group in _groups(tablet, base)]
    if not replacements and tablet.state.complete_from == _complete_from(tablet, base):
        return advanced
    tablet.exclusively(lambda: _swap(tablet, replacements, base))
    return True


def _complete_from(tablet: Tablet, base: int) -> int:
    """Return where the log is complete from, once compacted: rows not sealed yet may have ended before the base."""
    return min(base, tablet.log_start)


def _publish_base(tablet: Tablet, base: int) -> None:
    tablet.sync_log()
    state = tablet.state
    before, before_ms = state.base, state.before_base_ms
    state.base, state.before_base_ms = base, _before_base_ms(tablet, base)
    try:
        tablet.files.write_manifest(
            tablet.make_manifest(sealed=state.sealed, entries=state.entries, log_start=tablet.log_start)
        )
    except OSError:
        state.base, state.before_base_ms = before, before_ms
        raise
    tablet.refresh_view()


def _before_base_ms(tablet: Tablet, base: int) -> int:
    """Return when the last change before a base was made; when the newest of all was, if that is not known."""
    found = tablet.view.directory(base - 1, base).timestamps_of(np.array([base - 1], np.int64))
    known = int(found[0])
    return tablet.state.timestamp_ms if known == UNKNOWN else known


def _groups(tablet: Tablet, base: int) -> Iterator[tuple[Span, ...]]:
    """Yield neighbouring spans to rewrite together, up to the size of a file."""
    group: list[Span] = []
    rows = 0
    for span in tablet.state.sealed:
        worth = _is_garbage(tablet, span, base) or _splits(tablet, span) or _is_small(tablet, span)
        size = sum(run.rows.rows for run in span.runs)
        if group and (not worth or rows + size > tablet.settings.file_rows_max):
            if _is_worth(tablet, group, base):
                yield tuple(group)
            group, rows = [], 0
        if worth:
            group.append(span)
            rows += size
    if group and _is_worth(tablet, group, base):
        yield tuple(group)


def _is_worth(tablet: Tablet, group: list[Span], base: int) -> bool:
    """Tell whether rewriting a group gains more than moving one small file about."""
    return len(group) > 3 or any(_is_garbage(tablet, span, base) or _splits(tablet, span) for span in group)


def _is_small(tablet: Tablet, span: Span) -> bool:
    return sum(run.rows.rows for run in span.runs) < tablet.settings.file_rows_max // 16


def _is_garbage(tablet: Tablet, span: Span, base: int) -> bool:
    if not tablet.schema.keyed:
        return span.end <= base
    for run in span.runs:
        array = run.ends.array
        if run.rows.start < base and array is not None and bool(np.any(array[: run.rows.rows] < base)):
            return True
    return False


def _splits(tablet: Tablet, span: Span) -> bool:
    """Tell whether a run has become so much history that its live rows deserve a file of their own."""
    settings = tablet.settings
    return any(
        run.rows.rows >= settings.split_rows_min
        and run.live_rows > 0
        and run.live_rows * 100 < run.rows.rows * settings.split_live_percent_max
        for run in span.runs
    )


def _rewrite(tablet: Tablet, group: tuple[Span, ...], base: int, written: list[str]) -> Replacement:
    as_of, schema = tablet.exclusively(lambda: (tablet.state.visible, tablet.schema))
    live: list[Chosen] = []
    history: list[Chosen] = []
    for run in (run for span in group for run in span.runs):
        chosen = Chosen(run, np.arange(run.rows.rows, dtype=np.int64))
        if not schema.keyed:
            if run.rows.end > base:
                live.append(chosen)
            continue
        ends = chosen.ends()
        ends[ends >= as_of] = OFFSET_MAX
        kept = ends >= base if run.rows.start < base else np.ones(len(ends), np.bool_)
        if run.rows.start < base < run.rows.end:
            kept |= chosen.offsets() >= base
        lives = ends == OFFSET_MAX
        live.append(Chosen(run, np.flatnonzero(lives)))
        history.append(Chosen(run, np.flatnonzero(kept & ~lives)))
    rewritten = []
    for sources in (live, history):
        file = _write(tablet, schema, group, sources, base=base, as_of=as_of)
        if file is not None:
            rewritten.append(file)
            written += [name for name in (file.entry.name, file.entry.ends) if name is not None]
    return Replacement(group, tuple(rewritten))


def _write(
    tablet: Tablet, schema: TabletSchema, group: tuple[Span, ...], chosen: list[Chosen], *, base: int, as_of: int
) -> Rewritten | None:
    sources = [source for source in chosen if len(source.rows)]
    if not sources:
        return None
    start, end = (group if schema.keyed else _kept(group, base))[0].start, group[-1].end
    rows = sum(len(source.rows) for source in sources)
    name = tablet.files.new_name("data")
    found = in_order([source.run.chosen(source.rows, schema.storage) for source in sources])
    # Of two iterators one that is not read keeps every block until the end.
    blocks, same_blocks = (found, None) if rows == end - start else tee(found)
    write_data_file(
        tablet.files.disk,
        tablet.files.path(name),
        bucket=tablet.bucket,
        schema_id=schema.schema_id,
        schema=schema.storage,
        start=start,
        end=end,
        blocks=(block.batch for block in blocks),
        offsets=None if same_blocks is None else (block.offsets for block in same_blocks),
        directory=_directory(tablet, group, base),
        settings=tablet.files.settings,
    )
    order = _order_of(sources)
    saved = Ends(_ends_of(sources, order)).before(as_of, rows)
    try:
        entry = FileEntry(name, None if saved is None else tablet.files.write_ends(saved), as_of)
        return Rewritten(tablet.files.open_data(name), entry, tuple(sources), order)
    except OSError:
        tablet.files.discard([name])
        raise


def _kept(group: tuple[Span, ...], base: int) -> list[Span]:
    return [span for span in group if span.end > base]


def _directory(tablet: Tablet, group: tuple[Span, ...], base: int) -> BatchDirectory:
    found = [span.runs[0].rows.directory for span in group if span.runs]
    if tablet.row_age is None:
        return concat([directory.since(base) for directory in found])
    # Where rows go by their age, it must be known as long as they are there.
    return concat([directory.folded_below(base, tablet.row_age.grain_ms) for directory in found])


def _swap(tablet: Tablet, replacements: list[Replacement], base: int) -> None:
    tablet.sync_log()
    state = tablet.state
    sealed = list(state.sealed)
    entries = dict(state.entries)
    gone: list[Run] = []
    for replacement in replacements:
        place = sealed.index(replacement.old[0])
        runs = tuple(rewritten.run() for rewritten in replacement.new)
        spans = [Span(replacement.old[0].start, replacement.old[-1].end, runs)] if runs else []
        sealed[place : place + len(replacement.old)] = spans
        gone += [run for span in replacement.old for run in span.runs]
        entries.update({rewritten.entry.name: rewritten.entry for rewritten in replacement.new})
    old_entries = [entries.pop(file_name(run)) for run in gone]
    before, state.complete_from = state.complete_from, _complete_from(tablet, base)
    try:
        tablet.files.write_manifest(
            tablet.make_manifest(sealed=tuple(sealed), entries=entries, log_start=tablet.log_start)
        )
    except OSError:
        state.complete_from = before
        raise
    state.sealed, state.entries = tuple(sealed), entries
    tablet.refresh_view()
    tablet.files.remove([entry.ends for entry in old_entries if entry.ends is not None])
    for run in gone:
        assert isinstance(run.rows, DataFile)
        tablet.files.retire(run.rows)
