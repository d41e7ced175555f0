"""The files of a bucket in a backup: its data files as they are, its newest rows as one more, and a manifest.

The data files never change, so the next backup needs them not again. Rows that are in no data file yet are written to
one that belongs to this backup alone. The manifest names no saved ends: they are made of the log when the bucket is
opened, as of this moment, whatever was written since.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from penstock.codec.stored.manifest import FileEntry, Manifest, SpanEntry, encode_manifest
from penstock.engine.backup.moment import BucketMoment
from penstock.log.data_file import DataFile, write_data_file
from penstock.log.settings import LogSettings
from penstock.runtime.disk import Disk
from penstock.tablet.schema import TabletSchema
from penstock.tablet.state.writer_state import WriterState
from penstock.tablet.view.span import Span

_DIGITS: Final = 12


@dataclass(frozen=True, slots=True)
class BucketFiles:
    """The files of a bucket in a backup: data files of the database, a file of its newest rows or none, a manifest.

    `manifest_path` and `tail_path` say where these two are to be in a directory that is restored.
    """

    data: tuple[DataFile, ...]
    tail_path: str | None
    tail_stored: str | None
    manifest_path: str
    manifest: bytes


def describe_bucket(bucket: BucketMoment, schema: TabletSchema, disk: Disk, staged: str) -> BucketFiles | None:
    """Return the files of a bucket, None of one that was never written; its newest rows are written below `staged`.

    Raises:
        OSError: as the disk gave it.
    """
    view, complete_from = bucket.view, bucket.complete_from
    if view.visible == view.bucket.first_offset(view.base):
        return None
    sealed = [span for span in view.spans if _is_sealed(span)]
    tails = view.spans[len(sealed) :]
    if not schema.keyed:
        # Below the base of a log that was truncated are only rows for readers of before.
        sealed = [span for span in sealed if span.end > view.base]
    data = tuple(run.rows for span in sealed for run in span.runs if isinstance(run.rows, DataFile))
    spans = [
        SpanEntry(span.start, span.end, tuple(FileEntry(_name(run.rows), None, complete_from) for run in span.runs))
        for span in sealed
    ]
    number = max((int(_name(file)[-_DIGITS:]) for file in data), default=0) + 1
    directory = view.bucket.directory()
    tail_path = tail_stored = None
    if tails:
        name = f"data-{number:0{_DIGITS}d}"
        tail_path, tail_stored = f"{directory}/{name}", f"{staged}/{directory}/{name}"
        _write_tail(bucket, tails[0].start, schema, disk, tail_stored)
        spans.append(SpanEntry(tails[0].start, view.visible, (FileEntry(name, None, complete_from),)))
    manifest = Manifest(
        bucket=view.bucket,
        number=number + 1,
        base=view.base,
        complete_from=complete_from,
        checkpoint=view.visible,
        log_start=view.visible,
        durable_end=view.visible,
        timestamp_ms=bucket.timestamp_ms,
        writer_state=WriterState().to_bytes(),
        spans=tuple(spans),
        before_base_ms=bucket.before_base_ms,
    )
    path = f"{directory}/manifest-{manifest.number:0{_DIGITS}d}"
    return BucketFiles(data, tail_path, tail_stored, path, encode_manifest(manifest))


def _write_tail(bucket: BucketMoment, start: int, schema: TabletSchema, disk: Disk, path: str) -> None:
    view = bucket.view
    disk.make_directory(path.rpartition("/")[0])
    write_data_file(
        disk,
        path,
        bucket=view.bucket,
        schema_id=schema.schema_id,
        schema=schema.storage,
        start=start,
        end=view.visible,
        blocks=(block.batch for block in view.changes(start, view.visible, schema.storage)),
        offsets=None,
        directory=view.directory(start, view.visible),
        settings=LogSettings(),
    )


def _is_sealed(span: Span) -> bool:
    return all(isinstance(run.rows, DataFile) for run in span.runs)


def _name(rows: object) -> str:
    assert isinstance(rows, DataFile)
    return rows.path.rpartition("/")[2]
