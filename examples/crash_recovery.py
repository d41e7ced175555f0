"""Recovery from a crash: a loader that is killed with SIGKILL in the middle of batches, and loads each once.

    python examples/crash_recovery.py [directory]

The loader adds to sums, and what it adds is visible at once; adding a batch again would count it twice. So it
is an owner, each batch is an epoch, and what was not committed is undone before the next begins.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import tempfile

import penstock

BATCHES = 6
ROWS = 1_000
CITIES = ("Ulm", "Bonn", "Kiel")


def batch(number: int) -> list[dict[str, object]]:
    """Return a batch; the same number is always the same batch."""
    dice = random.Random(number)
    return [{"city": dice.choice(CITIES), "amount": dice.randint(1, 100)} for _ in range(ROWS)]


def load(directory: str, dies_in: int) -> None:
    """Load all batches that are not committed; be killed half-way through one of them."""
    with penstock.connect(directory) as conn:
        sums = conn.table("sums")
        with sums.acquire_owner("loader", columns=["amount"]) as owner:
            for number in range(max(0, owner.committed_epoch), BATCHES):
                if owner.begin(epoch=number) == "committed":
                    continue
                rows = batch(number)
                sums.upsert(rows[: ROWS // 2], owner=owner)
                if number == dies_in:
                    os.kill(os.getpid(), signal.SIGKILL)
                sums.upsert(rows[ROWS // 2 :], owner=owner)
                owner.commit(epoch=number)


def main(directory: str) -> None:
    with penstock.connect(directory) as conn:
        conn.create_table("sums", "city STRING, amount BIGINT SUM, PRIMARY KEY (city)", merge_engine="aggregate")
    for dies_in in (1, 1, 4, -1):
        done = subprocess.run([sys.executable, __file__, directory, str(dies_in)], check=False)
        print(
            f"killed in batch {dies_in}" if done.returncode == -signal.SIGKILL else f"loader ended, {done.returncode}"
        )
    expected = dict.fromkeys(CITIES, 0)
    for number in range(BATCHES):
        for row in batch(number):
            expected[str(row["city"])] += int(str(row["amount"]))
    with penstock.connect(directory) as conn:
        found = {row["city"]: row["amount"] for row in conn.table("sums").scan().to_arrow().to_pylist()}
    print("sums are exact" if found == expected else f"sums differ: {found} instead of {expected}")


if __name__ == "__main__":
    if len(sys.argv) > 2:
        load(sys.argv[1], int(sys.argv[2]))
    else:
        with tempfile.TemporaryDirectory() as fresh:
            main(sys.argv[1] if len(sys.argv) > 1 else fresh)
