"""Reading the log: what a change looks like, where a pull starts and ends, and when it wakes."""

from __future__ import annotations

import datetime
import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pytest
from tests.kit.open_table import OpenTableRig, bucket, delete, open_tables, pins, write

from penstock.engine.changes.reader import ChangeReader
from penstock.engine.table.open_table import OpenTable
from penstock.errors import (
    ClosedError,
    InvalidError,
    NotLeaderError,
    OffsetOutOfRangeError,
    PartitionNotFoundError,
    TableNotFoundError,
)
from penstock.log.settings import LogSettings
from penstock.model.node.calls import ChangePage, Images, Offsets, Operation, PullChanges, WriteCall
from penstock.model.node.principal import LOCAL
from penstock.model.place.bucket import LIFE_OFFSETS, TableBucket

DDL = "id BIGINT, note STRING, amount DOUBLE, PRIMARY KEY (id)"
Positions = dict[TableBucket, tuple[int, int | None]]


@pytest.fixture
def rig() -> Iterator[OpenTableRig]:
    with open_tables(LogSettings(block_rows=16)) as made:
        yield made


@pytest.fixture
def table(rig: OpenTableRig) -> OpenTable:
    return rig.create("default.orders", DDL)


@pytest.fixture
def reader(rig: OpenTableRig) -> ChangeReader:
    return ChangeReader(rig.settings, rig.clock)


def pull(reader: ChangeReader, table: OpenTable, positions: Positions | None = None, **call: Any) -> list[ChangePage]:
    asked = positions if positions is not None else dict.fromkeys(table.buckets(), (0, None))
    return reader.pull(table, PullChanges(table.info.table_id, table.info.schema_id, asked, **call), principal=LOCAL)


def pull_all(reader: ChangeReader, table: OpenTable, start: int = 0, **call: Any) -> list[dict[str, Any]]:
    """Return all changes of the first bucket, pulled page by page."""
    rows: list[dict[str, Any]] = []
    while pages := pull(reader, table, {bucket(table): (start, None)}, **call):
        assert pages[0].start == start
        assert pages[0].next_offset > start
        start = pages[0].next_offset
        rows += pages[0].batch.to_pylist()
    return rows


def row(id_: int, note: str | None, amount: float | None = None) -> dict[str, Any]:
    return {"id": id_, "note": note, "amount": amount}


def brief(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [(r["_offset"], r["_change_type"], r["id"], r["note"]) for r in rows]


def fill(table: OpenTable) -> None:
    """Insert 1 and 2, update 1, delete 2, insert 2 again."""
    write(table, [row(1, "a"), row(2, "b")])
    write(table, [row(1, "c")])
    delete(table, [{"id": 2}])
    write(table, [row(2, "d")])


def test_full_images_give_the_row_before_and_the_row_after(reader: ChangeReader, table: OpenTable) -> None:
    fill(table)

    (page,) = pull(reader, table)

    assert brief(page.batch.to_pylist()) == [
        (0, "+I", 1, "a"),
        (1, "+I", 2, "b"),
        (2, "-U", 1, "a"),
        (2, "+U", 1, "c"),
        (3, "-D", 2, "b"),
        (4, "+I", 2, "d"),
    ]
    assert (page.bucket, page.start, page.next_offset, page.end) == (bucket(table), 0, 5, 5)


def test_after_images_give_the_keys_of_deleted_rows_only(reader: ChangeReader, table: OpenTable) -> None:
    fill(table)
    changes = pa.RecordBatch.from_pylist(
        [{**row(1, "gone", 7.0), "_change_type": "-D"}],
        schema=table.info.schema.arrow_schema.append(pa.field("_change_type", pa.string())),
    )
    table.write(_apply(table, changes), principal=LOCAL)

    (page,) = pull(reader, table, images=Images.AFTER)

    assert brief(page.batch.to_pylist()) == [
        (0, "+I", 1, "a"),
        (1, "+I", 2, "b"),
        (2, "+U", 1, "c"),
        (3, "-D", 2, None),
        (4, "+I", 2, "d"),
        (5, "-D", 1, None),
    ]
    assert page.batch.column("amount").null_count == 6


def _apply(table: OpenTable, batch: pa.RecordBatch) -> WriteCall:
    return WriteCall(table.info.table_id, table.info.schema_id, Operation.APPLY, batch)


def test_changes_of_a_log_table_are_appends(reader: ChangeReader, rig: OpenTableRig) -> None:
    log = rig.create("default.clicks", "id BIGINT, note STRING")
    write(log, [{"id": 1, "note": "a"}, {"id": 1, "note": "a"}])

    (page,) = pull(reader, log)

    assert brief(page.batch.to_pylist()) == [(0, "+A", 1, "a"), (1, "+A", 1, "a")]


def test_columns_of_a_change(reader: ChangeReader, rig: OpenTableRig, table: OpenTable) -> None:
    write(table, [row(1, "a")])
    rig.clock.advance(1_500)
    write(table, [row(1, "b")])

    (page,) = pull(reader, table, columns=("note", "id"))

    assert page.batch.schema == pa.schema(
        [
            pa.field("note", pa.string()),
            pa.field("id", pa.int64(), nullable=False),
            pa.field("_change_type", pa.string(), nullable=False),
            pa.field("_offset", pa.int64(), nullable=False),
            pa.field("_timestamp", pa.timestamp("us", tz="UTC"), nullable=False),
            pa.field("_bucket", pa.int32(), nullable=False),
        ]
    )
    stamps = page.batch.column("_timestamp").to_pylist()
    assert stamps[0] == datetime.datetime.fromtimestamp(1_700_000_000, datetime.UTC)
    assert [stamp - stamps[0] for stamp in stamps] == [datetime.timedelta(seconds=s) for s in (0, 1.5, 1.5)]
    assert page.batch.column("_bucket").to_pylist() == [0, 0, 0]


def test_partition_is_a_column_where_there_are_partitions(reader: ChangeReader, rig: OpenTableRig) -> None:
    days = rig.create("default.days", "day STRING, id BIGINT, PRIMARY KEY (day, id)", partitioned_by=["day"])
    write(days, [{"day": "mon", "id": 1}, {"day": "tue", "id": 2}])

    pages = pull(reader, days)

    found = {page.bucket.partition: page.batch.column("_partition").to_pylist() for page in pages}
    assert found == {"day=mon": ["day=mon"], "day=tue": ["day=tue"]}


@pytest.mark.parametrize(
    "changes", [{"columns": ("nothing",)}, {"max_bytes": 0}, {"max_bytes": 1 << 30}, {"wait_ms": -1}]
)
def test_malformed_pulls_are_refused(reader: ChangeReader, table: OpenTable, changes: dict[str, Any]) -> None:
    with pytest.raises(InvalidError):
        pull(reader, table, **changes)


@pytest.mark.parametrize("position", [(-1, None), (5, 4)])
def test_malformed_positions_are_refused(
    reader: ChangeReader, table: OpenTable, position: tuple[int, int | None]
) -> None:
    with pytest.raises(InvalidError):
        pull(reader, table, {bucket(table): position}, reader_id="r")

    assert pins(table) == {}


@pytest.mark.parametrize("reader_id", [None, "r"])
def test_start_below_the_base_names_bucket_and_base_and_says_what_to_do(
    reader: ChangeReader, rig: OpenTableRig, table: OpenTable, reader_id: str | None
) -> None:
    fill(table)
    rig.compact(table, 3)

    with pytest.raises(OffsetOutOfRangeError, match="start at the base") as refused:
        pull(reader, table, {bucket(table): (2, None)}, reader_id=reader_id)

    assert refused.value.facts == {"bucket": bucket(table), "offset": 2, "base": 3}
    assert brief(pull_all(reader, table, 3)) == [(3, "-D", 2, "b"), (4, "+I", 2, "d")]


def test_start_beyond_the_end_is_refused(reader: ChangeReader, table: OpenTable) -> None:
    fill(table)

    with pytest.raises(OffsetOutOfRangeError, match="beyond the end"):
        pull(reader, table, {bucket(table): (6, None)})


def test_bucket_not_led_here_is_refused(reader: ChangeReader, table: OpenTable) -> None:
    table.step_down(table.bucket_id(bucket(table)))

    for reader_id in ("r", None):
        with pytest.raises(NotLeaderError):
            pull(reader, table, reader_id=reader_id)


def test_unknown_partition_is_refused(reader: ChangeReader, rig: OpenTableRig) -> None:
    days = rig.create("default.days", "day STRING, id BIGINT, PRIMARY KEY (day, id)", partitioned_by=["day"])

    with pytest.raises(PartitionNotFoundError):
        pull(reader, days, {bucket(days, 0, "day=mon"): (0, None)})


def test_end_is_respected(reader: ChangeReader, table: OpenTable) -> None:
    fill(table)

    (page,) = pull(reader, table, {bucket(table): (1, 3)})

    assert brief(page.batch.to_pylist()) == [(1, "+I", 2, "b"), (2, "-U", 1, "a"), (2, "+U", 1, "c")]
    assert (page.next_offset, page.end) == (3, 5)


def test_finished_positions_are_not_waited_for(reader: ChangeReader, table: OpenTable) -> None:
    fill(table)

    assert pull(reader, table, {bucket(table): (5, 5)}, wait_ms=60_000) == []


def test_pages_are_cut_by_bytes_and_never_between_the_rows_of_an_update(
    reader: ChangeReader, rig: OpenTableRig, table: OpenTable
) -> None:
    for round_ in range(3):
        write(table, [row(i, f"{round_}-{i}" * 5, 1.0) for i in range(50)])
    rig.seal(table)

    start, sizes, rows = 0, [], []
    while pages := pull(reader, table, {bucket(table): (start, None)}, max_bytes=1_500):
        start = pages[0].next_offset
        sizes.append(pages[0].batch.nbytes)
        kinds = pages[0].batch.column("_change_type").to_pylist()
        assert kinds[0] in {"+I", "-U"}
        assert kinds[-1] in {"+I", "+U"}
        rows += pages[0].batch.to_pylist()

    assert max(sizes) <= 1_500
    assert min(sizes[:-1]) > 1_000
    assert rows == pull(reader, table)[0].batch.to_pylist()


def test_page_holds_at_least_one_change_with_both_its_rows(reader: ChangeReader, table: OpenTable) -> None:
    fill(table)

    (page,) = pull(reader, table, {bucket(table): (2, None)}, max_bytes=1)

    assert brief(page.batch.to_pylist()) == [(2, "-U", 1, "a"), (2, "+U", 1, "c")]


def test_bytes_are_shared_out_over_buckets_and_what_one_leaves_goes_to_the_others(
    reader: ChangeReader, rig: OpenTableRig
) -> None:
    wide = rig.create("default.wide", DDL, buckets=3)
    for number in range(60):
        write(wide, [row(i, "x" * 20, 1.0) for i in range(10 * number, 10 * number + 10)])
    ends = {name: offsets.end for name, offsets in reader.offsets(wide).items()}
    positions: Positions = dict.fromkeys(wide.buckets(), (0, None))
    small = bucket(wide, 0)
    positions[small] = (ends[small] - 1, None)

    pages = {page.bucket: page for page in pull(reader, wide, positions, max_bytes=9_000)}

    assert set(pages) == set(wide.buckets())
    sizes = {name: page.batch.nbytes for name, page in pages.items()}
    assert sum(sizes.values()) <= 9_000
    assert sizes[small] < 200
    assert all(size > 4_000 for name, size in sizes.items() if name != small)


def test_buckets_without_changes_have_no_page(reader: ChangeReader, rig: OpenTableRig) -> None:
    wide = rig.create("default.wide", DDL, buckets=4)
    write(wide, [row(1, "a")])

    assert len(pull(reader, wide)) == 1


def test_pull_without_changes_returns_nothing_when_the_wait_ran_out(reader: ChangeReader, table: OpenTable) -> None:
    assert pull(reader, table, wait_ms=5) == []


def test_waiting_pull_wakes_for_the_first_change(reader: ChangeReader, table: OpenTable) -> None:
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(pull, reader, table, wait_ms=30_000)
        write(table, [row(1, "a")])
        (page,) = waiting.result(30)

    assert brief(page.batch.to_pylist()) == [(0, "+I", 1, "a")]


def test_waiting_pull_does_not_hold_writers_back(reader: ChangeReader, rig: OpenTableRig) -> None:
    wide = rig.create("default.wide", DDL, buckets=2)
    write(wide, [row(i, "a") for i in range(20)])
    ends = {name: (offsets.end, None) for name, offsets in reader.offsets(wide).items()}
    (quiet,) = [name for name in ends if name.bucket == 0]
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(pull, reader, wide, {quiet: ends[quiet]}, wait_ms=30_000)
        for number in range(20):
            written = write(wide, [row(1_000 + number, "b")])
            if quiet in written.offsets:
                break
        (page,) = waiting.result(30)

    assert page.start == ends[quiet][0]


@pytest.mark.parametrize("how", ["drop", "close"])
def test_waiting_pull_wakes_when_the_table_goes(reader: ChangeReader, table: OpenTable, how: str) -> None:
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(pull, reader, table, wait_ms=30_000)
        while not table.committer.published._waiters:  # type: ignore[attr-defined]
            assert not waiting.done()
        if how == "drop":
            table.drop()
        else:
            table.close(ClosedError("the node is closed"))
        with pytest.raises(TableNotFoundError if how == "drop" else ClosedError):
            waiting.result(30)


def test_waiting_pull_ends_with_the_wait_also_if_its_partition_goes(reader: ChangeReader, rig: OpenTableRig) -> None:
    days = rig.create("default.days", "day STRING, id BIGINT, PRIMARY KEY (day, id)", partitioned_by=["day"])
    write(days, [{"day": "mon", "id": 1}])
    position: Positions = {bucket(days, 0, "day=mon"): (1, None)}
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(pull, reader, days, position, wait_ms=100)
        days.drop_partition({"day": "mon"})
        assert waiting.result(30) == []


def test_dropped_partition_is_read_to_its_end_and_no_further(reader: ChangeReader, rig: OpenTableRig) -> None:
    days = rig.create("default.days", "day STRING, id BIGINT, PRIMARY KEY (day, id)", partitioned_by=["day"])
    write(days, [{"day": "mon", "id": number} for number in range(3)])
    name = bucket(days, 0, "day=mon")
    partition = days.drop_partition({"day": "mon"})
    assert partition is not None
    write(days, [{"day": "mon", "id": 9}])

    (page,) = pull(reader, days, {name: (1, None)}, reader_id="r")
    assert page.batch.column("id").to_pylist() == [1, 2]
    assert pull(reader, days, {name: (3, None)}, reader_id="r") == []
    days.dropped.remove(partition.partition_id)
    assert pull(reader, days, {name: (3, None)}) == []
    with pytest.raises(PartitionNotFoundError, match=r"partition=day=mon bucket=.* offset=1 end=3"):
        pull(reader, days, {name: (1, None)})
    (page,) = pull(reader, days, {name: (LIFE_OFFSETS, None)})
    assert page.batch.column("id").to_pylist() == [9]


def test_reader_pins_where_it_stands_for_one_ttl(reader: ChangeReader, rig: OpenTableRig, table: OpenTable) -> None:
    fill(table)
    pull(reader, table, {bucket(table): (2, None)}, reader_id="r")
    assert pins(table) == {"reader-r": 2}
    pull(reader, table, {bucket(table): (4, None)}, reader_id="r")
    assert pins(table) == {"reader-r": 4}
    rig.clock.advance(rig.settings.scanner_ttl_ms)
    assert reader.reap() == 0
    rig.clock.advance(1)

    assert reader.reap() == 1

    assert pins(table) == {}


def test_reader_lets_go_of_buckets_it_no_longer_names(reader: ChangeReader, rig: OpenTableRig) -> None:
    wide = rig.create("default.wide", DDL, buckets=2)
    pull(reader, wide, reader_id="r")

    pull(reader, wide, {bucket(wide, 1): (0, None)}, reader_id="r")

    assert (pins(wide, 0), pins(wide, 1)) == ({}, {"reader-r": 0})


def test_offsets_tell_base_and_end(reader: ChangeReader, rig: OpenTableRig, table: OpenTable) -> None:
    fill(table)
    rig.compact(table, 3)

    assert reader.offsets(table) == {bucket(table): Offsets(3, 5)}


def test_offsets_of_a_time_begin_with_the_first_change_at_or_after_it(
    reader: ChangeReader, rig: OpenTableRig, table: OpenTable
) -> None:
    start_ms = rig.clock.wall_ms()
    for number in range(4):
        write(table, [row(number, "a"), row(number + 10, "b")])
        rig.clock.advance(100)

    found = {
        ms: reader.offsets(table, timestamp_ms=start_ms + ms)[bucket(table)].base for ms in (-5, 0, 1, 100, 300, 301)
    }

    assert found == {-5: 0, 0: 0, 1: 2, 100: 2, 300: 6, 301: 8}


@pytest.mark.parametrize("seed", range(4))
def test_snapshot_and_the_changes_after_it_give_the_later_snapshot(
    reader: ChangeReader, rig: OpenTableRig, table: OpenTable, seed: int
) -> None:
    print(f"seed={seed}")
    source = random.Random(seed)
    states: list[dict[int, dict[str, Any]]] = [{}]
    for step in range(120):
        ids = [source.randrange(20) for _ in range(source.randrange(1, 6))]
        if source.random() < 0.3:
            delete(table, [{"id": i} for i in set(ids)])
        else:
            write(table, [row(i, f"{step}", float(step)) for i in ids])
        _replay(states, reader, table)
        if source.random() < 0.15:
            rig.compact(table, source.randrange(len(states)))
        elif source.random() < 0.2:
            rig.seal(table)
    (offsets,) = reader.offsets(table).values()

    for images in Images:
        state = dict(states[offsets.base])
        rows = pull_all(reader, table, offsets.base, images=images, max_bytes=700)
        for change in rows:
            _apply_to(state, change, images)
        assert state == states[offsets.end]


def _replay(states: list[dict[int, dict[str, Any]]], reader: ChangeReader, table: OpenTable) -> None:
    """Note the state after each new change."""
    for change in pull_all(reader, table, len(states) - 1):
        if change["_change_type"] == "-U":
            assert _user(change) == states[-1][change["id"]]
            continue
        state = dict(states[-1])
        _apply_to(state, change, Images.FULL)
        states.append(state)


def _user(change: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in change.items() if not name.startswith("_")}


def _apply_to(state: dict[int, dict[str, Any]], change: dict[str, Any], images: Images) -> None:
    kind, id_ = change["_change_type"], change["id"]
    if kind in {"-U", "-D"} and images is Images.FULL:
        assert state[id_] == _user(change)
    if kind == "+I":
        assert id_ not in state
    if kind == "-D":
        del state[id_]
    elif kind != "-U":
        state[id_] = _user(change)
