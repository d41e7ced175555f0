"""The key index on RocksDB: one instance per data directory, shared by all its buckets.

Invariants
- RocksDB's write-ahead log is off. It flushes memtables in the order of writes and a write batch lies
  in one memtable, so what survives a crash is a prefix of the write batches.
- The applied offset is in the last write batch of its call: if it survived, so did the call's keys.
- Only this file imports rocksdict, and RocksDB does its own file access: the one exception to the
  `Disk` seam. Nothing here is the only copy of anything; damage is an error here and a rebuild above.
- A write that RocksDB would stall is refused by it and repeated after a flush, because rocksdict's
  writes hold the GIL, its flushes do not.
- A long run of sorted keys becomes table files of RocksDB's own, taken in all at once; its applied offset
  is written after it. RocksDB writes out what it holds of the same keys before it takes files in.
"""

from __future__ import annotations

import os
import shutil
import threading
from collections import deque
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from itertools import compress, islice
from operator import call, not_
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import rocksdict

from penstock.errors import ClosedError, CorruptionError, UnsupportedError
from penstock.index.key_index import Offsets
from penstock.index.rocks.errors import check_undamaged, mapped
from penstock.index.rocks.fork import check_not_forked, hold
from penstock.index.rocks.format import (
    APPLIED,
    FORMAT_VERSION,
    VERSION_KEY,
    applied_key,
    bucket_of,
    decode_offset,
    decode_offsets,
    decode_version,
    encode_offset,
    encode_offsets,
    encode_version,
    first_key,
    key_after,
    plain_keys,
    stored_keys,
)
from penstock.index.rocks.gil_pauses import GilPauses
from penstock.index.rocks.settings import RocksIndexSettings
from penstock.model.place.bucket import BucketId
from penstock.model.place.change import NO_OFFSET
from penstock.runtime.local_disk import DIRECTORY_MODE

_RUNS: Final = "runs"
"""Where the files of a run are until RocksDB has taken them in."""

_COPY_BYTES: Final = 1 << 20
_SCAN_CHUNK_KEYS: Final = 2_000
"""A scan in one piece would hold the GIL from its first to its last key."""

_LEVEL0_FILES_SLOWDOWN: Final = 400
_LEVEL0_FILES_STOP: Final = 800
_MEMTABLE_BLOOM_RATIO: Final = 0.02
_DATA_BLOCK_HASH_RATIO: Final = 0.75
_LEVEL1_BYTES: Final = 64 << 20
_FILE_BYTES: Final = 64 << 20

_WRITE_STALLED: Final = "Write stall"


class RocksKeyIndex:
    """Primary key to offset in RocksDB. Thread-safe; readers do not wait for each other."""

    def __init__(self, path: str | Path, settings: RocksIndexSettings | None = None) -> None:
        """Open the index in the directory `path`, or make an empty one.

        Raises:
            CorruptionError: what is stored is damaged; `destroy` it and rebuild.
            UnsupportedError: a newer Penstock wrote it.
            DirectoryInUseError: it is open elsewhere.
            UnavailableError: the directory cannot be used now.
            UnsupportedError: this process was forked from one that had an index open.

        """
        self._path = Path(path)
        check_not_forked(self._path)
        check_undamaged(self._path)
        self._settings = settings or RocksIndexSettings()
        self._changed = threading.Condition()
        self._calls = 0
        self._closed = False
        self._options = _options(self._settings)
        # RocksDB's own files are as readable as the process lets new files be.
        with mapped(self._path):
            self._path.mkdir(DIRECTORY_MODE, parents=True, exist_ok=True)
        with mapped(self._path):
            # Without column families rocksdict takes the stored options of a reopened store, and its own small cache.
            self._db = rocksdict.Rdict(str(self._path), self._options, column_families={"default": self._options})
            self._db.set_write_options(_write_options())
        hold(self)
        try:
            self._check_version()
            shutil.rmtree(self._path / _RUNS, ignore_errors=True)
        except BaseException:
            self.close()
            raise

    def get_many(self, bucket: BucketId, keys: pa.BinaryArray) -> Offsets:
        """Return the offset of each key's live row, -1 where there is none."""
        stored = stored_keys(bucket, keys)
        chunk = self._settings.get_chunk_keys
        values: list[Any] = []
        with self._call() as db:
            for start in range(0, len(stored), chunk):
                values += _get(db, stored[start : start + chunk])
        return decode_offsets(values)

    def apply(self, bucket: BucketId, keys: pa.BinaryArray, offsets: Offsets, applied: int) -> None:
        """Point each key at its offset, or remove it where the offset is -1, in chunks."""
        assert len(keys) == len(offsets)
        with self._call() as db:
            self._put(db, bucket, keys, offsets, applied)

    def apply_run(self, bucket: BucketId, keys: pa.BinaryArray, offsets: Offsets, applied: int) -> None:
        """Point many sorted keys at their offsets, or remove them; other threads get their turn in between."""
        assert len(keys) == len(offsets)
        pauses = GilPauses(self._settings.run_pause_us)
        with self._call() as db:
            if len(keys) >= self._settings.run_keys_min:
                self._ingest(db, bucket, keys, offsets, pauses)
                keys, offsets = keys[:0], offsets[:0]
            chunk = self._settings.run_chunk_keys
            while len(keys) > chunk:
                self._put(db, bucket, keys[:chunk], offsets[:chunk], None)
                keys, offsets = keys[chunk:], offsets[chunk:]
                pauses.pause_if_due()
            self._put(db, bucket, keys, offsets, applied)

    def applied(self, bucket: BucketId) -> int:
        """Return the applied offset of the bucket; 0 if it was never set."""
        with self._call() as db:
            value = db.get(applied_key(bucket))
        return 0 if value is None else decode_offset(value)

    def prefix(self, bucket: BucketId, prefix: bytes, limit: int | None = None) -> tuple[pa.BinaryArray, Offsets]:
        """Return the keys that start with `prefix`, in key order, and their offsets."""
        with self._call() as db:
            found = _scan(db, first_key(bucket, prefix), limit)
        return plain_keys([key for key, _ in found]), decode_offsets([value for _, value in found])

    def buckets(self) -> list[BucketId]:
        """Return the buckets that have an applied offset, sorted."""
        with self._call() as db:
            return [bucket_of(key) for key, _ in _scan(db, APPLIED, None)]

    def flush(self, buckets: Collection[BucketId] | None = None) -> None:
        """Make everything applied durable: RocksDB flushes as a whole."""
        with self._call() as db:
            db.flush()

    def drop(self, bucket: BucketId) -> None:
        """Forget the bucket: its keys and its applied offset, in one write batch."""
        first = first_key(bucket)
        with self._call() as db:
            while True:
                batch = rocksdict.WriteBatch(raw_mode=True)
                batch.delete_range(first, key_after(first))
                batch.delete(applied_key(bucket))
                if _written(db, batch):
                    return
                db.flush()

    def close(self) -> None:
        """Wait for calls under way, then release everything; idempotent."""
        with self._changed:
            if self._closed:
                return
            self._closed = True
            self._changed.wait_for(lambda: self._calls == 0)
        # RocksDB flushes on close and may fail to; that is no news, durability comes from `flush`.
        with suppress(Exception):
            self._db.close()

    @staticmethod
    def destroy(path: str | Path) -> None:
        """Remove the index in `path`, whatever state it is in; it must not be open."""
        if Path(path).exists():
            shutil.rmtree(path)

    @contextmanager
    def _call(self) -> Iterator[rocksdict.Rdict]:
        # rocksdict cannot close a store that a thread is reading, so `close` waits for every call.
        with self._changed:
            if self._closed:
                raise ClosedError("the index is closed; open it again", path=self._path)
            self._calls += 1
        try:
            with mapped(self._path):
                yield self._db
        finally:
            with self._changed:
                self._calls -= 1
                self._changed.notify_all()

    def _put(
        self, db: rocksdict.Rdict, bucket: BucketId, keys: pa.BinaryArray, offsets: Offsets, applied: int | None
    ) -> None:
        # NumPy gives the GIL up for a moment in each large operation. Done once a chunk, that would keep every
        # other thread from ever waiting long enough to be handed it; so no arrays inside the loop.
        stored, values, live = stored_keys(bucket, keys), encode_offsets(offsets), (offsets != NO_OFFSET).tolist()
        chunk = self._settings.apply_chunk_keys
        for start in range(0, max(len(stored), 1), chunk):
            end = start + chunk
            last = applied is not None and end >= len(stored)
            mark = (applied_key(bucket), encode_offset(applied or 0)) if last else None
            while not _written(db, _batch(stored[start:end], values[start:end], live[start:end], mark)):
                db.flush()

    def _ingest(
        self, db: rocksdict.Rdict, bucket: BucketId, keys: pa.BinaryArray, offsets: Offsets, pauses: GilPauses
    ) -> None:
        """Write the keys to files as RocksDB has them, and let it take them in: a third of the work of writing them."""
        size = self._settings.run_file_keys
        runs = self._path / _RUNS
        runs.mkdir(exist_ok=True)
        # Another bucket's run may be on its way at the same time.
        opening = f"{threading.get_ident()}-"
        paths = [runs / f"{opening}{start}.sst" for start in range(0, len(keys), size)]
        try:
            for number, path in enumerate(paths):
                mine = slice(number * size, (number + 1) * size)
                some, theirs = keys[mine], offsets[mine]
                _make_durably(path, partial(self._write_file, bucket=bucket, keys=some, offsets=theirs, pauses=pauses))
            options = rocksdict.IngestExternalFileOptions()
            options.set_move_files(True)
            db.ingest_external_file([str(path) for path in paths], options)
        finally:
            for path in paths:
                path.unlink(missing_ok=True)

    def _write_file(
        self, path: str, bucket: BucketId, keys: pa.BinaryArray, offsets: Offsets, pauses: GilPauses
    ) -> None:
        writer = rocksdict.SstFileWriter(self._options)
        writer.open(path)
        put, chunk = writer.__setitem__, self._settings.run_chunk_keys

        def remove(key: bytes, _: bytes) -> None:
            del writer[key]

        for start in range(0, len(keys), chunk):
            piece = slice(start, start + chunk)
            stored, values = stored_keys(bucket, keys[piece]), encode_offsets(offsets[piece])
            live = (offsets[piece] != NO_OFFSET).tolist()
            if all(live):
                deque(map(put, stored, values), maxlen=0)
            else:
                deque(map(call, [put if each else remove for each in live], stored, values), maxlen=0)
            pauses.pause_if_due()
        writer.finish()

    def _check_version(self) -> None:
        with self._call() as db:
            stored: bytes | None = db.get(VERSION_KEY)
            if stored is None:
                if _scan(db, b"", 1):
                    raise CorruptionError("the index has keys but no format version; rebuild it", path=self._path)
                # Durable before any key is, so that keys without a version can only mean damage.
                db.put(VERSION_KEY, encode_version(FORMAT_VERSION))
                db.flush()
                return
        version = decode_version(stored)
        if version > FORMAT_VERSION:
            raise UnsupportedError(
                "a newer penstock wrote this index; upgrade, or remove it to have it rebuilt",
                path=self._path,
                version=version,
                supported=FORMAT_VERSION,
            )


def _options(settings: RocksIndexSettings) -> rocksdict.Options:
    table = rocksdict.BlockBasedOptions()
    table.set_block_cache(rocksdict.Cache(settings.block_cache_bytes))
    table.set_block_size(settings.block_bytes)
    table.set_bloom_filter(settings.bloom_bits_per_key, False)
    table.set_format_version(5)
    table.set_data_block_index_type(rocksdict.DataBlockIndexType.binary_and_hash())
    table.set_data_block_hash_ratio(_DATA_BLOCK_HASH_RATIO)
    options = rocksdict.Options(raw_mode=True)
    options.create_if_missing(True)
    options.set_block_based_table_factory(table)
    options.set_compression_type(rocksdict.DBCompressionType.none())
    options.set_write_buffer_size(settings.memtable_bytes)
    options.set_max_write_buffer_number(settings.memtables_max)
    options.set_memtable_prefix_bloom_ratio(_MEMTABLE_BLOOM_RATIO)
    options.set_memtable_whole_key_filtering(True)
    options.set_level_zero_slowdown_writes_trigger(_LEVEL0_FILES_SLOWDOWN)
    options.set_level_zero_stop_writes_trigger(_LEVEL0_FILES_STOP)
    options.set_soft_pending_compaction_bytes_limit(0)
    options.set_hard_pending_compaction_bytes_limit(0)
    options.set_max_bytes_for_level_base(_LEVEL1_BYTES)
    options.set_target_file_size_base(_FILE_BYTES)
    options.set_max_background_jobs(settings.background_jobs)
    options.set_max_open_files(settings.open_files_max)
    options.set_keep_log_file_num(2)
    options.set_max_log_file_size(1 << 20)
    return options


def _write_options() -> rocksdict.WriteOptions:
    options = rocksdict.WriteOptions()
    # A property, though rocksdict's stub calls it a method.
    options.disable_wal = True  # type: ignore[method-assign,assignment]
    options.no_slowdown = True
    return options


def _make_durably(path: Path, make: Callable[[str], None]) -> None:
    """Have a file made by RocksDB, and make it durable.

    RocksDB syncs the file that it makes, and rocksdict holds the GIL meanwhile: on a busy disk a third of a second was
    seen. So it makes it in memory, where there is memory that has a name, and the bytes are synced here.
    """
    if not hasattr(os, "memfd_create"):
        make(str(path))
        return
    with open(os.memfd_create("penstock-run"), "rb") as made, path.open("wb") as file:
        make(f"/proc/self/fd/{made.fileno()}")
        shutil.copyfileobj(made, file, _COPY_BYTES)
        file.flush()
        os.fsync(file.fileno())


def _written(db: rocksdict.Rdict, batch: rocksdict.WriteBatch) -> bool:
    try:
        db.write(batch)
    except Exception as error:
        if _WRITE_STALLED in str(error):
            return False
        raise
    return True


def _get(db: rocksdict.Rdict, stored: list[Any]) -> list[Any]:
    # rocksdict answers a list with a list, which its stub does not say.
    values = db.get(stored)
    assert isinstance(values, list)
    return values


def _batch(
    stored: list[bytes], values: list[bytes], live: list[bool], mark: tuple[bytes, bytes] | None
) -> rocksdict.WriteBatch:
    batch = rocksdict.WriteBatch(raw_mode=True)
    if all(live):
        deque(map(batch.put, stored, values), maxlen=0)
    else:
        deque(map(batch.put, compress(stored, live), compress(values, live)), maxlen=0)
        deque(map(batch.delete, compress(stored, map(not_, live))), maxlen=0)
    if mark is not None:
        batch.put(*mark)
    return batch


def _scan(db: rocksdict.Rdict, first: bytes, limit: int | None) -> list[tuple[Any, Any]]:
    bounds = rocksdict.ReadOptions()
    if first:
        bounds.set_iterate_upper_bound(key_after(first))
    items, probe = db.items(from_key=first, read_opt=bounds), db.iter(bounds)
    found: list[tuple[Any, Any]] = []
    try:
        while limit is None or len(found) < limit:
            wanted = _SCAN_CHUNK_KEYS if limit is None else min(_SCAN_CHUNK_KEYS, limit - len(found))
            chunk = list(islice(items, wanted))
            found += chunk
            if len(chunk) < wanted:
                # rocksdict's iteration takes a damaged block for the end; only a bare iterator tells.
                probe.seek(found[-1][0] if found else first)
                if found:
                    probe.next()
                probe.status()
                break
    finally:
        # An iterator kept alive by an error's traceback would keep the store open after `close`.
        del items, probe
    return found
