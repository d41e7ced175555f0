"""Leader terms: how often each bucket was taken up. A bucket that never changed hands is in term 1.

The term is durable before the bucket is used under it, and goes into every batch that is written,
so that no earlier leader of the bucket can write beside the present one (I-7).
"""

from __future__ import annotations

import threading
from typing import Final

from penstock.engine.metadata.store import ABSENT, MetadataStore, Put
from penstock.errors import CorruptionError
from penstock.model.place.bucket import BucketId

PREFIX: Final = "term/"
FIRST: Final = 1


class Terms:
    """The term of every bucket of a node. Thread-safe by one lock; a term is read without it."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store
        self._lock = threading.Lock()
        try:
            self._terms = {entry.key: (int(entry.value), entry.version) for entry in store.list(PREFIX)}
        except ValueError as cause:
            raise CorruptionError("a term cannot be read; restore the metadata", cause=str(cause)) from cause

    def of(self, bucket: BucketId) -> int:
        """Return the present term of a bucket."""
        return self._terms.get(_key(bucket), (FIRST, 0))[0]

    def advance(self, bucket: BucketId) -> int:
        """Begin the next term of a bucket, durably; return it."""
        key = _key(bucket)
        with self._lock:
            term, version = self._terms.get(key, (FIRST, 0))
            expected = version if key in self._terms else ABSENT
            revision = self._store.commit([Put(key, str(term + 1).encode(), expected)])
            self._terms[key] = (term + 1, revision)
            return term + 1


def _key(bucket: BucketId) -> str:
    return f"{PREFIX}{bucket.table_id}/{bucket.partition_id}/{bucket.bucket}"
