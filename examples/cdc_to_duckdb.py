"""Change data capture into DuckDB: a snapshot, then every change, in step with where the copy stands.

    python examples/cdc_to_duckdb.py [directory]

The stream's position is stored in the same transaction as the rows, so the copy may stop anywhere, crash
included, and goes on without missing or repeating a change.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import duckdb

import penstock

# The last change of each key decides; of the two rows of an update, the one after it.
LAST = "SELECT * FROM changes QUALIFY row_number() OVER (PARTITION BY id ORDER BY _offset DESC, _change_type) = 1"


def follow(orders: penstock.Table, file: Path) -> int:
    """Bring the copy up to date; return how many batches that took."""
    batches = 0
    with duckdb.connect(str(file)) as copy:
        copy.execute("CREATE TABLE IF NOT EXISTS orders (id BIGINT PRIMARY KEY, city VARCHAR, amount BIGINT)")
        copy.execute("CREATE TABLE IF NOT EXISTS progress (position VARCHAR)")
        known = copy.execute("SELECT position FROM progress").fetchall()
        stream = (
            orders.snapshot_and_follow(timeout="200ms")
            if not known
            else orders.changes(start=known[0][0], follow=True, timeout="200ms")
        )
        for batch in stream:
            copy.register("changes", batch)
            copy.execute("BEGIN")
            copy.execute(f"DELETE FROM orders WHERE id IN (SELECT id FROM ({LAST}) WHERE _change_type = '-D')")
            copy.execute(
                f"INSERT OR REPLACE INTO orders SELECT id, city, amount FROM ({LAST}) WHERE _change_type <> '-D'"
            )
            copy.execute("DELETE FROM progress")
            copy.execute("INSERT INTO progress VALUES (?)", [stream.position])
            copy.execute("COMMIT")
            batches += 1
    return batches


def is_same(orders: penstock.Table, file: Path) -> bool:
    """Tell whether the copy holds the same rows as the table."""
    with duckdb.connect(str(file)) as copy:
        copied = copy.execute("SELECT id, city, amount FROM orders ORDER BY id").fetchall()
    return copied == [tuple(row.values()) for row in orders.scan().to_arrow().sort_by("id").to_pylist()]


def main(directory: str) -> None:
    copy = Path(directory) / "copy.duckdb"
    with penstock.connect(Path(directory) / "data") as conn:
        orders = conn.create_table("orders", "id BIGINT, city STRING, amount BIGINT, PRIMARY KEY (id)", buckets=4)
        orders.upsert([{"id": n, "city": "Ulm", "amount": n} for n in range(10_000)])
        follow(orders, copy)
        print("after the snapshot:", "same" if is_same(orders, copy) else "DIFFERENT")

        orders.upsert([{"id": n, "city": "Bonn", "amount": 0} for n in range(9_000, 11_000)])
        orders.delete(list(range(0, 10_000, 7)))
        orders.upsert([{"id": 7, "city": "Kiel", "amount": 1}])
        follow(orders, copy)
        print("after the changes:", "same" if is_same(orders, copy) else "DIFFERENT")
        print("nothing is left to do:", follow(orders, copy) == 0)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as fresh:
        main(sys.argv[1] if len(sys.argv) > 1 else fresh)
