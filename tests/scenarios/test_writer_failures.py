"""Blocks with a writer that fail: what is written then, and which error is seen."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

import penstock
from penstock.client.write.writer import Writer
from penstock.errors import ClosedError, ConflictError, SchemaMismatchError


@pytest.fixture
def t(connection: penstock.Connection) -> penstock.Table:
    return connection.create_table("shop.t", "id BIGINT PRIMARY KEY, n INT")


def ids(table: penstock.Table) -> list[int]:
    return sorted(table.scan().to_arrow()["id"].to_pylist())


def break_off(writer: Writer, *rows: dict[str, Any]) -> KeyError:
    """Raise in a block after some rows; return the error that came out of it."""
    mine = KeyError("mine")

    def block() -> None:
        with writer:
            for row in rows:
                writer.upsert(row)
            raise mine

    with pytest.raises(KeyError) as caught:
        block()
    assert caught.value is mine
    return mine


def test_block_that_raises_has_written_what_the_writer_had_taken(t: penstock.Table) -> None:
    writer = t.writer(batch_rows=2, linger_ms=60_000)
    error = break_off(writer, *({"id": number, "n": 1} for number in range(5)))

    assert ids(t) == [0, 1, 2, 3, 4]
    assert writer.acknowledged_rows == 5
    assert getattr(error, "__notes__", []) == []
    with pytest.raises(ClosedError, match="open another"):
        writer.upsert({"id": 9, "n": 1})


def test_data_refused_at_once_leaves_the_writer_at_work(t: penstock.Table) -> None:
    with t.writer() as writer:
        writer.upsert({"id": [1], "n": [1]})
        with pytest.raises(SchemaMismatchError):
            writer.upsert({"id": [2], "n": ["x"]})
        writer.upsert({"id": [3], "n": [1]})

    assert ids(t) == [1, 3]


def test_flush_that_raises_has_written_the_batches_before_and_none_after(t: penstock.Table) -> None:
    writer = t.writer(batch_rows=1, linger_ms=60_000)
    writer.upsert({"id": 1, "n": 1})
    writer.flush()
    writer.upsert({"id": 2, "n": "x"})
    with pytest.raises(SchemaMismatchError) as first:
        writer.flush()
    for call in (writer.flush, lambda: writer.upsert({"id": 3, "n": 1}), writer.close):
        with pytest.raises(SchemaMismatchError) as again:
            call()
        assert again.value is first.value
    writer.close()

    assert (ids(t), writer.acknowledged_rows) == ([1], 1)


def test_leaving_a_block_raises_what_was_not_flushed(t: penstock.Table) -> None:
    def write() -> None:
        with t.writer(linger_ms=60_000) as writer:
            writer.upsert({"id": 1, "n": 1})
            writer.flush()
            writer.upsert({"id": 2, "n": "x"})

    with pytest.raises(SchemaMismatchError):
        write()
    assert ids(t) == [1]


def test_block_that_raises_tells_that_the_writer_failed_too(t: penstock.Table) -> None:
    error = break_off(t.writer(linger_ms=60_000), {"id": 2, "n": "x"})

    assert ids(t) == []
    (note,) = error.__notes__
    assert note.startswith("the writer of shop.t failed, too: ")


def test_block_that_raises_does_not_end_its_attempt(t: penstock.Table) -> None:
    owner, attempt = t.acquire_owner("job"), uuid.uuid4()
    owner.begin(1)
    writer = t.writer(owner=owner.token(1), attempt=attempt)
    break_off(writer, {"id": 1, "n": 1})
    assert writer.attempt_end is None
    assert ids(t) == [1]
    with pytest.raises(ConflictError):
        owner.commit(1, attempts={attempt: 1})

    again = uuid.uuid4()
    with t.writer(owner=owner.token(1), attempt=again) as writer:
        writer.upsert({"id": 2, "n": 1})
    owner.commit(1, attempts={again: 1})
    assert ids(t) == [2]
