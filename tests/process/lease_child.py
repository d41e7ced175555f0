"""A process that takes and gives back leases as fast as it can, and says what was acknowledged; to be killed."""

from __future__ import annotations

import json
import sys
from random import Random
from typing import Any

import penstock
from penstock.errors import LeaseNotFoundError

ROWS = 20


def say(word: str, **facts: Any) -> None:
    sys.stdout.write(json.dumps({"word": word, **facts}) + "\n")
    sys.stdout.flush()


def main(directory: str, seed: int) -> None:
    random = Random(seed)
    settings = {"kv.snapshot.interval": "1h"}
    with penstock.connect(directory, settings=settings) as connection:
        table = connection.create_table(
            "t",
            "id BIGINT, v BIGINT, PRIMARY KEY (id)",
            properties={"log.retention": "1ms"},
            if_not_exists=True,
        )
        while True:
            value = next(iter(table.cut().values())) // ROWS + 1
            table.upsert([{"id": i, "v": value} for i in range(ROWS)])
            if random.random() < 0.5:
                table.create_snapshot()
            lease_id = random.choice("abcde")
            operation = random.choice(("latest", "cut", "renew", "release", "drop"))
            say("begin", operation=operation, lease=lease_id)
            offset = None
            try:
                match operation:
                    case "latest" | "cut":
                        what = table.latest_snapshots if operation == "latest" else table.cut()
                        lease = connection.acquire_lease(lease_id, what, duration="1h")
                        offset = next(iter(lease.snapshots.values())).offset
                    case "renew":
                        connection.lease(lease_id).renew("2h")
                    case "release":
                        connection.lease(lease_id).release(list(table.cut()))
                    case _:
                        connection.lease(lease_id).drop()
            except LeaseNotFoundError:
                operation = "none"
            say("done", operation=operation, lease=lease_id, offset=offset)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
