"""Small lookups of many threads go together, and nobody is left behind."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pyarrow as pa
import pytest
from tests.kit.client_node import ClientNode
from tests.kit.waiting import wait_until

from penstock.client.link.link import Link
from penstock.client.lookup.shared_lookups import KEYS_EACH_MAX, SharedLookups
from penstock.client.table import Table
from penstock.errors import ClosedError, PenstockError, SchemaMismatchError, UnavailableError
from penstock.model.node.calls import LookupCall, LookupResult
from penstock.model.place.bucket import TableBucket
from penstock.model.table.spec import make_spec

BUCKET = TableBucket("t", None, 0)


class Server:
    """Answers each key with itself doubled; holds every call back until it is let go."""

    def __init__(self) -> None:
        self.asked: list[list[int]] = []
        self.arrived = threading.Semaphore(0)
        self.allowed = threading.Semaphore(0)
        self.errors: list[PenstockError | None] = []
        self.holds = True

    def ask(self, call: LookupCall) -> LookupResult:
        ids = call.keys.column("id").to_pylist()
        self.asked.append(ids)
        error = self.errors.pop(0) if self.errors else None
        self.arrived.release()
        if self.holds:
            assert self.allowed.acquire(timeout=30)
        if error is not None:
            raise error
        rows = pa.record_batch({"id": ids, "double": [2 * number for number in ids]})
        return LookupResult(rows, {BUCKET: len(self.asked)})

    def let_all_go(self) -> None:
        self.holds = False
        for _ in range(100):
            self.allowed.release()


def call(*ids: int, columns: tuple[str, ...] | None = None) -> LookupCall:
    return LookupCall(1, 0, pa.record_batch({"id": pa.array(ids, pa.int64())}), columns)


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def shared(server: Server) -> SharedLookups:
    return SharedLookups(server.ask)


@pytest.fixture
def threads(server: Server) -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(16) as pool:
        yield pool
        server.let_all_go()


def rows(future: Future[LookupResult]) -> list[tuple[int, int]]:
    return [(row["id"], row["double"]) for row in future.result(30).batch.to_pylist()]


def crowd(
    server: Server, shared: SharedLookups, threads: ThreadPoolExecutor, *calls: LookupCall
) -> list[Future[LookupResult]]:
    """Make the first lookup, and the others while it is under way."""
    futures = [threads.submit(shared.lookup, calls[0])]
    assert server.arrived.acquire(timeout=30)
    for count, asked in enumerate(calls[1:], 1):
        futures.append(threads.submit(shared.lookup, asked))
        wait_until(lambda most=count: shared.waiting == most)  # type: ignore[misc]
    return futures


def test_a_thread_that_is_alone_asks_at_once(server: Server, shared: SharedLookups) -> None:
    server.let_all_go()

    for number in range(3):
        assert shared.lookup(call(number)).batch.to_pylist() == [{"id": number, "double": 2 * number}]

    assert server.asked == [[0], [1], [2]]


def test_who_waits_goes_together_and_everybody_gets_their_own_rows(
    server: Server, shared: SharedLookups, threads: ThreadPoolExecutor
) -> None:
    futures = crowd(server, shared, threads, call(1), call(2, 3), call(), call(4), call(2))

    server.let_all_go()

    assert [rows(future) for future in futures] == [[(1, 2)], [(2, 4), (3, 6)], [], [(4, 8)], [(2, 4)]]
    assert server.asked == [[1], [2, 3, 4, 2]]


def test_only_lookups_of_the_same_columns_go_together(
    server: Server, shared: SharedLookups, threads: ThreadPoolExecutor
) -> None:
    some = ("double",)
    futures = crowd(server, shared, threads, call(1), call(2, columns=some), call(3), call(4, columns=some))

    server.let_all_go()

    assert [rows(future)[0][0] for future in futures] == [1, 2, 3, 4]
    assert server.asked == [[1], [2, 4], [3]]


def test_many_keys_go_on_their_own(server: Server, shared: SharedLookups, threads: ThreadPoolExecutor) -> None:
    crowd(server, shared, threads, call(1))

    large = threads.submit(shared.lookup, call(*range(KEYS_EACH_MAX + 1)))

    assert server.arrived.acquire(timeout=30)
    server.let_all_go()
    assert len(rows(large)) == KEYS_EACH_MAX + 1


def test_a_server_that_is_away_is_told_to_all(
    server: Server, shared: SharedLookups, threads: ThreadPoolExecutor
) -> None:
    server.errors = [None, UnavailableError("away", url="here")]
    futures = crowd(server, shared, threads, call(1), call(2), call(3))

    server.let_all_go()

    assert rows(futures[0]) == [(1, 2)]
    for future in futures[1:]:
        with pytest.raises(UnavailableError, match="away url=here"):
            future.result(30)
    assert server.asked == [[1], [2, 3]]
    assert shared.lookup(call(5)).batch.num_rows == 1


def test_after_an_error_that_may_be_anybodys_everybody_asks_for_their_own(
    server: Server, shared: SharedLookups, threads: ThreadPoolExecutor
) -> None:
    server.errors = [None, SchemaMismatchError("not a key")]
    futures = crowd(server, shared, threads, call(1), call(2), call(3))

    server.let_all_go()

    assert [rows(future) for future in futures] == [[(1, 2)], [(2, 4)], [(3, 6)]]
    assert server.asked[:2] == [[1], [2, 3]]
    assert sorted(server.asked[2:]) == [[2], [3]]
    assert shared.lookup(call(5)).batch.num_rows == 1


def test_a_leader_that_is_interrupted_leaves_nobody_behind(
    server: Server, shared: SharedLookups, threads: ThreadPoolExecutor
) -> None:
    ask = server.ask

    def interrupted(asked: LookupCall) -> LookupResult:
        found = ask(asked)
        if asked.keys.num_rows == 2:
            raise KeyboardInterrupt
        return found

    shared = SharedLookups(interrupted)
    futures = crowd(server, shared, threads, call(1), call(2), call(3))

    server.let_all_go()

    assert rows(futures[0]) == [(1, 2)]
    with pytest.raises(KeyboardInterrupt):
        futures[1].result(30)
    assert rows(futures[2]) == [(3, 6)]
    assert shared.lookup(call(5)).batch.num_rows == 1


def test_random_crowds_always_get_what_they_asked_for(server: Server, shared: SharedLookups) -> None:
    seed = random.randrange(2**32)
    print(f"seed={seed}")
    dice = random.Random(seed)
    server.let_all_go()
    asked = [[dice.randrange(100) for _ in range(dice.randrange(4))] for _ in range(2_000)]

    def run(ids: list[int]) -> bool:
        answer = shared.lookup(call(*ids, columns=("double",) if sum(ids) % 3 == 0 else None))
        return [row["double"] for row in answer.batch.to_pylist()] == [2 * number for number in ids]

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(run, asked))

    assert shared.waiting == 0
    assert sorted(number for ids in server.asked for number in ids) == sorted(n for ids in asked for n in ids)


def test_lookup_after_the_close_is_refused_and_one_under_way_ends() -> None:
    node = ClientNode()
    arrived, go = threading.Event(), threading.Event()

    def hold(found: LookupResult) -> LookupResult:
        arrived.set()
        assert go.wait(30)
        return found

    node.rules.answer("lookup.rows", hold)
    link = Link(node, "memory", distant=True)
    table = Table(link, node.catalog.create_table("shop.t", make_spec("id BIGINT, v STRING, PRIMARY KEY (id)")))
    table.upsert([{"id": 1, "v": "one"}])
    with ThreadPoolExecutor(1) as pool:
        under_way = pool.submit(table.get, id=1)
        assert arrived.wait(30)
        link.close()

        with pytest.raises(ClosedError):
            table.get(id=2)

        go.set()
        assert under_way.result(30) == {"id": 1, "v": "one"}
