"""Databases, tables, partitions and columns, as users meet them."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest

import penstock
from penstock.errors import (
    AlreadyExistsError,
    DatabaseNotFoundError,
    InvalidError,
    LimitError,
    PartitionNotFoundError,
    TableNotFoundError,
    UnsupportedError,
)

ARROW = pa.schema([("id", pa.int64()), ("city", pa.string()), ("amount", pa.decimal128(18, 2))])


def test_databases_are_created_listed_and_dropped(connection: penstock.Connection) -> None:
    connection.create_database("shop", if_not_exists=True)
    with pytest.raises(
        AlreadyExistsError, match=r"of that name; pass if_not_exists=True to use it, or .* database=shop"
    ):
        connection.create_database("shop")
    connection.create_table("shop.t", "a INT")

    assert "shop" in connection.list_databases()
    with pytest.raises(InvalidError, match="the database has tables; drop them, or use cascade"):
        connection.drop_database("shop")
    connection.drop_database("shop", cascade=True)
    assert "shop" not in connection.list_databases()
    with pytest.raises(DatabaseNotFoundError, match="no such database"):
        connection.drop_database("shop")
    connection.drop_database("shop", if_exists=True)
    with pytest.raises(DatabaseNotFoundError, match="create it with create_database"):
        connection.create_table("shop.t", "a INT")


def test_one_table_may_be_described_in_three_ways(connection: penstock.Connection) -> None:
    built = (
        penstock.Schema.builder()
        .column("id", pa.int64())
        .column("city", pa.string())
        .column("amount", pa.decimal128(18, 2))
        .primary_key("id")
        .build()
    )
    tables = [
        connection.create_table("shop.a", built, buckets=4),
        connection.create_table("shop.b", "id BIGINT, city STRING, amount DECIMAL(18,2), PRIMARY KEY (id)", buckets=4),
        connection.create_table("shop.c", ARROW, primary_key=["id"], buckets=4),
    ]

    assert len({str(table.schema) for table in tables}) == 1
    assert {table.info.primary_key for table in tables} == {("id",)}
    assert connection.list_tables("shop") == ["a", "b", "c"]


def test_a_handle_tells_what_its_table_is(connection: penstock.Connection) -> None:
    table = connection.create_table(
        "shop.orders",
        ARROW,
        primary_key=["city", "id"],
        partitioned_by=["city"],
        buckets=3,
        properties={"log.retention": "1h"},
    )

    info = connection.table("shop.orders").info

    assert info == table.info
    assert (info.path, info.buckets, info.bucket_key, info.partitioned_by) == ("shop.orders", 3, ("id",), ("city",))
    assert info.merge_engine == "last_row"
    assert info.properties == {"log.retention": "1h"}
    assert repr(table) == "<Table shop.orders, primary key (city, id), 3 columns, 3 buckets>"
    assert "shop.orders" in repr(info)
    assert repr(connection).startswith("<Connection to ")


def test_tables_are_created_once_and_dropped_once(connection: penstock.Connection) -> None:
    first = connection.create_table("shop.t", "id INT, PRIMARY KEY (id)")
    with pytest.raises(
        AlreadyExistsError, match=r"of that name; pass if_not_exists=True to use it, or .* table=shop\.t"
    ):
        connection.create_table("shop.t", "id INT")
    assert connection.create_table("shop.t", "x INT", if_not_exists=True).info == first.info

    connection.drop_table("shop.t")

    with pytest.raises(TableNotFoundError, match=r"no such table; .* table=shop.t"):
        connection.drop_table("shop.t")
    connection.drop_table("shop.t", if_exists=True)
    with pytest.raises(TableNotFoundError):
        connection.table("shop.t")
    with pytest.raises(TableNotFoundError):
        first.upsert([{"id": 1}])


def test_a_handle_never_reaches_another_table_of_the_same_name(connection: penstock.Connection) -> None:
    old = connection.create_table("shop.t", "id INT, PRIMARY KEY (id)")
    connection.drop_table("shop.t")
    new = connection.create_table("shop.t", "id INT, PRIMARY KEY (id)")

    with pytest.raises(TableNotFoundError):
        old.upsert([{"id": 1}])
    with pytest.raises(TableNotFoundError):
        old.scan()
    assert new.scan().to_arrow().num_rows == 0


@pytest.mark.parametrize(
    ("schema", "options", "message"),
    [
        ("id INT, PRIMARY KEY (nope)", {}, "no such column|nope"),
        ("id DOUBLE, PRIMARY KEY (id)", {}, "a key column cannot have this type; use decimal or bigint column=id"),
        ("id INT, ID INT", {}, "same name"),
        ("_offset INT", {}, "reserved"),
        ("id UINT, PRIMARY KEY (id)", {}, "."),
        (
            pa.schema([("a", pa.uint32())]),
            {},
            r"no column can have this type; use bigint \(int64\) column=a type=uint32",
        ),
        (pa.schema([("a", pa.duration("us"))]), {}, "use bigint, of microseconds"),
        ("id INT", {"buckets": 0}, "a table has 1 to 1024 buckets buckets=0"),
        ("id INT", {"merge_engine": "last_row"}, "merge engines need a primary key"),
        ("id INT, PRIMARY KEY (id)", {"merge_engine": "best_row"}, "no such merge engine; choose one of last_row"),
        ("id INT, v INT, PRIMARY KEY (id)", {"merge_engine": "versioned"}, "version_column go together"),
        ("id INT, v INT, PRIMARY KEY (id)", {"bucket_key": ["v"]}, "the bucket key is part of the primary key"),
        ("id INT, v INT, PRIMARY KEY (id)", {"partitioned_by": ["v"]}, "a partition column is part of the primary key"),
        ("id INT, PRIMARY KEY (id)", {"properties": {"log.retnetion": "1h"}}, "log.retnetion"),
        ("id INT, PRIMARY KEY (id)", {"properties": {"log.retention": "soon"}}, "soon"),
        (
            "id INT, PRIMARY KEY (id)",
            {"merge_engine": "first_row", "properties": {"delete.behavior": "allow"}},
            "a first_row table cannot allow deletes; use ignore or disable",
        ),
    ],
)
def test_what_has_no_place_is_refused_with_a_way_out(
    connection: penstock.Connection, schema: str | pa.Schema, options: dict[str, object], message: str
) -> None:
    with pytest.raises(InvalidError, match=message):
        connection.create_table("shop.t", schema, **options)  # type: ignore[arg-type]
    assert connection.list_tables("shop") == []


@pytest.mark.parametrize("name", ["", "a b", "../x", "x/y", "1a", "a.b.c", "a" * 200, "täble", "x\0", "a;b"])
def test_hostile_names_are_refused(connection: penstock.Connection, name: str) -> None:
    with pytest.raises(InvalidError, match=r"name|path"):
        connection.create_table(f"shop.{name}", "a INT")
    with pytest.raises(InvalidError):
        connection.create_database(name)


def test_unknown_arguments_are_refused(connection: penstock.Connection) -> None:
    with pytest.raises(TypeError, match="bucket_count"):
        connection.create_table("shop.t", "a INT", bucket_count=4)  # type: ignore[call-arg]


def test_an_added_column_reads_null_and_survives_older_handles(connection: penstock.Connection) -> None:
    altering = connection.create_table("shop.t", "id INT, v STRING, PRIMARY KEY (id)")
    old = connection.table("shop.t")
    old.upsert([{"id": 1, "v": "a"}, {"id": 2, "v": "b"}])

    new = altering.add_column("note", pa.string())
    new.upsert([{"id": 1, "v": "a", "note": "kept"}])
    old.upsert([{"id": 1, "v": "changed"}, {"id": 3, "v": "c"}])

    assert old.schema.names == ["id", "v"]
    assert new.schema.names == ["id", "v", "note"]
    assert new.get(id=1) == {"id": 1, "v": "changed", "note": "kept"}
    assert new.get(id=2) == {"id": 2, "v": "b", "note": None}
    assert altering.schema.names == ["id", "v", "note"]
    assert old.scan().to_arrow().column_names == ["id", "v", "note"]
    assert connection.table("shop.t").info == new.info


def test_partitions_are_made_by_writes_and_by_hand(connection: penstock.Connection) -> None:
    table = connection.create_table(
        "shop.t", "day DATE, id INT, PRIMARY KEY (day, id)", partitioned_by=["day"], buckets=2
    )
    monday, tuesday = dt.date(2024, 1, 1), dt.date(2024, 1, 2)
    table.upsert([{"day": monday, "id": n} for n in range(5)])

    assert table.create_partition({"day": tuesday}) == "day=2024-01-02"
    assert table.list_partitions() == ["day=2024-01-01", "day=2024-01-02"]
    with pytest.raises(AlreadyExistsError, match=r"pass if_not_exists=True .* partition=day=2024-01-02"):
        table.create_partition({"day": tuesday})
    assert table.create_partition({"day": tuesday}, if_not_exists=True) == "day=2024-01-02"
    assert len(table.cut()) == 4

    table.drop_partition({"day": monday})

    assert table.list_partitions() == ["day=2024-01-02"]
    assert table.scan().to_arrow().num_rows == 0
    with pytest.raises(PartitionNotFoundError, match="no such partition; look at list_partitions"):
        table.drop_partition({"day": monday})
    table.drop_partition({"day": monday}, if_exists=True)
    with pytest.raises(InvalidError):
        table.create_partition({"week": 1})


def test_partitions_have_a_limit_and_can_be_left_to_people(connection: penstock.Connection) -> None:
    limited = connection.create_table(
        "shop.a", "p INT, id INT, PRIMARY KEY (p, id)", partitioned_by=["p"], properties={"partition.max": 2}
    )
    with pytest.raises(LimitError, match=r"as many partitions as partition.max allows.* max=2"):
        limited.upsert([{"p": n, "id": n} for n in range(3)])
    assert limited.scan().to_arrow().num_rows == 0

    manual = connection.create_table(
        "shop.b",
        "p INT, id INT, PRIMARY KEY (p, id)",
        partitioned_by=["p"],
        properties={"partition.auto-create": False},
    )
    with pytest.raises(PartitionNotFoundError, match="p=1"):
        manual.upsert([{"p": 1, "id": 1}])
    manual.create_partition({"p": 1})
    assert manual.upsert([{"p": 1, "id": 1}]).changes == 1


def test_a_table_without_partitions_says_so(connection: penstock.Connection) -> None:
    table = connection.create_table("shop.t", "id INT, PRIMARY KEY (id)")
    with pytest.raises(UnsupportedError, match=r"the table is not partitioned table=shop.t"):
        table.create_partition({"id": 1})


def test_stats_count_rows_and_name_each_bucket(connection: penstock.Connection) -> None:
    table = connection.create_table("shop.t", "id INT, v STRING, PRIMARY KEY (id)", buckets=2)
    table.upsert([{"id": n, "v": "x"} for n in range(100)])
    table.upsert([{"id": n, "v": "y"} for n in range(50)])

    stats = table.stats()

    assert (stats.rows, stats.live_rows) == (150, 100)
    assert {bucket.bucket: bucket.visible for bucket in stats.buckets} == table.cut()
    assert sum(bucket.live_rows for bucket in stats.buckets) == 100


@pytest.mark.parametrize("auto_create", [True, False])
def test_delete_makes_no_partition(connection: penstock.Connection, auto_create: bool) -> None:
    table = connection.create_table(
        "shop.sales",
        "day INT, id INT, n INT, PRIMARY KEY (day, id)",
        partitioned_by=["day"],
        properties={"partition.auto-create": auto_create},
    )
    table.create_partition({"day": 1})
    table.upsert([{"day": 1, "id": 1, "n": 1}])

    gone = table.delete([{"day": 1, "id": 1}, {"day": 2, "id": 1}])
    cleared = table.delete([{"day": 3, "id": 1}], columns=["n"])
    applied = table.apply_changes([{"_change_type": "-D", "day": 4, "id": 1, "n": 1}])

    assert (gone.rows, gone.changes, gone.ignored) == (2, 1, 1)
    assert (cleared.ignored, applied.ignored) == (1, 1)
    assert table.list_partitions() == ["day=1"]


def test_column_that_is_there_is_not_added_again(connection: penstock.Connection) -> None:
    table = connection.create_table("shop.orders", "id INT, note STRING, PRIMARY KEY (id)")

    with pytest.raises(AlreadyExistsError, match="choose another column=note"):
        table.add_column("NOTE", "string")

    assert connection.table("shop.orders").schema.names == ["id", "note"]
