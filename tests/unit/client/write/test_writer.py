from __future__ import annotations

import threading
from collections.abc import Callable

import pyarrow as pa
import pytest
from tests.kit.client_node import ClientNode
from tests.kit.waiting import wait_until

from penstock.client.link.link import Link
from penstock.client.table import Table
from penstock.client.write.writer import QUEUE_BATCHES_MAX
from penstock.errors import ClosedError, InvalidError, LockedError, SchemaMismatchError, UnavailableError
from penstock.model.node.calls import Operation

NEVER_MS = 3_600_000
MakeTable = Callable[..., Table]


def test_rows_are_sent_together_when_flushed(make_table: MakeTable, node: ClientNode) -> None:
    with make_table().writer(linger_ms=NEVER_MS) as writer:
        for n in range(10):
            writer.upsert({"id": n, "v": str(n)})
        writer.flush()

        assert [call.batch.num_rows for call in node.writes] == [10]
        assert writer.acknowledged_rows == 10


def test_a_full_batch_is_sent_without_a_flush(make_table: MakeTable, node: ClientNode) -> None:
    with make_table().writer(linger_ms=NEVER_MS, batch_rows=3) as writer:
        writer.upsert([{"id": n, "v": "x"} for n in range(3)])
        writer.upsert({"id": 9, "v": "x"})
        writer.flush()

    assert [call.batch.num_rows for call in node.writes] == [3, 1]


def test_a_batch_is_also_bounded_in_bytes(make_table: MakeTable, node: ClientNode) -> None:
    with make_table().writer(linger_ms=NEVER_MS, batch_bytes="1KB") as writer:
        for n in range(3):
            writer.upsert([{"id": n, "v": "x" * 2_000}])

    assert len(node.writes) == 3


def test_a_lingering_batch_is_sent_by_itself(make_table: MakeTable, node: ClientNode) -> None:
    writer = make_table().writer(linger_ms=1)
    writer.upsert({"id": 1, "v": "x"})

    wait_until(lambda: writer.acknowledged_rows == 1)
    writer.close()


def test_order_is_kept_between_upserts_and_deletes(make_table: MakeTable, node: ClientNode) -> None:
    table = make_table()

    with table.writer(linger_ms=NEVER_MS) as writer:
        writer.upsert({"id": 1, "v": "a"})
        writer.delete([1])
        writer.upsert([{"id": 1, "v": "b"}])
        writer.upsert({"id": 1, "v": "c"})
        writer.delete({"id": 2})

    assert [call.operation for call in node.writes] == [
        Operation.UPSERT,
        Operation.DELETE,
        Operation.UPSERT,
        Operation.UPSERT,
        Operation.DELETE,
    ]
    assert table.get(id=1) == {"id": 1, "v": "c"}


def test_each_call_has_the_next_sequence_of_one_writer(make_table: MakeTable, node: ClientNode) -> None:
    with make_table().writer(batch_rows=1) as writer:
        for n in range(5):
            writer.upsert([{"id": n, "v": "x"}])

    assert [call.sequence for call in node.writes] == list(range(5))
    assert len({call.writer_id for call in node.writes}) == 1


def test_a_lost_reply_is_asked_for_again_and_applied_once(make_table: MakeTable, node: ClientNode) -> None:
    table = make_table()
    node.rules.lose("tables.write", UnavailableError("lost"), UnavailableError("lost"))

    with table.writer() as writer:
        writer.upsert({"id": 1, "v": "x"})

    assert node.calls.count("tables.write") == 3
    assert sum(offsets.end for offsets in table.offsets().values()) == 1


def test_flush_raises_the_first_cause_and_later_calls_raise_it_again(make_table: MakeTable, node: ClientNode) -> None:
    cause = LockedError("an owner holds the column", holder="job-7")
    node.rules.refuse("tables.write", cause)
    table = make_table()
    writer = table.writer(batch_rows=1)
    writer.upsert([{"id": 1, "v": "x"}])

    for attempt in (
        writer.flush,
        writer.flush,
        lambda: writer.upsert([{"id": 2, "v": "y"}]),
        lambda: writer.delete([2]),
        writer.close,
    ):
        with pytest.raises(LockedError, match="holder=job-7"):
            attempt()
    writer.close()
    assert table.scan().to_arrow().num_rows == 0


def test_data_that_does_not_fit_is_refused_at_once_and_the_writer_goes_on(
    make_table: MakeTable, node: ClientNode
) -> None:
    with make_table().writer(linger_ms=NEVER_MS) as writer:
        with pytest.raises(SchemaMismatchError, match="column=nope"):
            writer.upsert([{"id": 1, "nope": "x"}])
        writer.upsert([{"id": 1, "v": "x"}])

    assert [call.batch.num_rows for call in node.writes] == [1]


def test_a_single_row_that_does_not_fit_is_told_by_flush(make_table: MakeTable) -> None:
    writer = make_table().writer(linger_ms=NEVER_MS)
    writer.upsert({"id": 1, "v": "x"})
    writer.upsert({"id": "one", "v": "x"})

    with pytest.raises(SchemaMismatchError, match="column=id row=1"):
        writer.flush()


def test_a_slow_node_holds_the_caller_back(make_table: MakeTable, node: ClientNode) -> None:
    go = threading.Event()
    node.rules.at("tables.write", lambda: go.wait(30))
    writer = make_table().writer(batch_rows=1)
    taken = []

    def produce() -> None:
        for n in range(QUEUE_BATCHES_MAX + 5):
            writer.upsert([{"id": n, "v": "x"}])
            taken.append(n)

    producer = threading.Thread(target=produce, daemon=True)
    producer.start()
    producer.join(0.2)
    assert len(taken) <= QUEUE_BATCHES_MAX + 1
    go.set()
    producer.join(30)
    writer.close()
    assert len(node.writes) == QUEUE_BATCHES_MAX + 5


def test_many_threads_may_share_a_writer(make_table: MakeTable, node: ClientNode) -> None:
    table = make_table()

    def produce(worker: int) -> None:
        for n in range(100):
            writer.upsert({"id": worker * 1_000 + n, "v": "x"})

    with table.writer(batch_rows=7) as writer:
        workers = [threading.Thread(target=produce, args=(worker,)) for worker in range(4)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join(30)

    assert table.scan().to_arrow().num_rows == 400


def test_a_closed_writer_says_so(make_table: MakeTable) -> None:
    writer = make_table().writer()
    writer.close()
    writer.close()

    with pytest.raises(ClosedError, match="the writer is closed; open another table=shop"):
        writer.upsert({"id": 1, "v": "x"})
    assert "closed" in repr(writer)


def test_a_writer_of_a_closed_connection_says_so(make_table: MakeTable, link: Link) -> None:
    writer = make_table().writer(linger_ms=NEVER_MS)
    link.close()

    with pytest.raises(ClosedError, match="the connection is closed"):
        writer.upsert({"id": 1, "v": "x"})


def test_leaving_the_block_with_an_error_keeps_that_error(make_table: MakeTable, node: ClientNode) -> None:
    node.rules.refuse("tables.write", LockedError("held"))

    def use() -> None:
        with make_table().writer(batch_rows=1) as writer:
            writer.upsert([{"id": 1, "v": "x"}])
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        use()


def test_appends_go_to_log_tables(make_table: MakeTable, node: ClientNode) -> None:
    with make_table("a INT, b STRING").writer() as writer:
        writer.append(pa.table({"a": pa.array([1, 2], pa.int32()), "b": ["x", "y"]}))
        writer.append({"a": 3, "b": "z"})

    assert sum(call.batch.num_rows for call in node.writes) == 3


def test_bounds_are_checked(make_table: MakeTable) -> None:
    table = make_table()
    with pytest.raises(InvalidError, match="positive numbers batch_rows=0"):
        table.writer(batch_rows=0)
    with pytest.raises(InvalidError, match="a size is"):
        table.writer(batch_bytes="lots")
