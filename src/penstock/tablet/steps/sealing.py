"""Seal: rows of finished segments become a data file.

The new run shares the ends of the old one, row for row, so nothing is copied and nothing is missed
that the committer stores meanwhile. The data file is durable before a manifest names it; the
segments go after that manifest is durable.
"""

from __future__ import annotations

from penstock.codec.stored.manifest import FileEntry
from penstock.log.data_file import write_data_file
from penstock.log.tail import TailView
from penstock.tablet.state.closed_tail import ClosedTail
from penstock.tablet.tablet import Tablet
from penstock.tablet.view.span import Run, Span


def seal(tablet: Tablet, *, active_too: bool = False) -> int:
    """Seal every finished segment, and the active one if asked; return how many rows were sealed.

    Raises:
        OSError: as the disk gave it; nothing is lost, the segments stay.
        BucketFailedError: the active segment could not be finished.
    """
    if active_too:
        tablet.exclusively(tablet.roll)
    rows = 0
    while tablet.state.closed:
        rows += _seal_oldest(tablet, tablet.state.closed[0])
    tablet.files.sweep()
    return rows


def _seal_oldest(tablet: Tablet, closed: ClosedTail) -> int:
    old = closed.run.rows
    assert isinstance(old, TailView)
    if old.rows == 0:
        tablet.exclusively(lambda: _swap(tablet, closed, None, None))
        return 0
    name = tablet.files.new_name("data")
    write_data_file(
        tablet.files.disk,
        tablet.files.path(name),
        bucket=tablet.bucket,
        schema_id=closed.schema.schema_id,
        schema=old.schema,
        start=old.start,
        end=old.end,
        blocks=old.chunks,
        offsets=None,
        directory=old.directory,
        settings=tablet.files.settings,
    )
    entry = FileEntry(name, None, ends_as_of=old.start)
    try:
        span = Span(old.start, old.end, (Run(tablet.files.open_data(name), closed.run.ends),))
        tablet.exclusively(lambda: _swap(tablet, closed, span, entry))
    except OSError:
        tablet.files.discard([name])
        raise
    return old.rows


def _swap(tablet: Tablet, closed: ClosedTail, span: Span | None, entry: FileEntry | None) -> None:
    state = tablet.state
    sealed = state.sealed if span is None else (*state.sealed, span)
    entries = state.entries if entry is None else {**state.entries, entry.name: entry}
    # What a manifest calls durable must be.
    tablet.sync_log()
    tablet.files.write_manifest(tablet.make_manifest(sealed=sealed, entries=entries, log_start=closed.run.rows.end))
    state.sealed, state.entries, state.closed = sealed, entries, state.closed[1:]
    tablet.refresh_view()
    tablet.files.remove(closed.segments)
