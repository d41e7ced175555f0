"""`lease.table`: what a lease keeps is reached by whoever has the lease, also after a drop and a restart."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.kit.waiting import wait_until

import penstock
from penstock import EARLIEST, LATEST, TableBucket
from penstock.errors import (
    InvalidError,
    LeaseNotFoundError,
    OffsetOutOfRangeError,
    PenstockError,
    TableNotFoundError,
    UnsupportedError,
)

DDL = "id BIGINT, v BIGINT, PRIMARY KEY (id)"
DAYS = "day STRING, id BIGINT, v BIGINT, PRIMARY KEY (day, id)"


class House:
    """A node, embedded or served, that can be restarted together with whoever is connected."""

    def __init__(self, directory: Path, *, served: bool) -> None:
        self.directory = directory
        self._served = served
        self._stack = ExitStack()

    def open(self) -> penstock.Connection:
        if not self._served:
            return self._stack.enter_context(penstock.connect(self.directory))
        return self._stack.enter_context(
            penstock.connect(self._stack.enter_context(penstock.serve(self.directory)).url)
        )

    def restart(self) -> penstock.Connection:
        self.close()
        return self.open()

    def close(self) -> None:
        self._stack.close()

    def tables(self) -> set[str]:
        """Return the ids of the tables that have files, and of the partitions."""
        return {str(path.relative_to(self.directory / "tables")) for path in (self.directory / "tables").glob("*/*")}


@pytest.fixture(params=["embedded", "server"])
def house(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[House]:
    house = House(tmp_path / "data", served=request.param == "server")
    yield house
    house.close()


def fill(table: penstock.Table, value: int, rows: int = 20) -> None:
    table.upsert([{"id": i, "v": value} for i in range(rows)])


def rows(batches: Any) -> list[dict[str, Any]]:
    return [row for batch in batches for row in batch.to_pylist()]


def values(scan: Any) -> set[int]:
    return set(scan.to_arrow()["v"].to_pylist())


@pytest.mark.parametrize("what", ["snapshots", "cut"])
def test_dropped_table_is_read_by_a_job_that_restarted(house: House, what: str) -> None:
    connection = house.open()
    connection.create_database("shop")
    table = connection.create_table("shop.orders", DDL, buckets=2)
    fill(table, 1)
    fill(table, 2)
    cut = table.cut()
    connection.acquire_lease("job-7", cut if what == "cut" else table.latest_snapshots)
    fill(table, 3)
    connection.drop_table("shop.orders")
    fill(connection.create_table("shop.orders", DDL), 9)

    for restarts in (False, True):
        again = house.restart() if restarts else connection
        leased = again.lease("job-7").table("shop.orders")

        assert isinstance(leased, penstock.Table)
        assert (leased.info.table_id, leased.path) == (table.info.table_id, "shop.orders")
        assert leased.cut() == cut
        assert values(leased.scan(source="snapshot")) == {2}
        assert values(leased.scan(as_of=cut)) == {2}
        assert leased.scan(filter="id < 5", columns=["id"]).to_arrow().num_rows == 5
        changed = rows(leased.changes(start=EARLIEST, images="after"))
        assert sorted(change["v"] for change in changed) == [1] * 20 + [2] * 20
        assert rows(leased.changes(start=LATEST)) == []
        assert len(rows(leased.scan(source="log"))) == 20 + 2 * 20
        with pytest.raises(TableNotFoundError):
            leased.upsert([{"id": 1, "v": 1}])
        assert values(again.table("shop.orders").scan()) == {9}


def test_what_is_kept_goes_with_the_lease(house: House) -> None:
    connection = house.open()
    kept = {}
    for name in ("dropped", "released", "expired"):
        table = connection.create_table(name, DDL)
        fill(table, 1)
        kept[name] = f"{table.info.table_id}/0"
        connection.acquire_lease(name, table.cut(), "1h")
        connection.drop_table(name)
    connection = house.restart()
    assert set(kept.values()) <= house.tables()
    handle = connection.lease("dropped").table("dropped")

    connection.lease("dropped").drop()
    lease = connection.lease("released")
    lease.release(list(lease.snapshots))
    lease.drop()
    connection.lease("expired").renew("1ms")

    wait_until(lambda: not set(kept.values()) & house.tables())
    with pytest.raises(LeaseNotFoundError):
        handle.scan()
    with pytest.raises(LeaseNotFoundError):
        handle.changes()
    # Nothing of the catalog, either: a restart finds nothing left to remove or to open.
    connection = house.restart()
    assert connection.list_leases() == []
    assert connection.list_tables("default") == []
    assert not set(kept.values()) & house.tables()


def test_log_table_is_read_up_to_the_leased_offset(house: House) -> None:
    connection = house.open()
    table = connection.create_table("clicks", "a BIGINT")
    table.append({"a": [1, 2, 3]})
    connection.acquire_lease("job", table.cut())
    table.append({"a": [4]})
    connection.drop_table("clicks")
    leased = house.restart().lease("job").table("clicks")
    bucket = TableBucket("default.clicks", None, 0)

    assert leased.scan().to_arrow()["a"].to_pylist() == [1, 2, 3]
    assert [row["a"] for row in rows(leased.changes())] == [1, 2, 3]
    assert [row["a"] for row in rows(leased.changes(start={0: 1}, end={0: 2}))] == [2]
    assert rows(leased.changes(start=datetime(2500, 1, 1, tzinfo=UTC))) == []
    stream = leased.changes(start={0: 1})
    assert [row["a"] for row in rows(leased.changes(start=stream.position))] == [2, 3]
    assert leased.offsets() == {bucket: (0, 3)}
    with pytest.raises(OffsetOutOfRangeError, match="beyond what the lease holds"):
        leased.changes(end={0: 4})
    with pytest.raises(OffsetOutOfRangeError, match="beyond"):
        leased.changes(start={0: 4})
    with pytest.raises(UnsupportedError, match="a lease ends at its offsets"):
        leased.changes(follow=True)


def test_what_a_lease_cannot_give_is_said(house: House) -> None:
    connection = house.open()
    table = connection.create_table("orders", DDL, buckets=2)
    other = connection.create_table("other", DDL)
    fill(table, 1)
    cut = table.cut()
    lease = connection.acquire_lease("job", cut)
    leased = lease.table("orders")

    with pytest.raises(TableNotFoundError, match=r"it holds default\.orders"):
        lease.table("other")
    with pytest.raises(TableNotFoundError, match=r"it holds default\.orders"):
        lease.table(other.info.table_id)
    for ask in (lambda: leased.lookup([1]), lambda: leased.get(id=1), lambda: leased.prefix_lookup(id=1)):
        with pytest.raises(UnsupportedError, match="scan it with a filter"):
            ask()
    with pytest.raises(UnsupportedError, match="follow the table itself"):
        leased.snapshot_and_follow()
    fill(table, 2)
    with pytest.raises(OffsetOutOfRangeError, match="holds the bucket at another offset"):
        leased.scan(as_of=table.cut())
    lease.release([TableBucket("default.orders", None, 0)])
    with pytest.raises(InvalidError, match="only some buckets"):
        leased.changes()
    with pytest.raises(InvalidError, match="does not hold that bucket"):
        leased.changes(buckets=[0])
    with pytest.raises(InvalidError, match="only some buckets"):
        leased.changes(start=cut)
    # Of a start only what is read counts.
    assert rows(leased.changes(start=cut, buckets=[1])) == []


def test_two_tables_of_one_path_are_told_apart_by_id(house: House) -> None:
    connection = house.open()
    first = connection.create_table("orders", DDL)
    fill(first, 1)
    connection.acquire_lease("job", first.latest_snapshots)
    connection.drop_table("orders")
    second = connection.create_table("orders", DDL)
    fill(second, 2)
    connection.acquire_lease("job", second.latest_snapshots)
    connection.drop_table("orders")
    lease = house.restart().lease("job")

    with pytest.raises(InvalidError, match=f"table_ids=.*{first.info.table_id}, {second.info.table_id}"):
        lease.table("orders")

    assert values(lease.table(first.info.table_id).scan()) == {1}
    assert values(lease.table(second.info.table_id).scan(source="snapshot")) == {2}


def test_dropped_partition_of_a_live_table_is_read_after_a_restart(house: House) -> None:
    connection = house.open()
    table = connection.create_table("days", DAYS, partitioned_by=["day"])
    table.upsert([{"day": day, "id": 1, "v": 1} for day in ("mon", "tue")])
    lease = connection.acquire_lease("job", table.cut())
    table.drop_partition({"day": "mon"})
    table.upsert([{"day": "mon", "id": 1, "v": 2}])

    for restarts in (False, True):
        again = house.restart() if restarts else connection
        leased = again.lease("job").table("days")
        assert sorted(row["v"] for row in rows(leased.scan(source="snapshot"))) == [1, 1]
        assert sorted((row["_partition"], row["v"]) for row in rows(leased.changes())) == [
            ("day=mon", 1),
            ("day=tue", 1),
        ]
        assert sorted(row["v"] for row in rows(again.table("days").scan())) == [1, 2]

    both = again.acquire_lease("job", again.table("days").cut())
    leased = both.table("days")
    bucket = TableBucket("default.days", "day=mon", 0)
    with pytest.raises(InvalidError, match="two partitions of one name"):
        leased.scan()
    with pytest.raises(InvalidError, match="two partitions of one name"):
        leased.changes()
    before, after = lease.snapshots[bucket].offset, both.snapshots[bucket].offset
    assert [row["v"] for row in rows(leased.scan(as_of={bucket: before}, buckets=[bucket]))] == [1]
    assert [row["v"] for row in rows(leased.scan(as_of={bucket: after}, buckets=[bucket]))] == [2]


def test_table_dropped_with_its_database_is_read_also_beside_a_new_one(house: House) -> None:
    connection = house.open()
    connection.create_database("shop")
    table = connection.create_table("shop.days", DAYS, partitioned_by=["day"])
    table.upsert([{"day": day, "id": 1, "v": 1} for day in ("mon", "tue")])
    connection.acquire_lease("job", table.latest_snapshots)
    table.drop_partition({"day": "mon"})
    connection.drop_database("shop", cascade=True)

    connection = house.restart()

    leased = connection.lease("job").table("shop.days")
    assert sorted(row["day"] for row in rows(leased.scan())) == ["mon", "tue"]
    connection.create_database("shop")
    connection.create_table("shop.days", DAYS, partitioned_by=["day"])
    assert sorted(row["day"] for row in rows(leased.changes())) == ["mon", "tue"]
    token = leased.scan().resume_token
    assert sorted(row["day"] for row in rows(connection.resume_scan(token))) == ["mon", "tue"]


def test_reader_whose_lease_ends_is_told_and_does_not_end_early(house: House) -> None:
    connection = house.open()
    table = connection.create_table("orders", DDL, buckets=4)
    for start in range(0, 40_000, 10_000):
        table.upsert([{"id": i, "v": 1} for i in range(start, start + 10_000)])
    lease = connection.acquire_lease("job", table.cut())
    connection.drop_table("orders")
    scan = lease.table("orders").scan()
    stream = lease.table("orders").changes()
    kept = f"{table.info.table_id}/0"
    lease.drop()
    wait_until(lambda: kept not in house.tables())

    for reader in (scan, stream):
        with pytest.raises(PenstockError):
            rows(reader)
