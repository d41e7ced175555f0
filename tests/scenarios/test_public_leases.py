"""Leases as users use them, embedded and against a server."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.kit.waiting import wait_until

import penstock
from penstock import TableBucket
from penstock.errors import (
    InvalidError,
    LeaseNotFoundError,
    LimitError,
    TableNotFoundError,
    UnsupportedError,
)
from penstock.tablet.snapshots.stored_snapshot import StoredSnapshot

DDL = "id BIGINT, v BIGINT, PRIMARY KEY (id)"
Connect = Callable[..., penstock.Connection]


def fill(table: penstock.Table, value: int, rows: int = 40) -> None:
    table.upsert([{"id": i, "v": value} for i in range(rows)])


def values(scan: Any) -> set[int]:
    return set(scan.to_arrow()["v"].to_pylist())


@pytest.fixture
def table(connection: penstock.Connection) -> penstock.Table:
    table = connection.create_table("shop.orders", DDL, buckets=2, properties={"log.retention": "1ms"})
    fill(table, 1)
    return table


def test_snapshots_are_numbered_and_the_newest_two_are_kept(table: penstock.Table) -> None:
    first = table.create_snapshot()
    assert table.create_snapshot() == first
    for value in (2, 3, 4):
        fill(table, value)
        newest = table.create_snapshot()

    found = table.list_snapshots()

    assert {(s.bucket.bucket, s.id) for s in found} == {(0, 3), (0, 4), (1, 3), (1, 4)}
    assert {bucket: snapshot.offset for bucket, snapshot in newest.items()} == table.cut()
    assert all(isinstance(s, penstock.Snapshot) and s.bytes > 0 and s.leased_by == () for s in found)
    assert all(datetime.now(UTC) - s.created_at < timedelta(minutes=5) for s in found)


def test_leased_snapshot_is_read_while_others_write(connection: penstock.Connection, table: penstock.Table) -> None:
    lease = connection.acquire_lease("job-7", table.latest_snapshots, duration="1h")
    for value in range(2, 8):
        fill(table, value)
        table.create_snapshot()

    scan = table.new_scan().with_source(penstock.ScanSource.SNAPSHOT).lease(lease).execute()

    assert scan.log_offsets == {bucket: snapshot.offset for bucket, snapshot in lease.snapshots.items()}
    assert values(scan) == {1}
    assert values(table.scan(lease="job-7", filter="id < 5", columns=["v"], buckets=[0])) == {1}
    assert values(table.scan(source="snapshot")) == {7}
    assert [s.leased_by for s in table.list_snapshots() if s.id == 1] == [("job-7",)] * 2
    assert connection.lease("job-7").snapshots == lease.snapshots
    assert timedelta(minutes=59) < lease.expires_at - datetime.now(UTC) <= timedelta(hours=1)


def test_leased_snapshot_is_read_straight_from_storage(
    connection: penstock.Connection, table: penstock.Table, tmp_path: Path
) -> None:
    lease = connection.acquire_lease("spark", table.latest_snapshots)
    for value in range(2, 8):
        fill(table, value)
        table.create_snapshot()

    rows = []
    for snapshot in lease.snapshots.values():
        with StoredSnapshot(tmp_path / "data", snapshot.path) as stored:
            assert stored.info.path == "shop.orders"
            rows += [row for batch in stored.read(["id", "v"], "id >= 10") for row in batch.to_pylist()]

    assert sorted(row["id"] for row in rows) == list(range(10, 40))
    assert {row["v"] for row in rows} == {1}


def test_scan_of_the_newest_snapshot_takes_one_if_there_is_none(table: penstock.Table) -> None:
    assert values(table.scan(source="snapshot")) == {1}
    assert {s.id for s in table.list_snapshots()} == {1}


def test_cut_is_leased_and_read(connection: penstock.Connection, table: penstock.Table) -> None:
    cut = table.cut()
    with connection.acquire_lease("cut", cut) as lease:
        fill(table, 2)
        assert {b: (s.id, s.offset) for b, s in lease.snapshots.items()} == {b: (None, x) for b, x in cut.items()}
        assert values(table.scan(lease=lease)) == {1}
    with pytest.raises(LeaseNotFoundError):
        connection.lease("cut")


def test_lists_over_several_tables_and_unavailable_ones(connection: penstock.Connection, table: penstock.Table) -> None:
    other = connection.create_table("shop.other", DDL)
    log = connection.create_table("shop.log", "a BIGINT")
    log.append({"a": [1, 2, 3]})
    first = table.create_snapshot()
    bucket, missing = TableBucket("shop.orders", None, 0), TableBucket("shop.orders", None, 1)

    lease = connection.acquire_lease(
        "many", [other.latest_snapshots, {bucket: 1, missing: 99}, log.cut(), {TableBucket("shop.none", None, 0): 1}]
    )

    assert {b.table for b in lease.snapshots} == {"shop.other", "shop.orders", "shop.log"}
    assert lease.snapshots[bucket].offset == first[bucket].offset
    assert set(lease.unavailable) == {missing, TableBucket("shop.none", None, 0)}
    assert "no such snapshot" in lease.unavailable[missing]
    assert "no such table" in lease.unavailable[TableBucket("shop.none", None, 0)]
    log.append({"a": [4]})
    assert log.scan(lease=lease).to_arrow()["a"].to_pylist() == [1, 2, 3]
    connection.drop_table("shop.log")
    assert log.scan(lease=lease).to_arrow()["a"].to_pylist() == [1, 2, 3]


def test_acquiring_again_moves_the_pin_and_two_leases_are_independent(
    connection: penstock.Connection, table: penstock.Table
) -> None:
    mine = connection.acquire_lease("mine", table.latest_snapshots)
    other = connection.acquire_lease("other", mine.snapshots)
    fill(table, 2)
    table.create_snapshot()

    mine = connection.acquire_lease("mine", table.latest_snapshots)

    assert {s.id for s in mine.snapshots.values()} == {2}
    assert values(table.scan(lease=mine)) == {2}
    assert values(table.scan(lease=other)) == {1}
    other.drop()
    assert values(table.scan(lease=mine)) == {2}
    assert [lease.id for lease in connection.list_leases()] == ["mine"]


def test_buckets_are_released_one_by_one(connection: penstock.Connection, table: penstock.Table) -> None:
    lease = connection.acquire_lease("job", table.latest_snapshots)
    gone = TableBucket("shop.orders", None, 0)

    lease.release([gone])

    assert set(lease.snapshots) == {TableBucket("shop.orders", None, 1)}
    with pytest.raises(InvalidError, match="the lease does not hold that bucket"):
        table.scan(lease=lease, buckets=[gone])
    lease.release([gone])


def test_dropped_table_stays_readable_to_the_holder_and_its_name_is_free(
    connection: penstock.Connection, table: penstock.Table, tmp_path: Path
) -> None:
    lease = connection.acquire_lease("job", table.latest_snapshots)
    scan = table.scan(lease=lease)
    directory = tmp_path / "data" / "tables" / str(table.info.table_id)

    connection.drop_table("shop.orders")
    again = connection.create_table("shop.orders", DDL)
    fill(again, 9)

    with pytest.raises(TableNotFoundError):
        table.scan()
    with pytest.raises(TableNotFoundError):
        table.upsert([{"id": 1, "v": 1}])
    assert values(scan) == {1}
    resumed = table.scan(lease=lease)
    token = resumed.resume_token
    resumed.close()
    assert values(connection.resume_scan(token)) == {1}
    assert values(again.scan()) == {9}
    assert lease.bytes > 0
    assert directory.exists()
    lease.drop()
    wait_until(lambda: not directory.exists())


def test_dropped_partition_stays_readable_to_the_holder(connection: penstock.Connection, tmp_path: Path) -> None:
    table = connection.create_table(
        "shop.days", "day STRING, id BIGINT, v BIGINT, PRIMARY KEY (day, id)", partitioned_by=["day"]
    )
    table.upsert([{"day": day, "id": 1, "v": 1} for day in ("mon", "tue")])
    lease = connection.acquire_lease("job", table.latest_snapshots)

    table.drop_partition({"day": "mon"})
    table.upsert([{"day": "mon", "id": 1, "v": 2}])

    assert sorted(table.scan(lease=lease).to_arrow()["v"].to_pylist()) == [1, 1]
    assert sorted(table.scan().to_arrow()["v"].to_pylist()) == [1, 2]
    assert table.stats().rows == 2
    directory = tmp_path / "data" / "tables" / str(table.info.table_id)
    assert len(list(directory.iterdir())) == 3
    lease.drop()
    wait_until(lambda: len(list(directory.iterdir())) == 2)


def test_lease_lasts_as_long_as_it_says(connect: Connect) -> None:
    connection = connect(kv__lease__max_duration="2h")
    table = connection.create_table("t", DDL)
    with pytest.raises(LimitError, match=r"kv\.lease\.max-duration"):
        connection.acquire_lease("long", table.latest_snapshots, duration="3h")
    lease = connection.acquire_lease("short", table.latest_snapshots, duration=timedelta(milliseconds=50))

    wait_until(lambda: connection.list_leases() == [])

    with pytest.raises(LeaseNotFoundError, match="acquire it again"):
        lease.renew("1h")
    with pytest.raises(LeaseNotFoundError):
        table.scan(lease=lease)
    assert connection.acquire_lease("short", table.latest_snapshots).id == "short"


def test_auto_renewed_lease_outlives_its_duration_and_ends_with_its_context(connection: penstock.Connection) -> None:
    table = connection.create_table("shop.t", DDL)
    with connection.acquire_lease("job", table.latest_snapshots, duration="300ms", auto_renew=True) as lease:
        first = connection.lease("job").expires_at
        wait_until(lambda: connection.lease("job").expires_at > first + timedelta(milliseconds=500))
        assert lease.failure is None
    assert connection.list_leases() == []
    wait_until(lambda: not any(thread.name == "penstock-lease-job" for thread in threading.enumerate()))


def test_space_is_freed_when_the_last_lease_goes_also_on_an_idle_table(
    connection: penstock.Connection, table: penstock.Table, tmp_path: Path
) -> None:
    lease = connection.acquire_lease("job", table.latest_snapshots)
    for value in range(2, 8):
        fill(table, value)
        table.create_snapshot()
    held = set((tmp_path / "data").rglob("snapshot-000000000001"))
    assert len(held) == 2

    lease.drop()

    wait_until(lambda: not any(path.exists() for path in held))
    newest = min(s.offset for s in table.list_snapshots())
    wait_until(lambda: min(o.base for o in table.offsets().values()) >= newest)


def test_log_table_has_no_snapshots(connection: penstock.Connection) -> None:
    table = connection.create_table("shop.log", "a BIGINT")
    for attempt in (
        table.create_snapshot,
        lambda: connection.acquire_lease("x", table.latest_snapshots),
        lambda: table.scan(source="snapshot"),
    ):
        with pytest.raises(UnsupportedError, match="lease its cut"):
            attempt()


def test_what_is_not_leasable_is_refused(connection: penstock.Connection, table: penstock.Table) -> None:
    with pytest.raises(InvalidError, match=r"a lease takes t\.latest_snapshots"):
        connection.acquire_lease("x", [7])  # type: ignore[list-item]
    with pytest.raises(InvalidError, match="named by its TableBucket and number"):
        connection.acquire_lease("x", {0: 7})  # type: ignore[arg-type]
    with pytest.raises(InvalidError, match="printable"):
        connection.acquire_lease("", table.latest_snapshots)
    with pytest.raises(InvalidError, match="longer than nothing"):
        connection.acquire_lease("x", table.latest_snapshots, duration="0s")


def test_threads_lease_write_and_read_at_once(connection: penstock.Connection, table: penstock.Table) -> None:
    """Many hold the newest snapshot while it is written over and compacted: each sees one whole write."""
    stop = threading.Event()
    failures: list[BaseException] = []

    def write() -> None:
        value = 2
        while not stop.is_set():
            fill(table, value)
            table.create_snapshot()
            value += 1

    def read(name: str) -> None:
        for turn in range(12):
            what = table.latest_snapshots if turn % 2 else table.cut()
            with connection.acquire_lease(name, what) as lease:
                assert lease.unavailable == {} or not turn % 2
                if not lease.unavailable:
                    seen = [values(table.scan(lease=lease)) for _ in range(2)]
                    assert len(seen[0]) == 1
                    assert seen[0] == seen[1]

    def watched(work: Callable[..., None], *words: str) -> threading.Thread:
        def run() -> None:
            try:
                work(*words)
            except BaseException as error:
                failures.append(error)
                raise

        thread = threading.Thread(target=run)
        thread.start()
        return thread

    writer = watched(write)
    readers = [watched(read, f"reader-{number}") for number in range(4)]
    for reader in readers:
        reader.join()
    stop.set()
    writer.join()

    assert failures == []
    assert connection.list_leases() == []
    pins = {name for bucket in table.stats().buckets for name in bucket.pins}
    assert not any(name.startswith(("lease-", "acquiring-")) for name in pins)


def test_snapshot_that_is_not_there_is_named_as_users_name_it(connection: penstock.Connection) -> None:
    table = connection.create_table("shop.orders", "id INT, PRIMARY KEY (id)")
    bucket = penstock.TableBucket("shop.orders", None, 0)

    lease = connection.acquire_lease("job", {bucket: 99})

    assert table.list_snapshots() == []
    assert "snapshot_id=99 bucket=shop.orders#0" in lease.unavailable[bucket]


def test_lease_dropped_inside_its_block_ends_it_in_silence(
    connection: penstock.Connection, caplog: pytest.LogCaptureFixture
) -> None:
    table = connection.create_table("shop.orders", "id INT, PRIMARY KEY (id)")

    with connection.acquire_lease("job", table.cut()) as lease:
        lease.drop()

    assert caplog.messages == []
    assert connection.list_leases() == []
