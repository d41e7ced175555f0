"""Tables that are open: who holds a bucket meets the removal of its partition."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import penstock
from penstock.engine.engine import Engine
from penstock.errors import PartitionNotFoundError
from penstock.model.place.bucket import BucketId
from penstock.tablet.tablet import Tablet


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[penstock.Connection]:
    with penstock.connect(tmp_path / "data") as made:
        yield made


def test_a_bucket_whose_files_are_being_removed_is_gone_for_who_asks_for_it(
    connection: penstock.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = connection.create_table(
        "t", "city STRING, id BIGINT, v BIGINT, PRIMARY KEY (city, id)", partitioned_by=["city"]
    )
    table.upsert([{"city": "Ulm", "id": 1, "v": 1}])
    engine = table._link.node
    assert isinstance(engine, Engine)
    tables, storage = engine._tables, engine._tables._storage
    (partition,) = tables.get(table.info.table_id).partitions()
    bucket = BucketId(table.info.table_id, partition.partition_id, 0)
    remove, removed, go_on = storage.remove_partition, threading.Event(), threading.Event()

    def remove_and_wait(table_id: int, partition_id: int, buckets: int) -> None:
        remove(table_id, partition_id, buckets)
        removed.set()
        assert go_on.wait(30)

    monkeypatch.setattr(storage, "remove_partition", remove_and_wait)
    with ThreadPoolExecutor(2) as pool:
        dropped = pool.submit(table.drop_partition, {"city": "Ulm"})
        assert removed.wait(30)
        asked = pool.submit(tables.holding, bucket)
        go_on.set()
        dropped.result()

        with pytest.raises(PartitionNotFoundError):
            asked.result()


def test_who_stands_in_a_dropped_partition_goes_on_while_its_name_is_taken_up_again(
    connection: penstock.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = connection.create_table("t", "city STRING, id BIGINT", partitioned_by=["city"])
    table.append([{"city": "Ulm", "id": number} for number in range(3)])
    engine = table._link.node
    assert isinstance(engine, Engine)
    committer = engine._tables.get(table.info.table_id).committer
    add_tablets = committer.add_tablets
    read: list[int] = []
    with table.changes(follow=True, timeout="20s") as stream:
        table.drop_partition({"city": "Ulm"})

        def read_first(tablets: Mapping[BucketId, Tablet]) -> None:
            read.extend(next(stream)["id"].to_pylist())
            add_tablets(tablets)

        monkeypatch.setattr(committer, "add_tablets", read_first)
        table.create_partition({"city": "Ulm"})

    assert read == [0, 1, 2]
