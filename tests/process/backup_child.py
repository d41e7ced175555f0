"""A process that backs up a server and says how far it is; to be killed."""

from __future__ import annotations

import sys

import penstock


def main(url: str, target: str) -> None:
    def say(done: int, total: int) -> None:
        sys.stdout.write(f"{done} {total}\n")
        sys.stdout.flush()

    with penstock.connect(url) as connection:
        made = connection.backup(target, progress=say)
    sys.stdout.write(f"made {made.bytes_copied}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
