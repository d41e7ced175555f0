"""A process that writes tables call by call, seals, compacts and drops partitions; to be read beside, and killed.

Each call of table `t` writes rows of its own and replaces those of the call before; each call of `p` writes rows of
its own to two partitions. How many calls were acknowledged is in a file, overwritten in place.
"""

from __future__ import annotations

import os
import sys
from random import Random

import penstock
from penstock.engine.engine import Engine
from penstock.engine.settings import Settings

ROWS = 8
CALLS_A_DAY = 20
DAYS_KEPT = 3
SETTINGS = {"log.segment-bytes": "8KB", "checkpoint.changes": 1000, "kv.snapshot.interval": "1s"}


def days(call: int) -> tuple[str, str]:
    """Return the partitions of a call."""
    return f"d{call // CALLS_A_DAY:06d}", f"d{call // CALLS_A_DAY + 1:06d}"


def main(directory: str, acknowledged: str, seed: int) -> None:
    random = Random(seed)
    engine = Engine.open(directory, Settings.load(None, overrides=SETTINGS))
    connection = penstock.Connection(engine, directory)
    old = {"log.retention": "1ms"}
    t = connection.create_table(
        "t", "id BIGINT, v BIGINT, PRIMARY KEY (id)", buckets=4, properties=old, if_not_exists=True
    )
    p = connection.create_table(
        "p",
        "day STRING, id BIGINT, PRIMARY KEY (day, id)",
        buckets=2,
        partitioned_by=["day"],
        properties=old,
        if_not_exists=True,
    )
    log = connection.create_table("log", "n BIGINT", buckets=3, if_not_exists=True)
    fd = os.open(acknowledged, os.O_RDWR | os.O_CREAT)
    call = int.from_bytes(os.pread(fd, 8, 0), "little")
    while True:
        # After a kill the last call may be there though nobody was told: it is the same again.
        t.upsert([{"id": first + n, "v": call} for first in (0, ROWS * (call + 1)) for n in range(ROWS)])
        p.upsert([{"day": day, "id": ROWS * call + n} for day in days(call) for n in range(ROWS)])
        log.append({"n": [call] * ROWS})
        os.pwrite(fd, (call + 1).to_bytes(8, "little"), 0)
        call += 1
        if call % CALLS_A_DAY == 0:
            for name in sorted(p.list_partitions())[:-DAYS_KEPT]:
                p.drop_partition({"day": name.partition("=")[2]})
        if random.random() < 0.2:
            engine.maintenance.run()
        if random.random() < 0.03:
            table = engine._tables.get(t.info.table_id)
            engine.maintenance.compact_now(table, everything=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
