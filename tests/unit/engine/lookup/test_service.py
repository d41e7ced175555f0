"""Rows by key and by the first columns of their key."""

from __future__ import annotations

import errno
import random
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pytest
from tests.kit.open_table import OpenTableRig, bucket, delete, open_tables, write

from penstock.engine.lookup import service as lookups
from penstock.engine.lookup.index_reads import read_index
from penstock.engine.lookup.service import lookup, prefix_lookup
from penstock.engine.table.open_table import OpenTable
from penstock.errors import InvalidError, NotLeaderError, SchemaMismatchError, UnavailableError, UnsupportedError
from penstock.log.settings import LogSettings
from penstock.model.node.calls import LookupCall, LookupResult

DDL = "city STRING, day INT, id BIGINT, note STRING, PRIMARY KEY (city, day, id)"
CITIES = ["Ulm", "Ulma", "Bonn", "", "U\0lm"]


@pytest.fixture
def rig() -> Iterator[OpenTableRig]:
    with open_tables(LogSettings(block_rows=16)) as made:
        yield made


@pytest.fixture(
    params=[
        {},
        {"buckets": 3},
        {"buckets": 4, "bucket_key": ["city"]},
        {"partitioned_by": ["day"], "buckets": 2},
        {"partitioned_by": ["city"], "buckets": 2, "bucket_key": ["day"]},
    ],
    ids=["one", "buckets", "by-city", "per-day", "per-city"],
)
def table(rig: OpenTableRig, request: pytest.FixtureRequest) -> OpenTable:
    return rig.create("default.orders", DDL, **request.param)


def row(city: str, day: int, id_: int, note: str | None = None) -> dict[str, Any]:
    return {"city": city, "day": day, "id": id_, "note": note}


def everything(note: str) -> list[dict[str, Any]]:
    return [row(city, day, id_, f"{note}-{city}-{day}-{id_}") for city in CITIES for day in (-1, 2) for id_ in range(4)]


def fields(table: OpenTable, names: list[str]) -> pa.Schema:
    return pa.schema([table.info.schema.arrow_schema.field(name) for name in names])


def ask(table: OpenTable, keys: list[dict[str, Any]], **call: Any) -> LookupResult:
    batch = pa.RecordBatch.from_pylist(keys, schema=fields(table, ["city", "day", "id"]))
    return lookup(table, LookupCall(table.info.table_id, table.info.schema_id, batch, **call))


def ask_prefix(table: OpenTable, prefix: dict[str, Any], **call: Any) -> LookupResult:
    batch = pa.RecordBatch.from_pylist([prefix], schema=fields(table, list(prefix)))
    return prefix_lookup(table, LookupCall(table.info.table_id, table.info.schema_id, batch, **call))


@pytest.mark.parametrize("sealed", [False, True])
def test_rows_come_in_the_order_asked_with_nulls_where_there_is_none(
    rig: OpenTableRig, table: OpenTable, sealed: bool
) -> None:
    write(table, everything("old"))
    if sealed:
        rig.seal(table)
    write(table, [row("Bonn", 2, 3, "new")])
    delete(table, [row("Ulm", 2, 0)])
    keys = [row("Ulm", 2, 1), row("Bonn", 2, 3), row("Ulm", 2, 0), row("Ulm", 2, 1), row("Rome", 9, 9), row("", -1, 0)]

    result = ask(table, keys)

    assert result.batch.column("note").to_pylist() == ["old-Ulm-2-1", "new", None, "old-Ulm-2-1", None, "old---1-0"]
    assert result.batch.column("_found").to_pylist() == [True, True, False, True, False, True]
    assert result.batch.select(["city", "day", "id"]).to_pylist() == [
        {name: key[name] for name in ("city", "day", "id")} for key in keys
    ]


def test_single_key_is_found_or_not(rig: OpenTableRig, table: OpenTable) -> None:
    write(table, everything("a"))
    rig.seal(table)

    found, absent = ask(table, [row("Ulma", -1, 2)]), ask(table, [row("Rome", 2, 2)])

    assert found.batch.to_pylist() == [{**row("Ulma", -1, 2, "a-Ulma--1-2"), "_found": True}]
    assert absent.batch.to_pylist() == [{**row("Rome", 2, 2), "_found": False}]


def test_answer_carries_the_offsets_it_reflects(table: OpenTable) -> None:
    write(table, everything("a"))

    result = ask(table, everything("a"))

    ends = {table.name(bucket_id): view.visible for bucket_id, view in table.view.items()}
    assert result.offsets == {name: end for name, end in ends.items() if end}


def test_absent_partition_is_not_found_and_not_made(rig: OpenTableRig) -> None:
    days = rig.create("default.days", DDL, partitioned_by=["day"])
    write(days, [row("Ulm", 1, 1, "a")])

    result = ask(days, [row("Ulm", 2, 1), row("Ulm", 1, 1), row("Ulm", 3, 1)])

    assert result.batch.column("_found").to_pylist() == [False, True, False]
    assert [partition.name for partition in days.partitions()] == ["day=1"]
    assert ask(days, [row("Ulm", 7, 1)]).batch.column("_found").to_pylist() == [False]


def drop_once(rig: OpenTableRig, table: OpenTable, day: int) -> None:
    """Drop a partition with its files, unless it is dropped."""
    partition = table.drop_partition({"day": day}, if_exists=True)
    if partition is not None:
        table.dropped.remove(partition.partition_id)
        rig.storage.remove_partition(table.info.table_id, partition.partition_id, table.info.buckets)


@pytest.mark.parametrize("sealed", [False, True])
@pytest.mark.parametrize("after", [False, True], ids=["before-the-index-is-read", "after-the-index-is-read"])
@pytest.mark.parametrize("days", [[2], [1, 2, 3], None], ids=["one", "several", "prefix"])
def test_keys_of_a_partition_that_goes_meanwhile_are_not_found(
    rig: OpenTableRig, monkeypatch: pytest.MonkeyPatch, days: list[int] | None, after: bool, sealed: bool
) -> None:
    table = rig.create("default.days", DDL, partitioned_by=["day"])
    write(table, [row("Ulm", day, 1, "a") for day in (1, 2, 3)])
    if sealed:
        rig.seal(table)

    def read_index_and_drop(*args: Any, **options: Any) -> Any:
        if not after:
            drop_once(rig, table, 2)
        read = read_index(*args, **options)
        drop_once(rig, table, 2)
        return read

    monkeypatch.setattr(lookups, "read_index", read_index_and_drop)
    if days is None:
        result, found = ask_prefix(table, {"city": "Ulm"}), [1, 3]
    else:
        result = ask(table, [row("Ulm", day, 1) for day in days])
        found = [day for day in days if day != 2]
        assert result.batch.column("day").to_pylist() == days
        assert result.batch.column("_found").to_pylist() == [day != 2 for day in days]

    assert [shown["day"] for shown in result.batch.to_pylist() if shown["note"] == "a"] == found
    assert result.offsets == {bucket(table, 0, f"day={day}"): 1 for day in found}


@pytest.mark.parametrize("count", [0, 1, 3])
def test_projection_gives_the_columns_asked_for(table: OpenTable, count: int) -> None:
    write(table, everything("a"))
    keys = everything("a")[:count]

    values, only_keys = ask(table, keys, columns=("note",)), ask(table, keys, columns=("id", "city"))

    assert values.batch.schema.names == ["note", "_found"]
    assert only_keys.batch.to_pylist() == [{"id": key["id"], "city": key["city"], "_found": True} for key in keys]


def test_reader_sees_the_schema_it_knows(rig: OpenTableRig, table: OpenTable) -> None:
    write(table, everything("a"))
    rig.add_column(table, "more", pa.int64())
    keys = pa.RecordBatch.from_pylist([row("Ulm", 2, 1)], schema=fields(table, ["city", "day", "id"]))

    old = lookup(table, LookupCall(table.info.table_id, 0, keys)).batch
    new = lookup(table, LookupCall(table.info.table_id, 1, keys)).batch

    assert old.schema.names == ["city", "day", "id", "note", "_found"]
    assert new.to_pylist() == [{**row("Ulm", 2, 1, "a-Ulm-2-1"), "more": None, "_found": True}]


def wrong_keys() -> dict[str, pa.RecordBatch]:
    good = {"city": pa.array(["Ulm"]), "day": pa.array([1], pa.int32()), "id": pa.array([1], pa.int64())}
    return {
        "missing": pa.record_batch({"city": good["city"], "day": good["day"]}),
        "extra": pa.record_batch({**good, "note": good["city"]}),
        "type": pa.record_batch({**good, "day": pa.array([1], pa.int64())}),
        "null": pa.record_batch({**good, "id": pa.array([None], pa.int64())}),
        "twice": pa.RecordBatch.from_arrays([good["city"], good["city"], good["id"]], names=["city", "city", "id"]),
    }


@pytest.mark.parametrize("kind", wrong_keys())
def test_keys_that_do_not_fit_are_refused(table: OpenTable, kind: str) -> None:
    with pytest.raises(SchemaMismatchError):
        lookup(table, LookupCall(table.info.table_id, 0, wrong_keys()[kind]))


def test_invalid_arrow_data_is_refused(table: OpenTable) -> None:
    bad = pa.StringArray.from_buffers(1, pa.py_buffer(b"\0\0\0\0\1\0\0\0"), pa.py_buffer(b"\xff"))
    keys = pa.record_batch({"city": bad, "day": pa.array([1], pa.int32()), "id": pa.array([1], pa.int64())})

    with pytest.raises(InvalidError):
        lookup(table, LookupCall(table.info.table_id, 0, keys))


def test_unknown_column_is_refused(table: OpenTable) -> None:
    with pytest.raises(InvalidError):
        ask(table, [row("Ulm", 1, 1)], columns=("nothing",))


def test_log_table_has_no_key_to_look_up(rig: OpenTableRig) -> None:
    log = rig.create("default.clicks", "id BIGINT")
    call = LookupCall(log.info.table_id, 0, pa.record_batch({"id": pa.array([1], pa.int64())}))

    for look in (lookup, prefix_lookup):
        with pytest.raises(UnsupportedError):
            look(log, call)


def test_bucket_not_led_here_is_refused(rig: OpenTableRig) -> None:
    one = rig.create("default.one", DDL)
    write(one, everything("a"))
    one.step_down(one.bucket_id(bucket(one)))

    with pytest.raises(NotLeaderError):
        ask(one, [row("Ulm", 1, 1)])
    with pytest.raises(NotLeaderError):
        ask_prefix(one, {"city": "Ulm"})


@pytest.mark.parametrize("keys", [1, 2])
def test_disk_that_refuses_is_unavailable(rig: OpenTableRig, keys: int) -> None:
    one = rig.create("default.one", DDL)
    write(one, everything("a"))
    rig.seal(one)
    rig.disk.fail_reads_when(lambda _: True, errno.EIO, times=1)

    with pytest.raises(UnavailableError):
        ask(one, everything("a")[:keys])

    assert ask(one, everything("a")[:keys]).batch.num_rows == keys


@pytest.mark.parametrize(
    "prefix",
    [
        {"city": "Ulm"},
        {"city": ""},
        {"city": "U"},
        {"city": "Ulm", "day": 2},
        {"city": "U\0lm", "day": -1},
        {"city": "Ulm", "day": 9},
        {"city": "Bonn", "day": 2, "id": 3},
        {"city": "Bonn", "day": 2, "id": 9},
    ],
    ids=str,
)
def test_prefix_finds_the_live_rows_that_begin_so_in_key_order(table: OpenTable, prefix: dict[str, Any]) -> None:
    rows = everything("a")
    random.Random(5).shuffle(rows)
    write(table, rows)
    delete(table, [row("Ulm", 2, 2)])
    live = [found for found in everything("a") if (found["city"], found["day"], found["id"]) != ("Ulm", 2, 2)]

    result = ask_prefix(table, prefix)

    matching = [found for found in live if all(found[name] == value for name, value in prefix.items())]
    assert result.batch.to_pylist() == sorted(matching, key=lambda r: (r["city"].encode(), r["day"], r["id"]))
    assert result.batch.schema == table.info.schema.arrow_schema or "id" in prefix


def test_prefix_looks_only_where_its_rows_can_be(rig: OpenTableRig) -> None:
    by_city = rig.create("default.by_city", DDL, buckets=4, bucket_key=["city"])
    per_day = rig.create("default.per_day", DDL, partitioned_by=["day"])
    for one in (by_city, per_day):
        write(one, everything("a"))

    assert len(ask_prefix(by_city, {"city": "Ulm"}).offsets) == 1
    assert len(ask_prefix(per_day, {"city": "Ulm"}).offsets) == 2
    assert len(ask_prefix(per_day, {"city": "Ulm", "day": 2}).offsets) == 1
    assert ask_prefix(per_day, {"city": "Ulm", "day": 7}).offsets == {}


def test_prefix_takes_a_projection(table: OpenTable) -> None:
    write(table, everything("a"))

    result = ask_prefix(table, {"city": "Bonn", "day": 2}, columns=("note",))

    assert result.batch.to_pylist() == [{"note": f"a-Bonn-2-{id_}"} for id_ in range(4)]


def test_prefix_is_one_row_of_the_first_key_columns(table: OpenTable) -> None:
    two = pa.record_batch({"city": ["Ulm", "Bonn"]})
    second = pa.record_batch({"day": pa.array([1], pa.int32())})

    for keys in (two, second):
        with pytest.raises(SchemaMismatchError):
            prefix_lookup(table, LookupCall(table.info.table_id, 0, keys))


@pytest.mark.parametrize("many", [False, True], ids=["few", "many"])
def test_lookups_never_see_part_of_a_write(rig: OpenTableRig, many: bool) -> None:
    """A write gives all keys one value; whoever looks sees one value, whatever is written meanwhile."""
    table = rig.create("default.orders", DDL, buckets=2)
    keys = [row("Ulm", day, id_) for day in range(2) for id_ in range(750 if many else 50)]
    write(table, [{**key, "note": "0"} for key in keys])
    stop = threading.Event()

    def rewrite() -> None:
        for number in range(1, 200):
            if stop.is_set():
                return
            write(table, [{**key, "note": str(number)} for key in keys])

    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(rewrite)
        seen = [set(ask(table, keys).batch.column("note").to_pylist()) for _ in range(15)]
        seen += [set(ask_prefix(table, {"city": "Ulm"}).batch.column("note").to_pylist()) for _ in range(15)]
        stop.set()
        writing.result(60)

    assert {len(values) for values in seen} == {1}
