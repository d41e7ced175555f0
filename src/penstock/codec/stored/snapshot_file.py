"""A snapshot of a bucket as it is stored: a name for an offset, and the immutable files that serve it.

It says everything that a reader needs who has only the directory: which files, the ends that they
had, and the table's description as of then. JSON inside a checked frame, like the manifest.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from penstock.codec.stored.framed import frame, unframe
from penstock.codec.stored.manifest import FileEntry, SpanEntry
from penstock.errors import CorruptionError
from penstock.model.place.bucket import BucketId

MAGIC: Final = b"PNSN"
VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class SnapshotFile:
    """One snapshot: the rows visible at `offset` are in the files of `spans`, with ends as of `offset` or later.

    `table` is the table's description as JSON values, `partition` the name of the partition, None
    without one. `sizes` has the bytes of every file named.
    """

    bucket: BucketId
    snapshot_id: int
    offset: int
    created_ms: int
    table: Mapping[str, Any]
    partition: str | None
    spans: tuple[SpanEntry, ...]
    sizes: Mapping[str, int]

    @property
    def bytes(self) -> int:
        """Return the size of all files of the snapshot."""
        return sum(self.sizes.values())

    def file_names(self) -> frozenset[str]:
        """Return every file that the snapshot names."""
        return frozenset(self.sizes)


def encode_snapshot(snapshot: SnapshotFile) -> bytes:
    """Return the snapshot as it is stored."""
    document = {
        "bucket": [snapshot.bucket.table_id, snapshot.bucket.partition_id, snapshot.bucket.bucket],
        "snapshot_id": snapshot.snapshot_id,
        "offset": snapshot.offset,
        "created_ms": snapshot.created_ms,
        "table": dict(snapshot.table),
        "partition": snapshot.partition,
        "spans": [[s.start, s.end, [[f.name, f.ends, f.ends_as_of] for f in s.files]] for s in snapshot.spans],
        "sizes": dict(snapshot.sizes),
    }
    return frame(MAGIC, VERSION, json.dumps(document, separators=(",", ":")).encode())


def decode_snapshot(data: bytes, *, name: str) -> SnapshotFile:
    """Return the snapshot stored in `data`.

    Raises:
        CorruptionError: the bytes are damaged.
        UnsupportedError: a newer version wrote them.
    """
    _, payload = unframe(MAGIC, VERSION, data, name=name)
    try:
        document = json.loads(payload)
        return SnapshotFile(
            bucket=BucketId(*document["bucket"]),
            snapshot_id=document["snapshot_id"],
            offset=document["offset"],
            created_ms=document["created_ms"],
            table=document["table"],
            partition=document["partition"],
            spans=tuple(
                SpanEntry(start, end, tuple(FileEntry(*file) for file in files))
                for start, end, files in document["spans"]
            ),
            sizes=document["sizes"],
        )
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptionError("snapshot does not say what a snapshot says", file=name) from error
