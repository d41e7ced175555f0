"""Copy a bucket as it was at an offset to another disk: what is live there, and no history.

The copy is a bucket like any other, as if it had been compacted up to the offset: one data file and a
manifest. It has no key index; whoever opens it makes one. Offsets stay what they were.
"""

from __future__ import annotations

from itertools import tee
from typing import Final

from penstock.codec.stored.manifest import FileEntry, Manifest, SpanEntry, encode_manifest
from penstock.log.batch_directory import concat
from penstock.log.data_file import write_data_file
from penstock.log.settings import LogSettings
from penstock.runtime.disk import Disk, write_atomically
from penstock.tablet.schema import TabletSchema
from penstock.tablet.state.writer_state import WriterState
from penstock.tablet.view.view import TabletView

DATA: Final = "data-000000000001"
MANIFEST: Final = "manifest-000000000002"


def copy_bucket(view: TabletView, schema: TabletSchema, offset: int, target: Disk, *, timestamp_ms: int) -> list[str]:
    """Copy what a view shows at an offset, which somebody pins; return the paths of the files, none if it is empty.

    Of a log table all changes from the base up to the offset are copied.

    Raises:
        OSError: as a disk gave it; what was copied is of no use.
        CorruptionError: stored bytes are not what was written.
    """
    if offset == view.bucket.first_offset(view.base):
        return []
    directory = view.bucket.directory()
    target.make_directory(directory)
    base = offset if schema.keyed else min(view.base, offset)
    paths = [f"{directory}/{MANIFEST}"]
    spans: tuple[SpanEntry, ...] = ()
    if _copy_rows(view, schema, offset, target, start=0 if schema.keyed else base):
        paths.append(f"{directory}/{DATA}")
        spans = (SpanEntry(0 if schema.keyed else base, offset, (FileEntry(DATA, None, offset),)),)
    manifest = Manifest(
        bucket=view.bucket,
        number=2,
        base=base,
        complete_from=base,
        checkpoint=offset,
        log_start=offset,
        durable_end=offset,
        timestamp_ms=timestamp_ms,
        writer_state=WriterState().to_bytes(),
        spans=spans,
    )
    write_atomically(target, paths[0], encode_manifest(manifest))
    return paths


def _copy_rows(view: TabletView, schema: TabletSchema, offset: int, target: Disk, *, start: int) -> bool:
    rows = view.scan(offset, schema.storage) if schema.keyed else view.changes(start, offset, schema.storage)
    first = next(rows, None)
    if first is None:
        return False
    blocks, same_blocks = tee(rows)
    write_data_file(
        target,
        f"{view.bucket.directory()}/{DATA}",
        bucket=view.bucket,
        schema_id=schema.schema_id,
        schema=schema.storage,
        start=start,
        end=offset,
        blocks=(block.batch for part in ([first], blocks) for block in part),
        offsets=(block.offsets for part in ([first], same_blocks) for block in part),
        directory=concat([]) if schema.keyed else view.directory(start, offset),
        settings=LogSettings(),
    )
    return True
