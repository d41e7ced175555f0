"""Take a snapshot: seal and checkpoint up to its offset, then give the files that serve it a name.

It costs the new files only: what was sealed and saved before is named again. Files all of whose rows
had ended before the offset are left out, so that a snapshot keeps no history that it does not show.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from penstock.codec.stored.manifest import SpanEntry
from penstock.codec.stored.snapshot_file import SnapshotFile
from penstock.tablet.steps.checkpointing import checkpoint
from penstock.tablet.steps.sealing import seal
from penstock.tablet.tablet import Tablet, file_name


def take_snapshot(
    tablet: Tablet,
    offset: int,
    flush_index: Callable[[], None],
    *,
    created_ms: int,
    table: Mapping[str, Any],
    partition: str | None,
) -> SnapshotFile:
    """Snapshot a bucket at an offset that is visible; nothing else may seal or compact it meanwhile.

    If nothing was written since the newest snapshot, and the columns are the same, that one is returned.

    Raises:
        OSError: as the disk gave it; there is no new snapshot.
        BucketFailedError: the log could not be finished.
    """
    newest = tablet.snapshots.newest()
    if newest is not None and newest.offset == offset and newest.table["schema_id"] == table["schema_id"]:
        return newest
    if tablet.log_start < offset:
        seal(tablet, active_too=True)
    if any(entry.ends_as_of < offset for entry in tablet.state.entries.values()):
        checkpoint(tablet, flush_index)
    spans = tuple(_spans(tablet, offset))
    names = {name for span in spans for file in span.files for name in (file.name, file.ends) if name is not None}
    snapshot = SnapshotFile(
        bucket=tablet.bucket,
        snapshot_id=tablet.snapshots.next_id(),
        offset=offset,
        created_ms=created_ms,
        table=table,
        partition=partition,
        spans=spans,
        sizes={name: tablet.files.disk.size(tablet.files.path(name)) for name in sorted(names)},
    )
    tablet.snapshots.add(snapshot)
    return snapshot


def _spans(tablet: Tablet, offset: int) -> list[SpanEntry]:
    spans = []
    for span in tablet.state.sealed:
        entries = [tablet.state.entries[file_name(r)] for r in span.runs if not r.none_visible_at(offset)]
        if entries:
            spans.append(SpanEntry(span.start, span.end, tuple(entries)))
    return spans
