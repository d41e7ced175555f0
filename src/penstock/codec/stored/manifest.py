"""The manifest of a bucket: which files hold it, and from where on the log says the rest.

A manifest is written whole under a new number; the newest one counts. It is JSON inside a checked
frame, so that a person can read it and a machine trusts it.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from typing import Any, Final

from penstock.codec.stored.framed import frame, unframe
from penstock.errors import CorruptionError
from penstock.model.place.bucket import BucketId

MAGIC: Final = b"PNMF"
VERSION: Final = 2


@dataclass(frozen=True, slots=True)
class FileEntry:
    """A data file. Its ends below `ends_as_of` are in the file `ends`, or there were none."""

    name: str
    ends: str | None
    ends_as_of: int


@dataclass(frozen=True, slots=True)
class SpanEntry:
    """A range of offsets and the files that hold what is retained of it."""

    start: int
    end: int
    files: tuple[FileEntry, ...]


@dataclass(frozen=True, slots=True)
class Manifest:
    """The durable state of a bucket.

    `base` is the oldest readable offset. From `complete_from` on every change is physically there,
    and every row with an end has the change that ended it there: ends can be rebuilt from it.
    `checkpoint` is the offset as of which `writer_state` and `owner_state` stand. Rows from
    `log_start` on are in segments. The log reached `durable_end` when the manifest was written: a
    shorter one is damaged. `group` is the last group of the table that it has a part of, -1 for none.
    The changes before the base are not later than `before_base_ms` (None: it is not known when they were).
    """

    bucket: BucketId
    number: int
    base: int
    complete_from: int
    checkpoint: int
    log_start: int
    durable_end: int
    timestamp_ms: int
    writer_state: bytes
    spans: tuple[SpanEntry, ...]
    owner_state: bytes = b""
    group: int = -1
    before_base_ms: int | None = None

    def file_names(self) -> set[str]:
        """Return every file that the manifest names."""
        files = [file for span in self.spans for file in span.files]
        return {file.name for file in files} | {file.ends for file in files if file.ends is not None}


def encode_manifest(manifest: Manifest) -> bytes:
    """Return the manifest as it is stored."""
    document = {
        "bucket": [manifest.bucket.table_id, manifest.bucket.partition_id, manifest.bucket.bucket],
        "number": manifest.number,
        "base": manifest.base,
        "complete_from": manifest.complete_from,
        "checkpoint": manifest.checkpoint,
        "log_start": manifest.log_start,
        "durable_end": manifest.durable_end,
        "timestamp_ms": manifest.timestamp_ms,
        "writer_state": base64.b64encode(manifest.writer_state).decode("ascii"),
        "owner_state": base64.b64encode(manifest.owner_state).decode("ascii"),
        "group": manifest.group,
        "before_base_ms": manifest.before_base_ms,
        "spans": [[s.start, s.end, [[f.name, f.ends, f.ends_as_of] for f in s.files]] for s in manifest.spans],
    }
    return frame(MAGIC, VERSION, json.dumps(document, separators=(",", ":")).encode())


def decode_manifest(data: bytes, *, name: str) -> Manifest:
    """Return the manifest stored in `data`.

    Raises:
        CorruptionError: the bytes are damaged.
        UnsupportedError: a newer version wrote them.
    """
    _, payload = unframe(MAGIC, VERSION, data, name=name)
    try:
        return _from_document(json.loads(bytes(payload)))
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptionError("manifest does not say what a manifest says", file=name) from error


def _from_document(document: dict[str, Any]) -> Manifest:
    return Manifest(
        bucket=BucketId(*document["bucket"]),
        number=document["number"],
        base=document["base"],
        complete_from=document["complete_from"],
        checkpoint=document["checkpoint"],
        log_start=document["log_start"],
        durable_end=document["durable_end"],
        timestamp_ms=document["timestamp_ms"],
        writer_state=base64.b64decode(document["writer_state"]),
        owner_state=base64.b64decode(document.get("owner_state", "")),
        group=document.get("group", -1),
        before_base_ms=document.get("before_base_ms"),
        spans=tuple(
            SpanEntry(start, end, tuple(FileEntry(*file) for file in files)) for start, end, files in document["spans"]
        ),
    )
