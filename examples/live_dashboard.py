"""A live dashboard: poll full scans of a table that is being written, and see one moment each time.

    python examples/live_dashboard.py [directory]

A thread moves money between accounts, two rows in a call. Each scan sees a call whole or not at all, so the
total never changes, however the bars do.
"""

from __future__ import annotations

import random
import sys
import tempfile
import threading

import penstock

ACCOUNTS = ("Ada", "Bo", "Cleo", "Dan", "Eve", "Finn")
START = 1_000
POLLS = 10


def move_money(accounts: penstock.Table, stop: threading.Event) -> None:
    """Move money at random until told to stop."""
    dice = random.Random(1)
    balance = dict.fromkeys(ACCOUNTS, START)
    while not stop.is_set():
        giver, taker = dice.sample(ACCOUNTS, 2)
        amount = dice.randint(0, balance[giver] // 4)
        balance[giver] -= amount
        balance[taker] += amount
        accounts.upsert([{"name": name, "balance": balance[name]} for name in (giver, taker)])


def show(accounts: penstock.Table) -> int:
    """Print the accounts as bars, from one consistent scan; return their total."""
    rows = accounts.scan().to_arrow().sort_by("name").to_pylist()
    for row in rows:
        print(f"{row['name']:<5} {'█' * (row['balance'] // 60)} {row['balance']}")
    total = sum(row["balance"] for row in rows)
    print(f"total {total}\n")
    return total


def main(directory: str) -> None:
    with penstock.connect(directory) as conn:
        accounts = conn.create_table("accounts", "name STRING, balance BIGINT, PRIMARY KEY (name)", buckets=3)
        accounts.upsert([{"name": name, "balance": START} for name in ACCOUNTS])
        stop = threading.Event()
        writer = threading.Thread(target=move_money, args=(accounts, stop))
        writer.start()
        try:
            seen = {show(accounts) for _ in range(POLLS) if not stop.wait(0.05)}
        finally:
            stop.set()
            writer.join()
    print("every scan saw the same total" if seen == {START * len(ACCOUNTS)} else f"totals differ: {seen}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as fresh:
        main(sys.argv[1] if len(sys.argv) > 1 else fresh)
