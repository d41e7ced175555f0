"""How many Python functions a served write of one row calls, in client and server together: a bound, not a time.

The committer is left out: it serves all writers that wait, and takes them as one group.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow as pa
from tests.kit.call_counter import CallCounter
from tests.kit.watched_node import WatchedNode

import penstock
from penstock.engine.engine import Engine
from penstock.server.server import Listen, Server

CALLS_MAX = 310
ROUNDS = 20


def test_served_write_of_one_row_calls_few_functions(tmp_path: Path) -> None:
    counter = CallCounter()
    node = WatchedNode(Engine.open(tmp_path))
    # The thread that answers is one of gRPC's; it is the same for every call of a stream.
    node.rules.at("tables.write", counter.watch)
    with Server(node, Listen()) as server, penstock.connect(server.url) as connection:
        connection.create_database("shop")
        ddl = "id BIGINT, note STRING, PRIMARY KEY (id)"
        table = connection.create_table("shop.orders", ddl, buckets=4)
        batch = pa.record_batch({"id": [1], "note": ["a"]}, schema=table.info.schema.arrow_schema)
        table.upsert(batch)

        counter.watch()
        try:
            # A thread may look after something else in between: the least of some rounds has none of that.
            counts = min((counter.count(lambda: table.upsert(batch)) for _ in range(ROUNDS)), key=Counter.total)
        finally:
            counter.forget()

    assert counts.total() <= CALLS_MAX, counts.most_common()
