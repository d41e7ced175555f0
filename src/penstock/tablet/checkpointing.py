"""Checkpoint: save what recovery would otherwise replay.

A checkpoint at C saves the ends below C of every data file, with the writer state as of C. Ends
that are stored while it runs are at C or beyond, so they are left out by value and no writer waits.
The index is flushed after C is taken, so it survives with at least C applied: the base may go up
to C and the index will never be found behind it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from penstock.codec.manifest import FileEntry
from penstock.tablet.tablet import Tablet, file_name


def checkpoint(tablet: Tablet, flush_index: Callable[[], None]) -> int:
    """Write a checkpoint; return its offset.

    Raises:
        OSError: as the disk gave it; the checkpoint before still counts.
        BucketFailedError: the log could not be synced.
    """
    offset = tablet.exclusively(lambda: _take(tablet))
    flush_index()
    entries = {name: _save(tablet, entry, offset) for name, entry in tablet.state.entries.items()}
    replaced = [
        entry.ends
        for name, entry in tablet.state.entries.items()
        if entry.ends is not None and entry.ends != entries[name].ends
    ]
    tablet.exclusively(lambda: _publish(tablet, entries, offset))
    tablet.files.remove(replaced)
    return offset


def _take(tablet: Tablet) -> int:
    tablet.sync_log()
    return tablet.state.visible


def _save(tablet: Tablet, entry: FileEntry, offset: int) -> FileEntry:
    run = next(run for span in tablet.state.sealed for run in span.runs if file_name(run) == entry.name)
    ends = run.ends.before(offset, run.rows.rows)
    if ends is None or (entry.ends is not None and run.ends.unchanged_since(entry.ends_as_of)):
        return replace(entry, ends_as_of=offset)
    return FileEntry(entry.name, tablet.files.write_ends(ends), offset)


def _publish(tablet: Tablet, entries: dict[str, FileEntry], offset: int) -> None:
    tablet.sync_log()
    state = tablet.state
    before, state.checkpoint = state.checkpoint, offset
    try:
        manifest = tablet.make_manifest(sealed=state.sealed, entries=entries, log_start=tablet.log_start)
        tablet.files.write_manifest(manifest)
    except OSError:
        state.checkpoint = before
        raise
    state.entries = entries
