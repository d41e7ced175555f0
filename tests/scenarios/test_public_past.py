"""Reading the past by time: scans and cuts at a moment."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta, timezone

import pytest
from tests.scenarios.conftest import Connect

import penstock
from penstock.errors import InvalidError, OffsetOutOfRangeError, PartitionNotFoundError

SCHEMA = "id BIGINT NOT NULL, n BIGINT, PRIMARY KEY (id)"
DAYS = "id BIGINT NOT NULL, day STRING, n BIGINT, PRIMARY KEY (id, day)"


def now() -> datetime:
    return datetime.now(UTC)


def just_before() -> datetime:
    """Return a moment, when it is over: writes from now on are later than it."""
    moment = now()
    while now() - moment < timedelta(milliseconds=2):
        pass
    return moment


def rows(scan: penstock.Scan) -> list[tuple[object, ...]]:
    found = scan.to_arrow()
    return sorted(zip(*(found[name].to_pylist() for name in found.schema.names), strict=True))


def test_a_scan_at_a_moment_shows_what_was_written_until_then(connection: penstock.Connection) -> None:
    table = connection.create_table("shop.orders", SCHEMA, buckets=4)
    table.upsert({"id": list(range(20)), "n": [1] * 20})
    moment = just_before()
    table.upsert({"id": list(range(10)), "n": [2] * 10})
    table.delete({"id": [19]})

    before = rows(table.scan(as_of=moment))
    texts = [moment.isoformat(), moment.astimezone(timezone(timedelta(hours=2))).isoformat(), f" {moment.isoformat()} "]

    assert before == [(i, 1) for i in range(20)]
    for text in texts:
        assert rows(table.scan(as_of=text)) == before
    assert rows(table.new_scan().as_of(moment).execute()) == before
    assert rows(table.scan(as_of=now())) == rows(table.scan())
    assert rows(table.scan(as_of=moment, filter="id < 3", columns=["id"])) == [(0,), (1,), (2,)]
    assert table.scan(as_of=moment, limit=7).to_arrow().num_rows == 7


def test_the_cut_of_a_moment_is_a_cut_like_any_other(connection: penstock.Connection) -> None:
    table = connection.create_table("shop.orders", SCHEMA, buckets=4)
    table.upsert({"id": list(range(20)), "n": [1] * 20})
    moment = just_before()
    table.upsert({"id": list(range(10)), "n": [2] * 10})

    cut = table.cut(as_of=moment)
    lease = connection.acquire_lease("job", cut)

    assert cut == table.scan(as_of=moment).log_offsets
    assert rows(table.scan(as_of=cut)) == rows(table.scan(as_of=cut.to_json())) == [(i, 1) for i in range(20)]
    assert rows(table.scan(as_of=penstock.Cut.from_json(cut.to_json()))) == [(i, 1) for i in range(20)]
    assert rows(lease.table("shop.orders").scan()) == [(i, 1) for i in range(20)]
    changes = [row["n"] for batch in table.changes(start=cut, images="after") for row in batch.to_pylist()]
    assert changes == [2] * 10
    assert [row["n"] for batch in table.changes(end=cut) for row in batch.to_pylist()] == [1] * 20
    with pytest.raises(InvalidError, match="a lease holds one cut"):
        lease.table("shop.orders").scan(as_of=moment)


def test_a_moment_stays_as_it_was_read_once(connection: penstock.Connection) -> None:
    table = connection.create_table("shop.orders", SCHEMA)
    for n in range(50):
        table.upsert({"id": [1], "n": [n]})
        moment = now()
        first = rows(table.scan(as_of=moment))
        table.upsert({"id": [1], "n": [-n]})

        assert first == [(1, n)]
        assert rows(table.scan(as_of=moment)) == first


def test_a_call_to_several_buckets_is_never_seen_in_part(connection: penstock.Connection) -> None:
    table = connection.create_table("shop.orders", SCHEMA, buckets=4)
    stop = threading.Event()

    def write() -> None:
        n = 0
        while not stop.is_set():
            table.upsert({"id": list(range(16)), "n": [n] * 16})
            n += 1

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(30):
            found = table.scan(as_of=now(), columns=["n"]).to_arrow()["n"].to_pylist()
            assert len(set(found)) <= 1
            assert len(found) in (0, 16)
    finally:
        stop.set()
        writer.join()


def test_what_is_no_moment_of_the_past_is_refused(connection: penstock.Connection) -> None:
    table = connection.create_table("shop.orders", SCHEMA)
    with pytest.raises(InvalidError, match="the moment has no zone"):
        table.scan(as_of="2026-11-18T10:00:00")
    with pytest.raises(InvalidError, match="the moment has no zone"):
        table.scan(as_of=datetime(2026, 11, 18))
    with pytest.raises(InvalidError, match="not a moment; say it as"):
        table.scan(as_of="yesterday")
    with pytest.raises(InvalidError, match="as_of is in the future") as future:
        table.scan(as_of=now() + timedelta(hours=1))
    assert set(future.value.facts) == {"as_of", "now"}
    assert table.scan(as_of="1970-01-01T00:00:00Z").to_arrow().num_rows == 0


def test_a_log_table_is_read_at_a_moment(connection: penstock.Connection) -> None:
    table = connection.create_table("shop.clicks", "n BIGINT")
    table.append({"n": [1, 2]})
    moment = just_before()
    table.append({"n": [3]})

    assert rows(table.scan(as_of=moment)) == [(1,), (2,)]
    table.truncate()
    assert rows(table.scan(as_of=now())) == []
    with pytest.raises(OffsetOutOfRangeError, match="before the oldest moment"):
        table.scan(as_of=moment)


def test_a_partition_born_later_is_empty_and_one_gone_since_is_an_error(connection: penstock.Connection) -> None:
    table = connection.create_table("shop.sales", DAYS, partitioned_by=["day"], buckets=2)
    table.upsert([{"id": i, "day": "mon", "n": i} for i in range(8)])
    moment = just_before()
    table.upsert([{"id": i, "day": "tue", "n": i} for i in range(8)])
    after_birth = just_before()

    assert rows(table.scan(as_of=moment)) == [(i, "mon", i) for i in range(8)]
    assert len(rows(table.scan(as_of=after_birth))) == 16
    tuesday = [penstock.TableBucket("shop.sales", "day=tue", number) for number in range(2)]
    assert rows(table.scan(as_of=moment, buckets=tuesday)) == []

    table.drop_partition({"day": "mon"})
    after_drop = just_before()
    for gone in (moment, after_birth):
        with pytest.raises(PartitionNotFoundError, match="dropped or expired after that moment"):
            table.scan(as_of=gone)
    assert len(rows(table.scan(as_of=after_drop))) == 8
    table.upsert([{"id": 1, "day": "mon", "n": 100}])
    with pytest.raises(PartitionNotFoundError):
        table.scan(as_of=after_birth)
    assert len(rows(table.scan(as_of=after_drop))) == 8
    assert len(rows(table.scan(as_of=now()))) == 9


def test_a_moment_is_found_again_after_a_restart(connect: Connect) -> None:
    connection = connect()
    connection.create_database("shop")
    table = connection.create_table("shop.orders", SCHEMA, buckets=2)
    table.upsert({"id": [1, 2], "n": [1, 1]})
    moment = just_before()
    table.upsert({"id": [1], "n": [2]})
    cut = table.cut(as_of=moment)

    assert rows(table.scan(as_of=moment)) == rows(table.scan(as_of=cut)) == [(1, 1), (2, 1)]


def test_changes_start_at_a_moment_that_is_said_as_text(connection: penstock.Connection) -> None:
    table = connection.create_table("shop.orders", SCHEMA)
    table.upsert({"id": [1], "n": [1]})
    moment = just_before()
    table.upsert({"id": [1], "n": [2]})

    for start in (moment, moment.isoformat(), moment.isoformat().replace("+00:00", "Z")):
        found = [row["n"] for batch in table.changes(start=start, images="after") for row in batch.to_pylist()]
        assert found == [2]
    with pytest.raises(InvalidError, match="the moment has no zone"):
        table.changes(start="2026-11-18T10:00:00")
    with pytest.raises(InvalidError, match="a start is"):
        table.changes(start="soon")
