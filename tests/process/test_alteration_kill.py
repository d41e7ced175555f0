"""Kill a server around alterations of a table that is written all the while: catalog and rows agree afterwards."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from random import Random
from typing import Any

import penstock
from penstock.errors import AlreadyExistsError, InvalidError, PenstockError
from penstock.testing.server import ServerProcess

KILLS = 8
DDL = "id BIGINT, n INT, v STRING, PRIMARY KEY (id)"


class Producer(threading.Thread):
    """Writes by a handle that was opened once; remembers what was acknowledged."""

    def __init__(self, table: penstock.Table) -> None:
        super().__init__(daemon=True)
        self.table = table
        self.written: dict[int, int] = {}
        self.failure: BaseException | None = None
        self.ended = threading.Event()

    def run(self) -> None:
        """Write until told to end."""
        number = 0
        try:
            while not self.ended.is_set():
                number += 1
                self.table.upsert([{"id": number % 50, "n": number, "v": f"v{number}"}])
                self.written[number % 50] = number
        except BaseException as error:  # noqa: BLE001 - the test looks at it
            self.failure = error


def alterations(turn: int) -> list[tuple[str, Any]]:
    """Return what is done to the table in a turn, each once: a name of its own tells whether it was."""
    name = "v" if turn == 0 else f"v{turn - 1}"
    return [
        (f"add x{turn}", lambda table: table.add_column(f"x{turn}", "INT", default=turn)),
        (f"rename v{turn}", lambda table: table.rename_column(name, f"v{turn}")),
        (f"widen x{turn}", lambda table: table.widen_column(f"x{turn}", "BIGINT")),
        *([(f"drop x{turn - 1}", lambda table: table.drop_column(f"x{turn - 1}"))] if turn else []),
    ]


def insist(connection: penstock.Connection, alter: Any) -> None:
    """Make an alteration whose answers may be lost: one that was made says so when it is asked for again."""
    deadline = time.monotonic() + 60
    while True:
        try:
            alter(connection.table("shop.t"))
        except (AlreadyExistsError, InvalidError):
            return
        except PenstockError as error:
            if not error.retriable or time.monotonic() > deadline:
                raise
        else:
            return


def test_catalog_and_rows_agree_after_kills_around_alterations(tmp_path: Path) -> None:
    seed = 11
    print(f"seed={seed}")
    random = Random(seed)
    with ServerProcess(tmp_path / "data") as server, penstock.connect(server.url) as connection:
        connection.create_database("shop")
        table = connection.create_table("shop.t", DDL, buckets=2)
        producer = Producer(table)
        producer.start()
        for turn in range(KILLS):
            steps = alterations(turn)
            fatal = random.randrange(len(steps))
            for place, (_, alter) in enumerate(steps):
                if place == fatal:
                    calling = threading.Thread(target=insist, args=(connection, alter))
                    calling.start()
                    calling.join(random.random() * 0.02)
                    server.kill()
                    server.start()
                    calling.join()
                else:
                    insist(connection, alter)
            info = connection.table("shop.t").info
            assert info.schema.names == ["id", "n", f"v{turn}", f"x{turn}"], (turn, info.schema)
            assert str(info.schema.column(f"x{turn}").type) == "int64"
            seen = connection.table("shop.t").scan().to_arrow().to_pylist()
            assert {row[f"x{turn}"] for row in seen} <= {turn}
            acknowledged = dict(producer.written)
            found = {row["id"]: row["n"] for row in connection.table("shop.t").scan().to_arrow().to_pylist()}
            assert all(found[key] >= number for key, number in acknowledged.items())
        producer.ended.set()
        producer.join()
        assert producer.failure is None, producer.failure
        rows = connection.table("shop.t").scan().to_arrow().to_pylist()
        assert {row["id"]: row["n"] for row in rows} == producer.written
        assert {row["id"]: row[f"v{KILLS - 1}"] for row in rows} == {k: f"v{n}" for k, n in producer.written.items()}
        folded: dict[int, dict[str, Any] | None] = {}
        for batch in connection.table("shop.t").changes():
            for row in batch.to_pylist():
                image = {name: value for name, value in row.items() if not name.startswith("_")}
                if row["_change_type"] in {"-U", "-D"}:
                    assert folded[row["id"]] == image
                else:
                    folded[row["id"]] = image
        assert [folded[row["id"]] for row in rows] == rows
