"""A task that nobody waits for any more: it writes its rows late, from a process of its own, and notes what came of it.

Run as a program with one argument, a directory, in which a dying task has left its writer and its rows.
"""

from __future__ import annotations

import os
import pickle
import sys
import threading
import time
from pathlib import Path

import pyarrow as pa

from penstock.errors import PenstockError
from penstock.spark.writing.task_writer import TaskWriter

LIFE_SECONDS_MAX = 90.0


def outcome(writer: TaskWriter, batches: list[pa.RecordBatch]) -> str:
    try:
        writer.write(batches)
    except PenstockError as error:
        return type(error).__name__
    return "written"


if __name__ == "__main__":
    home = Path(sys.argv[1])
    threading.Timer(LIFE_SECONDS_MAX, os._exit, [1]).start()
    late: TaskWriter = pickle.loads((home / "writer").read_bytes())
    with pa.ipc.open_stream(home / "rows") as rows:
        batches = list(rows)
    time.sleep(float((home / "seconds").read_text()))
    (home / "outcome.new").write_text(outcome(late, batches))
    (home / "outcome.new").rename(home / "outcome")
    os._exit(0)
