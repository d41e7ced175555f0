"""Checkpoint: save what recovery would otherwise replay.

A checkpoint at C saves the ends below C of every data file, with the writer state as of C. Ends
that are stored while it runs are at C or beyond, so they are left out by value and no writer waits.
The index is flushed after C is taken, so it survives with at least C applied: the base may go up
to C and the index will never be found behind it.

Sealing, checkpoints and compaction of one bucket replace each other's files: their caller
sees to it that they run one after the other, and never inside the committer, which they wait for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from penstock.codec.stored.manifest import FileEntry
from penstock.tablet.tablet import Tablet, file_name
from penstock.tablet.view.span import Run


def checkpoint(tablet: Tablet, flush_index: Callable[[], None]) -> int:
    """Write a checkpoint; return its offset.

    Raises:
        OSError: as the disk gave it; the checkpoint before still counts.
        BucketFailedError: the log could not be synced.
    """
    offset = tablet.exclusively(lambda: _take(tablet))
    flush_index()
    runs = {file_name(run): run for span in tablet.state.sealed for run in span.runs}
    before = tablet.state.entries
    entries: dict[str, FileEntry] = {}
    try:
        for name, entry in before.items():
            entries[name] = _save(tablet, entry, runs[name], offset)
        tablet.exclusively(lambda: _publish(tablet, entries, offset))
    except OSError:
        tablet.files.discard(_ends_of(entries, but=before))
        raise
    tablet.files.remove(_ends_of(before, but=entries))
    tablet.files.sweep()
    return offset


def _ends_of(entries: dict[str, FileEntry], *, but: dict[str, FileEntry]) -> list[str]:
    others = {entry.ends for entry in but.values()}
    return [entry.ends for entry in entries.values() if entry.ends is not None and entry.ends not in others]


def _take(tablet: Tablet) -> int:
    tablet.sync_log()
    return tablet.state.visible


def _save(tablet: Tablet, entry: FileEntry, run: Run, offset: int) -> FileEntry:
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
