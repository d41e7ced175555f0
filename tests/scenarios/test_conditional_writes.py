"""Compare-and-set: a write that is made only if the rows are still those that were read."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, date, datetime
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from tests.kit.live_offsets import live_offsets
from tests.kit.lossy_node import LossyNode

import penstock
from penstock.errors import ConflictError, DeleteDisabledError, InvalidError, LockedError, UnsupportedError
from penstock.model.node.calls import Operation, WriteCall

Connect = Callable[..., penstock.Connection]
DDL = "id BIGINT, n BIGINT, PRIMARY KEY (id)"


@pytest.fixture
def counters(connection: penstock.Connection) -> penstock.Table:
    return connection.create_table("shop.counters", DDL, buckets=4)


def contents(table: penstock.Table) -> dict[int, int]:
    return {row["id"]: row["n"] for row in table.scan().to_arrow().to_pylist()}


def conflict(call: Callable[[], object]) -> list[dict[str, Any]]:
    with pytest.raises(ConflictError) as caught:
        call()
    assert type(caught.value) is ConflictError
    keys: list[dict[str, Any]] = caught.value.keys
    assert caught.value.facts["conflicts"] >= len(keys)
    return keys


def test_rows_are_written_if_they_are_those_expected(counters: penstock.Table) -> None:
    made = counters.upsert([{"id": n, "n": 0} for n in range(10)], expect=[None] * 10)
    offsets = live_offsets(counters)

    changed = counters.upsert([{"id": n, "n": 1} for n in range(20)], expect=[offsets.get((n,)) for n in range(20)])

    assert (made.rows, made.changes, made.ignored) == (10, 10, 0)
    assert (changed.rows, changed.changes, changed.ignored) == (20, 20, 0)
    assert contents(counters) == dict.fromkeys(range(20), 1)


def test_one_other_row_anywhere_refuses_the_whole_call_and_is_named_in_its_order(counters: penstock.Table) -> None:
    counters.upsert([{"id": n, "n": 0} for n in range(10)])
    offsets = live_offsets(counters)
    counters.upsert([{"id": 7, "n": 5}, {"id": 2, "n": 5}])
    before, end = contents(counters), counters.cut()

    rows = [{"id": n, "n": 9} for n in range(11, -1, -1)]
    keys = conflict(lambda: counters.upsert(rows, expect=[offsets.get((row["id"],), 3) for row in rows]))

    assert keys == [{"id": 11}, {"id": 10}, {"id": 7}, {"id": 2}]
    assert contents(counters) == before
    assert counters.cut() == end


def test_a_key_that_is_there_is_not_absent(counters: penstock.Table) -> None:
    counters.upsert([{"id": 1, "n": 0}])

    assert conflict(lambda: counters.upsert([{"id": 1, "n": 1}, {"id": 2, "n": 1}], expect=[None, None])) == [{"id": 1}]
    assert contents(counters) == {1: 0}


def test_a_row_that_was_deleted_and_written_again_is_another_one(counters: penstock.Table) -> None:
    counters.upsert([{"id": 1, "n": 0}])
    offset = live_offsets(counters)[1,]
    counters.delete([1])
    assert conflict(lambda: counters.upsert([{"id": 1, "n": 1}], expect=[offset])) == [{"id": 1}]
    counters.upsert([{"id": 1, "n": 0}])

    assert conflict(lambda: counters.upsert([{"id": 1, "n": 1}], expect=[offset])) == [{"id": 1}]
    counters.truncate()
    counters.upsert([{"id": 1, "n": 1}], expect=[None])


def test_deletes_and_partial_updates_expect_rows_too(counters: penstock.Table) -> None:
    counters.upsert([{"id": n, "n": n} for n in range(4)])
    offsets = live_offsets(counters)

    counters.upsert([{"id": 1, "n": 7}], columns=["n"], expect=[offsets[1,]])
    assert conflict(lambda: counters.delete([0, 1], expect=[offsets[0,], offsets[1,]])) == [{"id": 1}]
    gone = counters.delete([0, 9], expect=[offsets[0,], None])
    cleared = counters.delete([2], columns=["n"], expect=[offsets[2,]])

    assert (gone.rows, gone.changes, gone.ignored) == (2, 1, 1)
    assert cleared.changes == 1  # nothing is left of the row
    assert contents(counters) == {1: 7, 3: 3}


@pytest.mark.parametrize(
    "given",
    [
        pytest.param(lambda o: [o, None], id="list"),
        pytest.param(lambda o: (np.int64(o), None), id="tuple of numpy numbers"),
        pytest.param(lambda o: pa.array([o, None], pa.int64()), id="arrow"),
        pytest.param(lambda o: pa.chunked_array([[o], [None]], pa.int64()), id="chunks"),
        pytest.param(lambda o: pa.array([o, None], pa.uint32()), id="narrower"),
        pytest.param(lambda o: np.array([o, None], object), id="numpy objects"),
        pytest.param(lambda o: np.array([float(o), float("nan")]), id="numpy doubles"),
        pytest.param(lambda o: np.ma.masked_array([o, 0], [False, True]), id="numpy mask"),
        pytest.param(lambda o: pd.Series([o, None]), id="pandas doubles"),
        pytest.param(lambda o: pd.Series([o, None], dtype="Int64"), id="pandas whole numbers"),
        pytest.param(lambda o: pd.Series([o, pd.NA], dtype=object), id="pandas objects"),
        pytest.param(lambda o: pl.Series([o, None]), id="polars"),
    ],
)
def test_offsets_come_in_every_form(given: Callable[[int], Any], counters: penstock.Table) -> None:
    counters.upsert([{"id": n, "n": 0} for n in range(20)])
    key, offset = max(live_offsets(counters).items(), key=lambda item: item[1])

    counters.upsert([{"id": key[0], "n": 1}, {"id": 77, "n": 1}], expect=given(offset))

    assert contents(counters)[77] == contents(counters)[key[0]] == 1


@pytest.mark.parametrize(
    ("given", "word"),
    [
        ([0], "one offset for each row"),
        ([0, 0, 0], "one offset for each row"),
        ([-1, None], "never negative"),
        (np.array([-5, 0]), "never negative"),
        ([True, None], "row=0 value=True"),
        (np.array([True, False]), "type=bool"),
        ([0, 1.0], "row=1 value=1.0"),
        (["0", None], "value='0'"),
        (pd.Series([0.5, 1.0]), "one offset, or None"),
        (np.array([2.0**60, 0.0]), "lost digits"),
        ([1 << 70, None], "63 bits"),
        (0, "type=int"),
        ("01", "type=str"),
        (np.array([[1, 2]]), "type=ndarray"),
        (pd.DataFrame({"a": [1, 2]}), "type=DataFrame"),
    ],
)
def test_offsets_that_make_no_sense_are_refused(given: Any, word: str, counters: penstock.Table) -> None:
    with pytest.raises(InvalidError, match=word):
        counters.upsert([{"id": 1, "n": 1}, {"id": 2, "n": 1}], expect=given)
    assert contents(counters) == {}


def test_a_key_comes_once_where_something_is_expected(counters: penstock.Table) -> None:
    rows = [{"id": n, "n": 1} for n in (1, 5, 2, 5, 1, 5)]

    with pytest.raises(InvalidError) as caught:
        counters.upsert(rows, expect=[None] * 6)
    assert caught.value.keys == [{"id": 5}, {"id": 1}]  # type: ignore[attr-defined]
    with pytest.raises(InvalidError, match="each key comes once"):
        counters.delete([8, 8], expect=[None, None])
    assert contents(counters) == {}


def test_owners_writers_and_log_tables_expect_nothing(connection: penstock.Connection) -> None:
    table = connection.create_table("shop.a", DDL)
    log = connection.create_table("shop.log", "id BIGINT, n BIGINT")
    rows = [{"id": 1, "n": 1}]

    with table.acquire_owner("job") as owner:
        for write in (table.upsert, table.delete):
            with pytest.raises(UnsupportedError, match="owner="):
                write(rows if write == table.upsert else [1], owner=owner, expect=[None])
    with table.writer() as writer:
        with pytest.raises(UnsupportedError, match="writer"):
            writer.upsert(rows, expect=[None])  # type: ignore[arg-type]
        with pytest.raises(UnsupportedError, match="writer"):
            writer.delete([1], expect=[None])  # type: ignore[arg-type]
    with pytest.raises(UnsupportedError, match="primary key"):
        log.upsert(rows, expect=[None])
    assert contents(table) == {}


def test_rows_of_a_scan_with_offsets_are_not_taken_for_a_condition(counters: penstock.Table) -> None:
    with pytest.raises(InvalidError, match="_offset"):
        counters.upsert([{"id": 1, "n": 1, "_offset": 5}])


def test_the_condition_comes_before_the_merge_rule(connection: penstock.Connection) -> None:
    first = connection.create_table("shop.first", DDL, merge_engine="first_row")
    newest = connection.create_table("shop.newest", DDL, merge_engine="versioned", version_column="n")
    sums = connection.create_table("shop.sums", "id BIGINT, n BIGINT SUM, PRIMARY KEY (id)", merge_engine="aggregate")
    for table in (first, newest, sums):
        assert table.upsert([{"id": 1, "n": 5}], expect=[None]).changes == 1
        assert conflict(partial(table.upsert, [{"id": 1, "n": 9}], expect=[None])) == [{"id": 1}]

    kept = first.upsert([{"id": 1, "n": 9}], expect=[0])
    lost = newest.upsert([{"id": 1, "n": 4}], expect=[0])
    same = sums.upsert([{"id": 1, "n": 0}], expect=[0])
    more = sums.upsert([{"id": 1, "n": 2}], expect=[0])

    assert [(r.changes, r.ignored) for r in (kept, lost, same, more)] == [(0, 1), (0, 1), (0, 1), (1, 0)]
    assert (first.get(id=1), newest.get(id=1), sums.get(id=1)) == (
        {"id": 1, "n": 5},
        {"id": 1, "n": 5},
        {"id": 1, "n": 7},
    )
    assert conflict(lambda: sums.upsert([{"id": 1, "n": 2}], agg_mode="replace", expect=[0])) == [{"id": 1}]
    sums.upsert([{"id": 1, "n": 2}], agg_mode="replace", expect=[1])
    assert sums.get(id=1) == {"id": 1, "n": 2}


def test_ignored_and_disabled_deletes_with_a_condition(connection: penstock.Connection) -> None:
    ignoring = connection.create_table("shop.a", DDL, properties={"delete.behavior": "ignore"})
    refusing = connection.create_table("shop.b", DDL, properties={"delete.behavior": "disable"})
    for table in (ignoring, refusing):
        table.upsert([{"id": 1, "n": 1}])

    assert conflict(lambda: ignoring.delete([1], expect=[None])) == [{"id": 1}]
    assert conflict(lambda: ignoring.delete([1], columns=["n"], expect=[9])) == [{"id": 1}]
    result = ignoring.delete([1, 2], expect=[0, None])
    with pytest.raises(DeleteDisabledError):
        refusing.delete([1], expect=[0])

    assert (result.rows, result.changes, result.ignored) == (2, 0, 2)
    assert contents(ignoring) == contents(refusing) == {1: 1}


def test_partitions_that_are_not_there_have_no_rows(connection: penstock.Connection) -> None:
    ddl = "day STRING, id BIGINT, n BIGINT, PRIMARY KEY (day, id)"
    table = connection.create_table("shop.days", ddl, partitioned_by=["day"], buckets=2)
    rows = [{"day": day, "id": 1, "n": 1} for day in ("mon", "tue")]

    assert conflict(lambda: table.upsert(rows, expect=[4, 5])) == [{"day": "mon", "id": 1}, {"day": "tue", "id": 1}]
    assert table.list_partitions() == []
    table.upsert(rows[:1], expect=[None])
    keys = [{"day": "mon", "id": 1}, {"day": "tue", "id": 1}]
    assert conflict(lambda: table.delete(keys, expect=[0, 0])) == keys[1:]
    assert table.delete(keys[1:], expect=[None]).changes == 0
    assert table.list_partitions() == ["day=mon"]


def test_a_partition_that_came_again_has_none_of_the_rows_it_had(connection: penstock.Connection) -> None:
    ddl = "day STRING, id BIGINT, n BIGINT, PRIMARY KEY (day, id)"
    table = connection.create_table("shop.days", ddl, partitioned_by=["day"])
    row = {"day": "mon", "id": 1, "n": 1}
    table.upsert([row])
    offset = live_offsets(table)["mon", 1]
    table.drop_partition({"day": "mon"})
    assert conflict(lambda: table.upsert([row], expect=[offset])) == [{"day": "mon", "id": 1}]
    table.upsert([row], expect=[None])

    assert conflict(lambda: table.upsert([row], expect=[offset])) == [{"day": "mon", "id": 1}]
    table.upsert([row], expect=[live_offsets(table)["mon", 1]])


def test_composite_keys_of_many_types_are_named_as_users_write_them(connection: penstock.Connection) -> None:
    schema = pa.schema(
        [
            pa.field("day", pa.date32(), nullable=False),
            pa.field("at", pa.timestamp("us", "UTC"), nullable=False),
            pa.field("code", pa.binary(), nullable=False),
            pa.field("price", pa.decimal128(10, 2), nullable=False),
            pa.field("n", pa.int64()),
        ]
    )
    table = connection.create_table("shop.many", schema, primary_key=["day", "at", "code", "price"])
    row = {"day": date(2026, 1, 2), "at": datetime(2026, 1, 2, tzinfo=UTC), "code": b"\x00x", "price": 5, "n": 1}

    assert conflict(lambda: table.upsert([row], expect=[3])) == [{name: row[name] for name in row if name != "n"}]


def test_columns_that_an_owner_holds_are_refused_as_ever_but_a_retry_is_answered(tmp_path: Path) -> None:
    with penstock.serve(tmp_path / "data") as server:
        node = LossyNode(server.url)
        with node.connection() as connection, penstock.connect(server.url) as other:
            table = connection.create_table("t", DDL, properties={"column-lock.enabled": "true"})
            taken = other.table("t")

            node.lose("write", lambda: taken.acquire_owner("job"))
            result = table.upsert([{"id": 1, "n": 1}], expect=[None])

            assert result.changes == 1
            with pytest.raises(LockedError):
                table.upsert([{"id": 1, "n": 2}], expect=[0])
            assert contents(taken) == {1: 1}


@pytest.mark.parametrize("restarted", [False, True])
def test_a_call_whose_answer_was_lost_is_answered_as_it_was(restarted: bool, tmp_path: Path) -> None:
    with ExitStack() as stack:
        server = stack.enter_context(penstock.serve(tmp_path / "data"))
        port = int(server.url.rpartition(":")[2])
        node = LossyNode(server.url)
        table = stack.enter_context(node.connection()).create_table("t", DDL, buckets=4)

        def restart() -> None:
            server.close()
            stack.enter_context(penstock.serve(tmp_path / "data", port=port))

        rows = [{"id": n, "n": 0} for n in range(8)]
        node.lose("write", restart if restarted else lambda: None)
        made = table.upsert(rows, expect=[None] * 8)
        offsets = live_offsets(table)
        node.lose("write")
        changed = table.upsert(rows[:2], expect=[offsets[0,], offsets[1,]])
        node.lose("write")
        gone = table.delete([5, 99], expect=[offsets[5,], None])

        assert (made.changes, changed.changes) == (8, 2)
        assert (gone.rows, gone.changes, gone.ignored) == (2, 1, 1)
        assert len(contents(table)) == 7


def test_a_call_that_was_refused_is_refused_again_though_its_condition_holds_by_then(tmp_path: Path) -> None:
    with penstock.serve(tmp_path / "data") as server, penstock.connect(server.url) as connection:
        table = connection.create_table("t", DDL)
        table.upsert([{"id": 1, "n": 0}])
        node = connection._link.node
        batch = pa.record_batch({"id": [1], "n": pa.array([7]), "_offset": pa.array([None], pa.int64())})
        batch = batch.cast(table.info.schema.arrow_schema.append(pa.field("_offset", pa.int64())))
        call = WriteCall(
            table.info.table_id, table.info.schema_id, Operation.UPSERT, batch, writer_id=b"w" * 16, sequence=3
        )

        assert conflict(lambda: node.tables.write(call)) == [{"id": 1}]
        table.delete([1])

        assert conflict(lambda: node.tables.write(call)) == [{"id": 1}]
        assert contents(table) == {}
        assert node.tables.write(replace(call, sequence=4)).changes == 1


def test_rows_of_an_open_epoch_are_rows_and_undo_is_a_change(connection: penstock.Connection) -> None:
    table = connection.create_table("shop.a", DDL)
    table.upsert([{"id": 1, "n": 0}, {"id": 2, "n": 0}])
    owner = table.acquire_owner("job")
    owner.begin(epoch=1)
    table.upsert([{"id": 1, "n": 5}, {"id": 2, "n": 5}], owner=owner)

    assert conflict(lambda: table.upsert([{"id": 1, "n": 1}], expect=[0])) == [{"id": 1}]
    table.upsert([{"id": 1, "n": 6}], expect=[live_offsets(table)[1,]])
    owner.undo()

    assert contents(table) == {1: 6, 2: 0}
    assert conflict(lambda: table.upsert([{"id": 2, "n": 1}], expect=[1])) == [{"id": 2}]
    owner.release()


def test_a_column_added_since_keeps_its_value(connection: penstock.Connection) -> None:
    table = connection.create_table("shop.a", DDL)
    newer = table.add_column("note", "STRING")
    newer.upsert([{"id": 1, "n": 1, "note": "x"}], expect=[None])

    table.upsert([{"id": 1, "n": 2}], expect=[0])

    assert newer.get(id=1) == {"id": 1, "n": 2, "note": "x"}


def test_a_call_in_pieces_expects_rows(connect: Connect) -> None:
    table = connect(request__max_bytes="64KB").create_table("t", DDL, buckets=3)
    count = 30_000
    rows = pa.table({"id": range(count), "n": range(count)})

    table.upsert(rows, expect=pa.nulls(count, pa.int64()))
    with pytest.raises(ConflictError) as caught:
        table.upsert(rows, expect=[None] * count)

    assert len(caught.value.keys) == 10_000
    assert caught.value.facts["conflicts"] == count
    offsets = live_offsets(table)
    assert table.upsert(rows, expect=np.array([offsets[n,] for n in range(count)])).changes == count


def increment(table: penstock.Table, key: int, offsets: dict[int, tuple[int, int]]) -> None:
    while True:
        number, offset = offsets.get(key, (0, -1))
        try:
            result = table.upsert([{"id": key, "n": number + 1}], expect=[None if offset < 0 else offset])
        except ConflictError:
            # Every change of the key adds 1, and is the only one in its bucket: its number tells its offset.
            row = table.get(id=key)
            assert row is not None
            offsets[key] = row["n"], row["n"] - 1
        else:
            ((start, _),) = result.offsets.values()
            offsets[key] = number + 1, start
            return


def test_threads_that_increment_lose_none(connection: penstock.Connection) -> None:
    tables = [connection.create_table(f"shop.t{number}", DDL) for number in range(3)]
    workers, times = 6, 25

    def work(_: int) -> None:
        offsets: list[dict[int, tuple[int, int]]] = [{} for _ in tables]
        for _ in range(times):
            for table, known in zip(tables, offsets, strict=True):
                increment(table, 1, known)

    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(work, range(workers)))

    assert [contents(table) for table in tables] == [{1: workers * times}] * 3


def test_of_many_that_expect_one_row_exactly_one_wins(connection: penstock.Connection) -> None:
    table = connection.create_table("shop.a", DDL, buckets=2)
    callers, lost = 12, list[Any]()
    for turn in range(10):
        before = live_offsets(table)
        ready = threading.Barrier(callers)

        def call(caller: int, ready: threading.Barrier = ready, before: dict[Any, int] = before) -> bool:
            ready.wait()
            try:
                table.upsert(
                    [{"id": key, "n": caller} for key in (1, 2)], expect=[before.get((key,)) for key in (1, 2)]
                )
            except ConflictError as error:
                lost.append(error.keys)
                return False
            return True

        with ThreadPoolExecutor(callers) as pool:
            won = list(pool.map(call, range(callers)))
        assert won.count(True) == 1, turn
        assert contents(table) == dict.fromkeys((1, 2), won.index(True))
    assert lost == [[{"id": 1}, {"id": 2}]] * 10 * (callers - 1)
