"""A stream's reader, asked as Spark asks it, against a served table: offsets, limits, starts, losses, leases."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit
from pyspark.sql.types import StructType

import penstock
from penstock.client.remote.facets.changes import RemoteChanges
from penstock.errors import (
    ConflictError,
    InvalidError,
    LeaseNotFoundError,
    OffsetOutOfRangeError,
    PartitionNotFoundError,
)
from penstock.model.node.log_state import LogState
from penstock.spark.pipeline.reads import cut
from penstock.spark.session.options import Options
from penstock.spark.sources.source import PenstockDataSource
from penstock.spark.streaming.stream_offset import StreamOffset
from penstock.spark.streaming.stream_reader import StreamReader
from penstock.spark.writing.query_progress import Progress, progress

DDL = "id BIGINT, v STRING, PRIMARY KEY (id)"


class Stream:
    """Runs micro-batches: asks for an end, reads up to it, commits."""

    def __init__(self, url: str, table: str = "default.t", **options: Any) -> None:
        given = {"url": url, "table": table, "source": "log"} | options
        schema = PenstockDataSource({k: str(v) for k, v in given.items()}).schema()
        assert isinstance(schema, StructType)
        self._made = (Options(given), schema)
        self.reader = StreamReader(*self._made)
        self.stands = self.reader.initialOffset()

    def stop(self) -> None:
        """Stop the query, which goes on with another reader."""
        self.reader.stop()
        self.reader = StreamReader(*self._made)

    def step(self, limit: ReadLimit | None = None) -> list[dict[str, Any]] | None:
        """Return the rows of the next micro-batch, None if there is none."""
        end = self.reader.latestOffset(self.stands, limit or self.reader.getDefaultReadLimit())
        if end == self.stands:
            return None
        rows = self.read(self.stands, end)
        self.stands = end
        self.reader.commit(end)
        return rows

    def read(self, start: dict[str, Any], end: dict[str, Any]) -> list[dict[str, Any]]:
        splits = self.reader.partitions(start, end)
        return [row for split in splits for batch in self.reader.read(split) for row in batch.to_pylist()]

    def run(self) -> list[list[dict[str, Any]]]:
        """Return the rows of all micro-batches until there is nothing to read."""
        batches = []
        while (rows := self.step()) is not None:
            batches.append(rows)
        return batches


def progress_of(stream: Stream) -> Progress:
    """Return what `pks.progress` makes of the offsets that Spark shows of a query."""
    latest = stream.reader.reportLatestOffset()
    source = {"endOffset": stream.stands, "latestOffset": latest, "numInputRows": 0}
    shown = progress(cast(Any, SimpleNamespace(id="q", lastProgress={"sources": [source], "batchId": 0})))
    assert shown is not None
    return shown


def ids(batches: list[list[dict[str, Any]]]) -> list[int]:
    return sorted(row["id"] for rows in batches for row in rows)


def test_limit_splits_snapshot_and_log_and_counts_changes(url: str, connection: penstock.Connection) -> None:
    table = connection.create_table("t", DDL, buckets=3)
    table.upsert([{"id": number, "v": "a"} for number in range(1000)])
    table.delete([{"id": number} for number in range(500)])
    stream = Stream(url, max_rows_per_trigger=200)

    snapshot = stream.run()
    table.upsert([{"id": number, "v": "b"} for number in range(900, 1250)])
    log = stream.run()

    assert ids(snapshot) == list(range(500, 1000))
    assert all(len(rows) <= 200 for rows in snapshot)
    changes = [[row for row in rows if row["_change_type"] != "-U"] for rows in log]
    assert [len(rows) for rows in changes] == [200, 150]
    assert ids(changes) == list(range(900, 1250))


def test_limit_below_the_number_of_buckets_still_moves_on(url: str, connection: penstock.Connection) -> None:
    table = connection.create_table("t", DDL, buckets=4)
    table.upsert([{"id": number, "v": "a"} for number in range(10)])
    stream = Stream(url, max_rows_per_trigger=1)

    snapshot = stream.run()
    table.upsert([{"id": number, "v": "a"} for number in range(10, 15)])
    log = stream.run()

    assert ids(snapshot) == list(range(10))
    assert [len(rows) for rows in log] == [1] * 5


def test_limit_in_bytes_is_about_that(url: str, connection: penstock.Connection) -> None:
    table = connection.create_table("t", DDL)
    table.upsert([{"id": number, "v": "x" * 1000} for number in range(1000)])

    batches = Stream(url, max_bytes_per_trigger="100KB").run()

    assert ids(batches) == list(range(1000))
    assert 5 <= len(batches) <= 20


def test_trigger_that_reads_all_ignores_the_limit(url: str, connection: penstock.Connection) -> None:
    connection.create_table("t", DDL).upsert([{"id": number, "v": "a"} for number in range(100)])

    rows = Stream(url, max_rows_per_trigger=7).step(ReadAllAvailable())

    assert rows is not None
    assert len(rows) == 100


@pytest.mark.parametrize(
    ("starting", "first"),
    [("earliest", 0), ("latest", 150), ("cut", 100), ("2020-01-01T00:00:00Z", 0), ("snapshot", 0)],
)
def test_new_stream_of_a_log_table_begins_where_it_is_told(
    url: str, connection: penstock.Connection, starting: str, first: int
) -> None:
    table = connection.create_table("t", "id BIGINT", buckets=2)
    table.append({"id": list(range(100))})
    middle = cut(url, "default.t")
    table.append({"id": list(range(100, 150))})
    stream = Stream(url, starting=middle if starting == "cut" else starting)

    before = stream.run()
    table.append({"id": list(range(150, 160))})
    after = stream.run()

    assert ids(before) == list(range(first, 150))
    assert ids(after) == list(range(150, 160))


def test_first_micro_batch_is_the_same_when_it_is_run_again(url: str, connection: penstock.Connection) -> None:
    table = connection.create_table("t", DDL, buckets=2)
    table.upsert([{"id": number, "v": "a"} for number in range(50)])
    for starting in ("snapshot", "earliest", "latest"):
        stream = Stream(url, starting=starting)
        end = stream.reader.latestOffset(stream.reader.initialOffset(), ReadAllAvailable())
        rows = stream.read(stream.reader.initialOffset(), end)
        table.upsert([{"id": number, "v": "b"} for number in range(60)])

        again = Stream(url, starting=starting)

        assert again.read(again.reader.initialOffset(), end) == rows


def test_lost_changes_fail_the_stream_unless_it_may_go_on(url: str, connection: penstock.Connection) -> None:
    table = connection.create_table("t", "id BIGINT")
    table.append({"id": list(range(10))})
    strict, lax = Stream(url), Stream(url, fail_on_data_loss=False)
    for stream in (strict, lax):
        stream.run()
        stream.stop()

    table.append({"id": list(range(10, 20))})
    table.truncate()
    table.append({"id": list(range(20, 30))})

    with pytest.raises(OffsetOutOfRangeError, match="failOnDataLoss=false"):
        strict.step()
    assert ids(lax.run()) == list(range(20, 30))


def test_checkpoint_of_a_table_that_was_created_again_is_refused(url: str, connection: penstock.Connection) -> None:
    connection.create_table("t", DDL)
    before = Stream(url)
    before.step()
    connection.drop_table("t")
    connection.create_table("t", DDL)

    after = Stream(url)

    with pytest.raises(ConflictError, match="new checkpoint"):
        after.reader.latestOffset(before.stands, ReadAllAvailable())


def test_checkpoint_of_another_table_is_refused_by_its_name(url: str, connection: penstock.Connection) -> None:
    connection.create_table("t", DDL)
    connection.create_table("other", DDL)
    stream = Stream(url)
    stream.step()

    with pytest.raises(ConflictError, match=r"that of a query over default\.t;"):
        StreamOffset.from_json(stream.stands, connection._link, connection.table("other").info)


def test_columns_added_later_stay_out_of_a_running_stream(url: str, connection: penstock.Connection) -> None:
    table = connection.create_table("t", DDL)
    stream = Stream(url)
    stream.run()

    table.add_column("note", "string").upsert([{"id": 1, "v": "a", "note": "hello"}])

    assert [sorted(row) for row in stream.step() or []] == [
        ["_bucket", "_change_type", "_offset", "_timestamp", "id", "v"]
    ]


def test_filter_and_columns_hold_in_both_phases(url: str, connection: penstock.Connection) -> None:
    table = connection.create_table("t", DDL, buckets=2)
    table.upsert([{"id": number, "v": str(number % 2)} for number in range(20)])
    stream = Stream(url, columns="id", filter="v = '1'", images="after")

    snapshot = stream.run()
    table.upsert([{"id": number, "v": str(number % 2)} for number in range(20, 40)])
    log = stream.run()

    assert ids(snapshot) == list(range(1, 20, 2))
    assert ids(log) == list(range(21, 40, 2))
    assert "v" not in log[0][0]


def test_partitions_come_and_go(url: str, connection: penstock.Connection) -> None:
    table = connection.create_table(
        "t", "id BIGINT, day STRING, PRIMARY KEY (id, day)", buckets=2, partitioned_by=["day"]
    )
    table.upsert([{"id": number, "day": "mon"} for number in range(5)])
    stream = Stream(url)

    seen = stream.run()
    table.upsert([{"id": number, "day": "tue"} for number in range(5, 9)])
    table.drop_partition({"day": "mon"})
    seen += stream.run()

    assert ids(seen) == list(range(9))
    assert all("mon" not in name for name in stream.stands["next"])


@pytest.mark.parametrize("limit", [{}, {"max_rows_per_trigger": 3}], ids=["all", "limited"])
@pytest.mark.parametrize("key", ["", ", PRIMARY KEY (id, day)"], ids=["log", "keyed"])
def test_partition_that_comes_back_is_read_from_its_first_change(
    url: str, connection: penstock.Connection, key: str, limit: dict[str, Any]
) -> None:
    table = connection.create_table("t", f"id BIGINT, day STRING{key}", buckets=2, partitioned_by=["day"])
    put = table.upsert if key else table.append
    put([{"id": number, "day": "mon"} for number in range(6)])
    stream = Stream(url, **limit)
    seen = stream.run()
    began = stream.stands

    for births in range(2):
        table.drop_partition({"day": "mon"})
        put([{"id": number, "day": "mon"} for number in range(100 * births + 10, 100 * births + 30)])
        seen += stream.run()
    table.drop_partition({"day": "mon"})
    table.create_partition({"day": "mon"})
    seen += stream.run()

    assert ids(seen) == [*range(6), *range(10, 30), *range(110, 130)]
    # A new stream, whose snapshot or log begins in a later life, shares its limit out as ever.
    put([{"id": number, "day": "mon"} for number in range(20)])
    late = Stream(url, **limit).run()
    assert ids(late) == list(range(20))
    assert not limit or all(len(rows) == 3 for rows in late[:-1])
    # A query that was away for all of that has missed lives in between.
    stream.stands = began
    with pytest.raises(PartitionNotFoundError, match="failOnDataLoss"):
        stream.run()
    lax = Stream(url, **limit, fail_on_data_loss=False)
    lax.stands = began
    assert ids(lax.run()) == list(range(20))


def test_partitions_that_begin_high_count_by_their_rows(url: str, connection: penstock.Connection) -> None:
    table = connection.create_table("t", "id BIGINT, day STRING, PRIMARY KEY (id, day)", partitioned_by=["day"])
    table.upsert([{"id": number, "day": "mon"} for number in range(100)])
    for day in ("tue", "tue", "wed"):
        table.create_partition({"day": day})
        table.upsert([{"id": number, "day": day} for number in range(2)])
        if day == "tue":
            table.drop_partition({"day": day})
    stream = Stream(url, max_rows_per_trigger=10)

    first = stream.step()
    behind = progress_of(stream)
    stream.run()
    table.create_partition({"day": "tue"})

    # Two rows of one bucket, so eight of the other: its share is not lost on offsets that were never there.
    assert first is not None
    assert len(first) == 10
    assert behind.rows_behind_total == 92
    # A partition without rows is no reason for a micro-batch.
    assert stream.step() is None
    table.upsert([{"id": number, "day": "tue"} for number in range(3)])
    assert progress_of(stream).rows_behind_total == 3


def test_micro_batch_of_a_partition_that_is_gone_is_not_read_from_the_next_of_its_name(
    url: str, connection: penstock.Connection
) -> None:
    table = connection.create_table("t", "id BIGINT, day STRING", partitioned_by=["day"])
    table.append({"id": list(range(5)), "day": ["mon"] * 5})
    strict, lax = Stream(url), Stream(url, fail_on_data_loss=False)
    start = strict.stands
    end = strict.reader.latestOffset(start, ReadAllAvailable())
    strict.stop()
    table.drop_partition({"day": "mon"})
    table.append({"id": list(range(10, 20)), "day": ["mon"] * 10})

    with pytest.raises(PartitionNotFoundError):
        strict.read(start, end)
    assert lax.read(start, end) == []
    lax.stands = end
    assert ids(lax.run()) == list(range(10, 20))


def test_lost_changes_of_a_partition_that_came_back_are_a_loss(url: str, connection: penstock.Connection) -> None:
    table = connection.create_table("t", "id BIGINT, day STRING", partitioned_by=["day"])
    table.append({"id": list(range(5)), "day": ["mon"] * 5})
    strict, lax = Stream(url), Stream(url, fail_on_data_loss=False)
    for stream in (strict, lax):
        stream.run()
        stream.stop()
    table.drop_partition({"day": "mon"})
    table.append({"id": list(range(10, 20)), "day": ["mon"] * 10})
    table.truncate()
    table.append({"id": list(range(20, 30)), "day": ["mon"] * 10})

    with pytest.raises(OffsetOutOfRangeError, match="failOnDataLoss"):
        strict.run()
    assert ids(lax.run()) == list(range(20, 30))


@pytest.mark.parametrize("comes_back", [False, True])
@pytest.mark.parametrize("key", ["", ", PRIMARY KEY (id, day)"], ids=["log", "keyed"])
def test_running_query_reads_a_dropped_partition_to_its_end(
    url: str, connection: penstock.Connection, key: str, comes_back: bool
) -> None:
    table = connection.create_table("t", f"id BIGINT, day STRING{key}", buckets=2, partitioned_by=["day"])
    put = table.upsert if key else table.append
    put([{"id": number, "day": "mon"} for number in range(20)])
    stream = Stream(url, max_rows_per_trigger=5, starting="earliest")
    seen = [stream.step() or []]
    table.drop_partition({"day": "mon"})
    put([{"id": number, "day": "tue"} for number in range(20, 30)])
    if comes_back:
        put([{"id": number, "day": "mon"} for number in range(30, 40)])
        # Born and dropped between two micro-batches.
        table.drop_partition({"day": "mon"})
        put([{"id": number, "day": "mon"} for number in range(40, 50)])

    seen += stream.run()

    assert ids(seen) == list(range(50 if comes_back else 30))
    assert all("mon" not in name for name in stream.stands["next"]) or comes_back


def test_running_query_reads_a_partition_dropped_before_the_one_of_its_name_that_went_before_was_read(
    url: str, connection: penstock.Connection
) -> None:
    table = connection.create_table("t", "id BIGINT, day STRING, PRIMARY KEY (id, day)", partitioned_by=["day"])
    table.upsert([{"id": number, "day": "mon"} for number in range(20)])
    stream = Stream(url, max_rows_per_trigger=5, starting="earliest")
    seen = [stream.step() or []]
    table.drop_partition({"day": "mon"})
    table.upsert([{"id": number, "day": "mon"} for number in range(20, 30)])
    # The query hears of the second Monday while it still has rows of the first to read.
    seen += [stream.step() or [], stream.step() or []]
    table.drop_partition({"day": "mon"})
    table.upsert([{"id": number, "day": "mon"} for number in range(30, 40)])

    seen += stream.run()

    assert ids(seen) == list(range(40))


def test_checkpoint_at_the_end_of_a_dropped_partition_goes_on_and_one_below_it_fails(
    url: str, connection: penstock.Connection
) -> None:
    table = connection.create_table("t", "id BIGINT, day STRING", partitioned_by=["day"])
    table.append({"id": list(range(10)), "day": ["mon"] * 10})
    behind = [Stream(url, max_rows_per_trigger=5, fail_on_data_loss=flag) for flag in (True, False)]
    done = Stream(url)
    done.run()
    for stream in (*behind, done):
        stream.step()
        stream.stop()
    table.drop_partition({"day": "mon"})
    table.append({"id": list(range(10, 15)), "day": ["tue"] * 5})

    assert ids(done.run()) == list(range(10, 15))
    with pytest.raises(PartitionNotFoundError, match="partition=day=mon"):
        behind[0].run()
    assert ids(behind[1].run()) == list(range(10, 15))


def test_lease_holds_the_snapshot_until_it_was_read(url: str, connection: penstock.Connection) -> None:
    table = connection.create_table("t", DDL, buckets=2)
    table.upsert([{"id": number, "v": "a"} for number in range(30)])
    stream = Stream(url, max_rows_per_trigger=20)

    stream.step()
    lease = connection.lease(stream.stands["lease"])
    held = {bucket: snapshot.offset for bucket, snapshot in lease.snapshots.items()}
    stream.run()

    assert held == table.cut()
    with pytest.raises(LeaseNotFoundError):
        lease.renew()


def test_retain_holds_the_log_where_the_query_stands(url: str, connection: penstock.Connection) -> None:
    table = connection.create_table("t", DDL)
    table.upsert([{"id": number, "v": "a"} for number in range(30)])
    stream = Stream(url, retain="1d")

    stream.run()
    table.upsert([{"id": number, "v": "b"} for number in range(10)])

    held = connection.lease(stream.stands["lease"]).snapshots
    assert [snapshot.offset for snapshot in held.values()] == [30]


def test_stream_without_change_types_is_refused_for_a_keyed_table(url: str, connection: penstock.Connection) -> None:
    connection.create_table("t", DDL)

    with pytest.raises(InvalidError, match="source=log"):
        Stream(url, source="live")


@pytest.mark.parametrize("text", ["yesterday", "{}", '{"version": 9}', ""])
def test_starts_that_are_none_are_refused(url: str, connection: penstock.Connection, text: str) -> None:
    connection.create_table("t", "id BIGINT")

    with pytest.raises(InvalidError):
        Stream(url, starting=text or "soon")


def test_offsets_come_back_as_they_were_and_others_are_refused(url: str, connection: penstock.Connection) -> None:
    table = connection.create_table("t", DDL, buckets=2)
    table.upsert([{"id": number, "v": "a"} for number in range(30)])
    stream = Stream(url, max_rows_per_trigger=20)
    stream.step()

    stored = StreamOffset.from_json(stream.stands, connection._link, table.info)

    assert stored.to_json(connection._link.database, table.info) == stream.stands
    for damage in ({"next": {"x": 1}}, {"phase": "later"}, {"next": {"0": -1}}, {"version": 4}, {"table_id": None}):
        with pytest.raises((InvalidError, ConflictError)):
            StreamOffset.from_json(stream.stands | damage, connection._link, table.info)


def test_a_bucket_that_is_not_led_just_now_keeps_its_place(
    url: str, connection: penstock.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = connection.create_table("t", DDL, buckets=2)
    table.upsert([{"id": number, "v": "a"} for number in range(10)])
    stream = Stream(url)
    first = stream.run()
    away = min(table.cut(), key=lambda bucket: bucket.bucket)
    log_state = RemoteChanges.log_state

    def of_the_others(changes: RemoteChanges, table_id: int) -> LogState:
        state = log_state(changes, table_id)
        others = {bucket: known for bucket, known in state.offsets.items() if bucket != away}
        return replace(state, offsets=others, away=(away,))

    with monkeypatch.context() as while_away:
        while_away.setattr(RemoteChanges, "log_state", of_the_others)
        table.upsert([{"id": number, "v": "b"} for number in range(10, 20)])
        second = stream.run()
    third = stream.run()

    assert ids(first) == list(range(10))
    assert second
    assert third
    assert ids(second + third) == list(range(10, 20)), "each change once, when its bucket is led again"
