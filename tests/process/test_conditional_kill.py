"""Counters that many threads increment by compare-and-set, while the server is killed under them."""

from __future__ import annotations

import threading
from pathlib import Path

import penstock
from penstock.errors import ConflictError
from penstock.testing.server import ServerProcess

DDL = "id BIGINT, n BIGINT, PRIMARY KEY (id)"
WORKERS = 4
TIMES = 60
KILLS = 4


def increment(table: penstock.Table, times: int, done: list[int]) -> None:
    """Add 1 so many times; every change of the key adds 1, so its number is the offset of the next one."""
    number = 0
    while times:
        try:
            table.upsert([{"id": 1, "n": number + 1}], expect=[number - 1 if number else None])
        except ConflictError:
            row = table.get(id=1)
            number = 0 if row is None else row["n"]
        else:
            number, times = number + 1, times - 1
            done.append(number)


def test_counters_are_exact_across_kills_of_the_server(tmp_path: Path) -> None:
    done: list[int] = []
    with ServerProcess(tmp_path / "data") as server, penstock.connect(server.url) as connection:
        table = connection.create_table("t", DDL)
        workers = [threading.Thread(target=increment, args=(table, TIMES, done)) for _ in range(WORKERS)]
        for worker in workers:
            worker.start()
        for kill in range(1, KILLS + 1):
            while len(done) < kill * WORKERS * TIMES // (KILLS + 1) and any(w.is_alive() for w in workers):
                workers[0].join(0.005)
            server.restart()
        for worker in workers:
            worker.join()

        assert table.get(id=1) == {"id": 1, "n": WORKERS * TIMES}
        assert sorted(done) == list(range(1, WORKERS * TIMES + 1))
        assert table.offsets().popitem()[1].end == WORKERS * TIMES
