"""Counting rows, and the first rows in an order, without moving the others."""

from __future__ import annotations

import math
import random
from datetime import date
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from tests.scenarios.conftest import Connect

import penstock
from penstock.errors import InvalidError, LimitError, PartitionNotFoundError, SchemaMismatchError, UnsupportedError

SCHEMA = "id BIGINT NOT NULL, n BIGINT, x DOUBLE, s STRING, PRIMARY KEY (id)"


def filled(connection: penstock.Connection, seed: int, rows: int = 300, buckets: int = 3) -> penstock.Table:
    chance = random.Random(seed)
    table = connection.create_table("shop.t", SCHEMA, buckets=buckets)
    for _ in range(3):
        ids = chance.sample(range(rows * 2), rows)
        table.upsert(
            {
                "id": ids,
                "n": [chance.choice([None, 1, 2, 3, 10]) for _ in ids],
                "x": [chance.choice([None, math.nan, -0.0, 0.0, 1.5, math.inf, -math.inf]) for _ in ids],
                "s": [chance.choice([None, "", "a", "ä", "zz", "z"]) for _ in ids],
            }
        )
        table.delete({"id": chance.sample(range(rows * 2), rows // 10)})
    return table


def as_spark_orders(column: str, *, descends: bool) -> Any:
    """Return a key for sorting rows as Spark does: nulls below all, NaN above all."""

    def key(row: dict[str, Any]) -> tuple[Any, ...]:
        value = row[column]
        if value is None:
            return (0, 0)
        if isinstance(value, float) and math.isnan(value):
            return (2, 0)
        if isinstance(value, str):
            value = value.encode()
            return (1, (*(-byte for byte in value), 1)) if descends else (1, value)
        return (1, -value if descends else value)

    return (lambda row: (-key(row)[0], key(row)[1])) if descends else key


@pytest.mark.parametrize("seed", range(3))
def test_the_first_rows_are_those_of_the_whole_table_sorted(connect: Connect, seed: int) -> None:
    print("seed", seed)
    connection = connect()
    connection.create_database("shop")
    table = filled(connection, seed)
    rows = table.scan(offsets=True).to_arrow().to_pylist()

    for order_by in ("n", "n desc", "x asc", "X DESC".lower(), "s", "s desc", "id desc"):
        column, _, direction = order_by.partition(" ")
        expected = sorted(rows, key=as_spark_orders(column, descends=direction == "desc"))
        for limit in (0, 1, 7, 250, 10_000):
            found = table.scan(order_by=order_by, limit=limit, offsets=True).to_arrow().to_pylist()
            assert repr(found) == repr(expected[:limit]), (order_by, limit)
    expected = sorted(rows, key=as_spark_orders("s", descends=False))
    expected.sort(key=as_spark_orders("n", descends=True))
    assert repr(table.scan(order_by="n desc, s", limit=100, offsets=True).to_arrow().to_pylist()) == repr(
        expected[:100]
    )


def test_an_ordered_scan_has_columns_a_filter_a_cut_and_buckets(connection: penstock.Connection) -> None:
    table = connection.create_table("shop.t", SCHEMA, buckets=2)
    table.upsert({"id": list(range(50)), "n": list(range(50)), "x": [0.5] * 50, "s": ["a"] * 50})
    cut = table.cut()
    lease = connection.acquire_lease("job", cut)
    table.create_snapshot()
    table.upsert({"id": [1], "n": [1000], "x": [0.5], "s": ["b"]})

    def ids(**scan: Any) -> list[int]:
        found = table.scan(columns=["id"], order_by="n desc", limit=3, **scan).to_arrow()
        assert found.schema.names == ["id"]
        return list(found["id"].to_pylist())

    assert ids() == [1, 49, 48]
    assert ids(filter="n < 1000 AND s = 'a'") == [49, 48, 47]
    assert ids(as_of=cut) == ids(as_of=cut.to_json()) == [49, 48, 47]
    assert ids(source="snapshot") == [49, 48, 47]
    assert ids(lease=lease) == [49, 48, 47]
    one = table.scan(columns=["id"], order_by="`n` DESC", limit=100, buckets=[0]).to_arrow().num_rows
    two = table.scan(columns=["id"], order_by='"n" asc', limit=100, buckets=[1]).to_arrow().num_rows
    assert one + two == 50
    scan = table.scan(order_by="n", limit=2)
    assert scan.to_arrow() == scan.to_arrow()
    with pytest.raises(UnsupportedError, match="it has no token"):
        _ = scan.resume_token
    connection.drop_table("shop.t")
    assert lease.table("shop.t").scan(order_by="n desc", limit=1).to_arrow()["id"].to_pylist() == [49]
    assert lease.table("shop.t").count() == 50


def test_all_plain_types_have_an_order(connection: penstock.Connection) -> None:
    values: dict[str, tuple[pa.DataType, list[Any]]] = {
        "flag": (pa.bool_(), [False, True]),
        "small": (pa.int8(), [-3, 7]),
        "single": (pa.float32(), [-1.5, 2.5]),
        "money": (pa.decimal128(18, 2), [Decimal("-1.00"), Decimal("2.50")]),
        "day": (pa.date32(), [date(2020, 1, 1), date(2026, 1, 1)]),
        "at": (pa.timestamp("us"), [0, 1_000_000]),
        "raw": (pa.binary(), [b"\x00", b"\xff"]),
        "word": (pa.large_string(), ["a", "b"]),
    }
    fields = [pa.field("id", pa.int64(), nullable=False), *(pa.field(name, kind) for name, (kind, _) in values.items())]
    schema = pa.schema([*fields, pa.field("many", pa.list_(pa.int64()))])
    table = connection.create_table("shop.t", schema, primary_key=["id"])
    columns = [pa.array([1, 2, 3]), *(pa.array([v[1], None, v[0]], kind) for kind, v in values.values())]
    table.upsert(pa.RecordBatch.from_arrays([*columns, pa.array([[1], None, [2]])], schema=schema))

    for name in values:
        assert table.scan(["id"], order_by=name, limit=3).to_arrow()["id"].to_pylist() == [2, 3, 1], name
        assert table.scan(["id"], order_by=f"{name} desc", limit=3).to_arrow()["id"].to_pylist() == [1, 3, 2], name
    with pytest.raises(UnsupportedError, match="cannot be ordered"):
        table.scan(order_by="many", limit=3)


def test_what_cannot_be_ordered_is_refused(connection: penstock.Connection) -> None:
    table = connection.create_table("shop.t", SCHEMA)
    log = connection.create_table("shop.log", "n BIGINT")
    for order_by, message in (
        ("none", "no such column"),
        ("n, n desc", "names a column twice"),
        ("n downwards", "expected a comma"),
        ("", "expected the name of a column"),
        ("n nulls last", "expected a comma"),
    ):
        with pytest.raises(InvalidError, match=message):
            table.scan(order_by=order_by, limit=1)
    with pytest.raises(InvalidError, match="order_by takes a limit"):
        table.scan(order_by="n")
    with pytest.raises(InvalidError, match="order_by is a text"):
        table.scan(order_by=["n"], limit=1)  # type: ignore[arg-type]
    with pytest.raises(UnsupportedError, match="a log is in the order of its offsets"):
        log.scan(order_by="n", limit=1)
    with pytest.raises(UnsupportedError, match="a log is in the order of its offsets"):
        table.scan(order_by="n", limit=1, source="log")
    table.upsert([{"id": 1, "n": 1, "x": 1.0, "s": "a"}])
    with pytest.raises(LimitError, match="an ordered scan gives fewer rows"):
        table.scan(order_by="n", limit=1_000_000).to_arrow()


@pytest.mark.parametrize("seed", range(2))
def test_rows_are_counted_at_one_cut(connect: Connect, seed: int) -> None:
    print("seed", seed)
    connection = connect()
    connection.create_database("shop")
    empty = connection.create_table("shop.empty", SCHEMA)
    table = filled(connection, seed)
    before, cut = table.scan().to_arrow().num_rows, table.cut()
    table.create_snapshot()
    table.delete_where("n = 1")

    assert len(empty) == empty.count() == empty.head().num_rows == 0
    assert bool(empty)
    assert len(table) == table.count() == table.scan().to_arrow().num_rows < before
    assert table.count(as_of=cut) == table.count(as_of=cut.to_json()) == before
    for filter in ("n > 1", "s IS NULL", "id < 50 AND n IN (2, 3)", "n > 100"):
        assert table.count(filter) == table.scan(filter=filter).to_arrow().num_rows
        assert table.count(filter, as_of=cut) == table.scan(filter=filter, as_of=cut).to_arrow().num_rows
    assert table.head(4).num_rows == 4
    assert table.head().num_rows == 10
    assert table.head(0).num_rows == 0
    with pytest.raises(InvalidError):
        table.head(-1)


def test_partitions_and_logs_are_counted(connection: penstock.Connection) -> None:
    days = connection.create_table(
        "shop.days", "day STRING, id BIGINT, PRIMARY KEY (day, id)", partitioned_by=["day"], buckets=2
    )
    log = connection.create_table("shop.log", "n BIGINT", buckets=2)
    days.upsert([{"day": day, "id": i} for day in ("mon", "tue") for i in range(10)])
    cut = days.cut()
    log.append({"n": list(range(10))})
    log_cut = log.cut()
    log.append({"n": [1, None]})

    assert len(days) == 20
    assert days.count("day = 'mon'") == 10
    assert days.scan(order_by="id desc, day", limit=2).to_arrow().to_pylist() == [
        {"day": "mon", "id": 9},
        {"day": "tue", "id": 9},
    ]
    days.drop_partition({"day": "mon"})
    assert len(days) == 10
    with pytest.raises(PartitionNotFoundError):
        days.count(as_of=cut)
    assert len(log) == 12
    assert log.count("n < 5") == 6
    assert log.count(as_of=log_cut) == 10
    assert log.head(3).num_rows == 3
    log.truncate()
    assert len(log) == 0


def test_counts_and_ordered_scans_that_need_a_dropped_column_raise(connection: penstock.Connection) -> None:
    table = filled(connection, seed=3)
    lease = connection.acquire_lease("job", table.cut())
    leased = lease.table("shop.t")
    scans = [
        table.scan(order_by="n, id", limit=2, columns=["id"]),
        table.scan(order_by="id", limit=2, columns=["n"]),
        table.scan(order_by="id", limit=2, columns=["id"], filter="n = 1"),
    ]
    whole = leased.count()

    connection.table("shop.t").drop_column("n")

    for scan in scans:
        with pytest.raises(SchemaMismatchError, match=r"dropped since this reader began.*column=n"):
            scan.to_arrow()
    with pytest.raises(SchemaMismatchError, match=r"dropped since this reader began.*column=n"):
        leased.count("n = 1")
    assert leased.count() == whole == leased.count("x is null or x is not null")
