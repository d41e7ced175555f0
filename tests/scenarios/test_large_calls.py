"""Calls larger than one message to a server: applied whole, up to `call.max-bytes`, embedded as well as served."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import penstock
from penstock.errors import LimitError
from penstock.model.node.calls import Operation, WriteCall
from penstock.testing.server import ServerProcess

Connect = Callable[..., penstock.Connection]
SMALL = {"request__max_bytes": "16KB", "call__max_bytes": "4MB"}
ROWS = 40_000


def rows(count: int = ROWS, start: int = 0, note: str = "note") -> pa.Table:
    ids = range(start, start + count)
    columns = [pa.array(ids, pa.int64()), pa.array([f"{note} {n}" for n in ids])]
    return pa.table(columns, schema=pa.schema([pa.field("id", pa.int64(), nullable=False), ("note", pa.string())]))


def keyed(connection: penstock.Connection, **options: Any) -> penstock.Table:
    return connection.create_table("t", "id BIGINT PRIMARY KEY, note STRING", **{"buckets": 3, **options})


def same(table: penstock.Table, expected: pa.Table) -> bool:
    return bool(table.scan().to_arrow().sort_by("id").equals(expected))


def test_every_verb_takes_more_than_a_message(connect: Connect) -> None:
    connection = connect(**SMALL)
    t = keyed(connection)

    result = t.upsert(rows())
    assert (result.rows, sum(end - start for start, end in result.offsets.values())) == (ROWS, ROWS)
    assert same(t, rows())
    changes = rows(note="changed").append_column("_change_type", pa.array(["+U"] * ROWS))
    assert t.apply_changes(changes).rows == ROWS
    assert same(t, rows(note="changed"))
    assert t.upsert(rows(note="partly"), columns=["note"]).changes == ROWS
    assert t.delete(rows().select(["id"]).slice(100)).changes == ROWS - 100
    assert same(t, rows(100, note="partly"))

    log = connection.create_table("log", "id BIGINT, note STRING")
    assert log.append(rows()).rows == ROWS
    assert log.scan().to_arrow().num_rows == ROWS


def test_owner_writes_and_stages_more_than_a_message(connect: Connect) -> None:
    t = keyed(connect(**SMALL))
    owner, attempt = t.acquire_owner("job"), uuid.uuid4()
    owner.begin(1)
    t.upsert(rows(), owner=owner)
    owner.undo()
    assert t.scan().to_arrow().num_rows == 0

    owner.begin(2)
    assert t.stage(rows(), owner=owner.token(2), attempt=attempt).rows == ROWS
    assert t.scan().to_arrow().num_rows == 0
    owner.commit(2, attempts={attempt: ROWS})
    assert same(t, rows())


def test_row_larger_than_a_message_is_written(connect: Connect) -> None:
    t = keyed(connect(**SMALL))
    t.upsert([{"id": 1, "note": "x" * 1_000_000}])

    assert t.get(id=1) == {"id": 1, "note": "x" * 1_000_000}


def test_call_above_the_limit_is_refused_whole_and_names_the_writer(connect: Connect) -> None:
    t = keyed(connect(request__max_bytes="16KB", call__max_bytes="500KB"))

    with pytest.raises(LimitError, match=r"larger than call\.max-bytes.*writer\(\)"):
        t.upsert(rows())
    assert t.scan().to_arrow().num_rows == 0
    assert t.upsert(rows(10_000)).rows == 10_000


def test_writer_splits_what_is_larger_than_any_call(connect: Connect) -> None:
    t = keyed(connect(request__max_bytes="64KB", call__max_bytes="33MB"))
    wide = "y" * 1_000_000
    with t.writer() as writer:
        writer.upsert({"id": list(range(36)), "note": [wide] * 36})
        writer.delete({"id": 7})
    assert writer.acknowledged_rows == 37
    with t.writer(batch_rows=100) as writer:
        for number in range(36, 72):
            writer.upsert({"id": number, "note": wide})

    assert sorted(t.scan(columns=["id"]).to_arrow()["id"].to_pylist()) == [n for n in range(72) if n != 7]


def test_lookup_takes_more_keys_than_a_message(connect: Connect) -> None:
    t = keyed(connect(**SMALL))
    t.upsert(rows())
    found = t.lookup(rows().select(["id"]))

    assert found.drop_columns(["_found"]).equals(rows())
    assert found["_found"].to_pylist() == [True] * ROWS


def test_large_call_whose_answer_was_lost_is_applied_once(connect: Connect) -> None:
    connection = connect(**SMALL)
    t = keyed(connection)
    batch = rows().combine_chunks().to_batches()[0]
    call = WriteCall(t.info.table_id, t.info.schema_id, Operation.UPSERT, batch, writer_id=b"w" * 16, sequence=0)
    first = connection._link.node.tables.write(call)

    assert connection._link.node.tables.write(call) == first
    assert sum(offsets.end for offsets in t.offsets().values()) == ROWS


def test_two_clients_with_large_calls_take_turns_where_there_is_room_for_one(tmp_path: Path) -> None:
    settings = {"request.max-bytes": "16KB", "call.max-bytes": "1600KB"}
    with penstock.serve(tmp_path / "data", settings=settings) as server, penstock.connect(server.url) as first:
        t = keyed(first)

        def write(turn: int) -> None:
            with penstock.connect(server.url) as mine:
                mine.table("t").upsert(rows(ROWS, turn * ROWS))

        threads = [threading.Thread(target=write, args=(turn,)) for turn in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert same(t, rows(4 * ROWS))
        assert server.admission.counts()["bytes"] == 0


def test_large_call_survives_a_crash_of_its_server(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data", settings={"request.max-bytes": "4KB"}) as process:
        connection = penstock.connect(process.url)
        t = connection.create_table("t", "id BIGINT PRIMARY KEY, note STRING")
        t.upsert(rows(10))
        stop = threading.Event()

        def disturb() -> None:
            stop.wait(0.1)
            process.restart()

        thread = threading.Thread(target=disturb)
        thread.start()
        try:
            for turn in range(4):
                assert t.upsert(rows(note=f"turn {turn}")).rows == ROWS
        finally:
            thread.join()

        assert same(t, rows(note="turn 3"))
        # Each call made each change once, however often it was sent.
        assert sum(offsets.end for offsets in t.offsets().values()) == 10 + 4 * ROWS
        connection.close()
