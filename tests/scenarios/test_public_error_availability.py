"""Errors that say "not now", "not you" and "not any more", read by those who meet them, on real nodes."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from tests.kit.faulty_node import without_patience
from tests.kit.node_house import NodeHouse

import penstock
from penstock import errors
from penstock.client.connection import Connection
from penstock.client.remote.node import RemoteNode
from penstock.engine.engine import Engine
from penstock.model.node.calls import Operation, WriteCall
from penstock.server.access.tokens import hash_token, make_token
from penstock.server.server import Listen, Server
from penstock.server.settings import ServerSettings

SCHEMA = "id BIGINT, v BIGINT, PRIMARY KEY (id)"


@pytest.fixture(params=["embedded", "server"])
def house(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[NodeHouse]:
    settings = {"kv.scanner.page-bytes": "1KB"}
    with NodeHouse(tmp_path / "data", served=request.param == "server", settings=settings) as house:
        yield house


@pytest.fixture
def table(house: NodeHouse) -> penstock.Table:
    table = house.connection.create_table("t", SCHEMA, buckets=2)
    table.upsert(rows(1))
    return table


def rows(value: int) -> pa.RecordBatch:
    return pa.record_batch({"id": list(range(500)), "v": [value] * 500})


def test_bucket_that_is_led_elsewhere_is_named(house: NodeHouse, table: penstock.Table) -> None:
    without_patience(house.connection)
    bucket = next(iter(table.cut()))
    house.engine.step_down(bucket)

    for call in (lambda: table.upsert(rows(2)), lambda: table.scan().to_arrow(), lambda: table.lookup([1, 2, 3, 4])):
        with pytest.raises(errors.NotLeaderError, match="this node does not lead the bucket now; try again") as caught:
            call()
        assert caught.value.retriable
    house.engine.take_up(bucket)

    table.upsert(rows(3))
    assert {row["v"] for row in table.scan().to_arrow().to_pylist()} == {3}


def test_write_waits_for_a_bucket_to_be_led_again(house: NodeHouse, table: penstock.Table) -> None:
    bucket = next(iter(table.cut()))
    house.engine.step_down(bucket)
    timer = threading.Timer(0.2, house.engine.take_up, [bucket])
    timer.start()

    result = table.upsert(rows(2))

    timer.join()
    assert result.changes == 500


def test_sequence_that_nobody_remembers_is_refused(house: NodeHouse, table: penstock.Table) -> None:
    node, writer_id = house.connection._link.node, b"w" * 16
    call = WriteCall(table.info.table_id, table.info.schema_id, Operation.UPSERT, rows(2), writer_id=writer_id)
    for sequence in range(10):
        node.tables.write(replace(call, sequence=sequence))
    before = table.cut()

    again = node.tables.write(replace(call, sequence=7))
    with pytest.raises(
        errors.SequenceError, match="write with a new writer sequence=1 newest=9 remembered=5"
    ) as caught:
        node.tables.write(replace(call, sequence=1))

    assert isinstance(caught.value, errors.ConflictError)
    assert again.offsets.keys() == before.keys()
    assert table.cut() == before


def test_offset_below_the_base_says_what_to_do(house: NodeHouse, table: penstock.Table) -> None:
    cut = table.cut()
    with table.scan() as scan:
        next(scan)
        token = scan.resume_token
    position = table.changes(start=cut).position
    for value in range(2, 5):
        table.upsert(rows(value))
    house.engine.reap()
    house.engine.maintenance.compact_now(house.open_table(table.info.table_id), everything=True)
    assert all(held.base > cut[bucket] for bucket, held in table.offsets().items())

    for call in (
        lambda: table.scan(as_of=cut),
        lambda: house.connection.resume_scan(token).to_arrow(),
        lambda: list(table.changes(start=cut)),
        lambda: list(table.changes(start=position)),
        lambda: list(table.changes(start=dict.fromkeys(cut, 0))),
    ):
        with pytest.raises(errors.OffsetOutOfRangeError, match="base=") as caught:
            call()
        assert caught.value.facts["base"] > caught.value.facts["offset"]
    assert {row["v"] for row in table.scan().to_arrow().to_pylist()} == {4}
    assert list(table.changes(start=penstock.EARLIEST)) == []


@contextmanager
def served(directory: Path, **limits: int) -> Iterator[tuple[Engine, Server]]:
    engine = Engine.open(directory)
    with Server(engine, Listen(http_port=None), settings=ServerSettings(**limits)) as server:
        yield engine, server


def test_server_that_does_not_answer_in_time_is_a_timeout_and_the_retry_is_applied_once(tmp_path: Path) -> None:
    with served(tmp_path / "data") as (engine, server):
        patient = penstock.connect(server.url)
        table = patient.create_table("t", SCHEMA)
        hurried = without_patience(Connection(RemoteNode(server.url, timeout_ms=200), server.url))
        held, released = threading.Event(), threading.Event()
        live = engine._tables.get(table.info.table_id)

        def hold() -> None:
            held.set()
            released.wait(60)

        holder = threading.Thread(target=live.committer.run, args=(hold,))
        holder.start()
        held.wait()

        with pytest.raises(
            errors.TimedOutError, match="the server did not answer in time; the call may have been done timeout_ms=200"
        ) as caught:
            hurried.table("t").upsert(rows(1))
        released.set()
        holder.join()

        assert isinstance(caught.value, TimeoutError)
        assert (caught.value.code, caught.value.retriable) == ("timed_out", True)
        table.upsert(rows(2))
        assert {row["v"] for row in table.scan().to_arrow().to_pylist()} == {2}
        hurried.close()
        patient.close()


def test_server_that_is_full_turns_one_away_and_serves_the_others(tmp_path: Path) -> None:
    with served(tmp_path / "data", waits_max=1) as (_, server), penstock.connect(server.url) as conn:
        table = conn.create_table("t", SCHEMA)
        waiting, seen = table.changes(follow=True), threading.Event()

        def follow() -> None:
            next(waiting)
            seen.set()

        follower = threading.Thread(target=follow)
        follower.start()
        with penstock.connect(server.url) as other:
            without_patience(other)
            refused = None
            while refused is None:
                # The first follower may be between two of its waits.
                try:
                    next(other.table("t").changes(follow=True, timeout="1ms"), None)
                except errors.OverloadedError as error:
                    refused = error

            assert "the server has too many waits under way; try again most=1" in str(refused)
            assert refused.retriable
            table.upsert(rows(1))
            assert other.table("t").get(id=3) == {"id": 3, "v": 1}
            assert seen.wait(30)
        follower.join()
        waiting.close()


def test_token_that_the_server_does_not_know_is_denied(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens"
    token = make_token()
    tokens.write_text(f"ada:{hash_token(token)}\n")
    with penstock.serve(tmp_path / "data", token_file=tokens) as server:
        for wrong in (None, "nonsense", token[:-1], token + "x"):
            said = "asks for a token; pass token=" if wrong is None else "does not know this token; pass token="
            with (
                pytest.raises(errors.PermissionDeniedError, match=said),
                penstock.connect(server.url, token=wrong) as conn,
            ):
                conn.list_databases()
        with penstock.connect(server.url, token=token) as conn:
            assert conn.list_databases() == ["default"]


def test_too_many_sessions_on_a_bucket_wait_and_are_then_refused(tmp_path: Path) -> None:
    settings = {"kv.scanner.max-per-bucket": 1, "kv.scanner.page-bytes": "1KB"}
    with NodeHouse(tmp_path / "data", settings=settings) as house:
        without_patience(house.connection)
        table = house.connection.create_table("t", SCHEMA)
        table.upsert(rows(1))
        with house.connection.scanner(table, 0) as scanner:
            scanner.open()
            with pytest.raises(errors.TooManyScannersError, match="max=1"):
                table.scan().to_arrow()
        assert table.scan().to_arrow().num_rows == 500
