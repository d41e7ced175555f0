"""Raw bounds: what the parts below us can do at best, with the same keys, bytes and syncs."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import numpy as np
import pyarrow as pa
import rocksdict

from bench.workload import Workload


def rocksdict_get_put(directory: Path, work: Workload, salts: list[int]) -> None:
    """Get and put 8-byte values under the same keys, sorted big-endian, with RocksDB's log off."""
    options = rocksdict.Options(raw_mode=True)
    options.create_if_missing(True)
    options.set_write_buffer_size(64 << 20)
    db = rocksdict.Rdict(str(directory / "bare"), options)
    write_options = rocksdict.WriteOptions()
    write_options.disable_wal = True  # type: ignore[method-assign,assignment]
    for salt in salts:
        ids = work.ids(salt)
        for start in range(0, len(ids), work.batch_rows):
            part = np.sort(ids[start : start + work.batch_rows])
            keys = part.astype(">i8").view("V8").tolist()
            db.get(keys)
            batch = rocksdict.WriteBatch(raw_mode=True)
            for key in keys:
                batch.put(key, key)
            db.write(batch, write_options)
    db.close()


def plain_file(directory: Path, batches: list[pa.RecordBatch]) -> None:
    """Append the same bytes to a plain file with a sync per batch."""
    bodies = [batch.serialize() for batch in batches]
    file = os.open(directory / "plain", os.O_CREAT | os.O_WRONLY)
    for body in bodies:
        os.write(file, body)
        os.fdatasync(file)
    os.close(file)


def arrow_filter(table: pa.Table, ends: pa.ChunkedArray) -> int:
    """Filter the same rows in memory by the compare that a scan makes."""
    return int(table.filter(pa.compute.greater_equal(ends, 1)).num_rows)


def one_sync_a_row(path: Path, threads: int, per_thread: int) -> None:
    """Append one-row batches from several threads, each under one lock with its own sync."""
    lock = threading.Lock()
    file = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    body = os.urandom(512)

    def write() -> None:
        for _ in range(per_thread):
            with lock:
                os.write(file, body)
                os.fdatasync(file)

    workers = [threading.Thread(target=write) for _ in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    os.close(file)
