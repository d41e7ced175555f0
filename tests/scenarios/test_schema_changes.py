"""Columns are added with defaults, renamed, dropped, widened, under writers and readers of before."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import penstock
from penstock.errors import (
    AlreadyExistsError,
    ConflictError,
    InvalidError,
    LockedError,
    SchemaMismatchError,
    UnsupportedError,
)
from penstock.tablet.snapshots.stored_snapshot import StoredSnapshot

DDL = "id BIGINT, n INT, v STRING, PRIMARY KEY (id)"
Alter = Callable[[penstock.Table], object]


@pytest.fixture
def table(connection: penstock.Connection) -> penstock.Table:
    table = connection.create_table("shop.t", DDL, buckets=2)
    table.upsert([{"id": number, "n": number, "v": f"v{number}"} for number in range(6)])
    return table


def rows(table: penstock.Table, **asked: Any) -> list[dict[str, Any]]:
    return sorted(table.scan(**asked).to_arrow().to_pylist(), key=lambda row: next(iter(row.values())))


def changes(stream: penstock.ChangeStream) -> list[dict[str, Any]]:
    found = [row for batch in stream for row in batch.to_pylist()]
    return sorted(found, key=lambda row: (row["_bucket"], row["_offset"], row["_change_type"] != "-U"))


def test_default_fills_old_rows_and_rows_that_leave_the_column_out(
    connection: penstock.Connection, table: penstock.Table
) -> None:
    older, cut = connection.table("shop.t"), table.cut()
    new = table.add_column("tag", "STRING", default="none")

    older.upsert([{"id": 1, "n": 10, "v": "x"}, {"id": 7, "n": 7, "v": "y"}])
    new.upsert([{"id": 2, "n": 20, "v": "z"}, {"id": 8, "n": 8, "v": "y"}])
    new.upsert([{"id": 3, "n": 3, "v": "c", "tag": None}, {"id": 9, "n": 9, "v": "c", "tag": "given"}])
    new.upsert([{"id": 10, "n": 1}, {"id": 0, "n": 5}], columns=["n"])
    new.apply_changes(
        [{"id": 4, "n": 1, "v": "a", "_change_type": "-D"}, {"id": 4, "n": 2, "v": "b", "_change_type": "+I"}]
    )

    tags = {row["id"]: row["tag"] for row in rows(new)}
    assert tags == dict.fromkeys((0, 1, 2, 4, 5, 7, 8, 10), "none") | {3: None, 9: "given"}
    assert [row["tag"] for row in rows(older, as_of=cut)] == ["none"] * 6
    assert [row["id"] for row in rows(new, filter="tag = 'none' AND id < 3")] == [0, 1, 2]
    assert rows(new, filter="tag IS NULL", columns=["id"]) == [{"id": 3}]
    assert new.get(id=5) == {"id": 5, "n": 5, "v": "v5", "tag": "none"}
    assert new.lookup([5, 99], columns=["tag"]).to_pylist() == [
        {"tag": "none", "_found": True},
        {"tag": None, "_found": False},
    ]


@pytest.mark.parametrize("engine", ["first_row", "versioned", "log"])
def test_default_fills_on_every_kind_of_table(connection: penstock.Connection, engine: Any) -> None:
    if engine == "log":
        table = connection.create_table("shop.t", "id BIGINT, n INT")
    else:
        version = "n" if engine == "versioned" else None
        ddl = "id BIGINT, n INT, PRIMARY KEY (id)"
        table = connection.create_table("shop.t", ddl, merge_engine=engine, version_column=version)
    older, write = connection.table("shop.t"), "append" if engine == "log" else "upsert"
    getattr(older, write)([{"id": 1, "n": 1}])
    table.add_column("at", pa.date32(), default=dt.date(2026, 1, 2))

    getattr(older, write)([{"id": 2, "n": 1}])
    getattr(table, write)([{"id": 3, "n": 1}])

    assert {row["id"]: str(row["at"]) for row in rows(table)} == dict.fromkeys((1, 2, 3), "2026-01-02")


@pytest.mark.parametrize(
    ("kind", "default"),
    [
        ("BOOLEAN", True),
        ("TINYINT", -3),
        ("DOUBLE", float("inf")),
        ("DECIMAL(10,2)", Decimal("1.25")),
        ("BINARY", b"\x00\xff"),
        ("ARRAY<STRING>", ["a", None]),
        ("STRUCT<a: INT, b: STRING>", {"a": 1, "b": None}),
        ("MAP<STRING, BIGINT>", [("k", 2)]),
    ],
)
def test_default_of_any_type(connection: penstock.Connection, table: penstock.Table, kind: str, default: Any) -> None:
    new = table.add_column("x", kind, default=default)
    connection.table("shop.t").upsert([{"id": 6, "n": 6, "v": "f"}])
    table.create_snapshot()

    assert [row["x"] for row in rows(new)] == [default] * 7
    assert new.get(id=1)["x"] == default  # type: ignore[index]


def test_wrong_default_is_refused(connection: penstock.Connection, table: penstock.Table) -> None:
    for kind, default in (("INT", "x"), ("INT", 1 << 40), ("STRING", 5), ("STRING", "x" * 100_000)):
        with pytest.raises(InvalidError):
            table.add_column("bad", kind, default=default)
    sums = connection.create_table("shop.sums", "k INT, s BIGINT SUM, PRIMARY KEY (k)")
    with pytest.raises(InvalidError, match="no default"):
        sums.add_column("more", "BIGINT", agg="sum", default=0)
    assert table.schema.names == ["id", "n", "v"]


def test_open_handle_writes_a_renamed_column_by_its_own_name(
    connection: penstock.Connection, table: penstock.Table
) -> None:
    older, cut = connection.table("shop.t"), table.cut()
    new = table.rename_column("n", "amount")

    older.upsert([{"id": 1, "n": 11, "v": "x"}])
    older.upsert([{"id": 2, "n": 22}], columns=["n"])
    older.upsert([{"id": 3, "amount": 33, "v": "x"}])
    new.upsert([{"id": 4, "amount": 44, "v": "x"}])
    with older.writer() as writer:
        writer.upsert({"id": 5, "n": 55, "v": "x"})

    assert {row["id"]: row["amount"] for row in rows(older)} == {0: 0, 1: 11, 2: 22, 3: 33, 4: 44, 5: 55}
    assert rows(older, as_of=cut)[1] == {"id": 1, "amount": 1, "v": "v1"}
    assert [row["id"] for row in rows(older, filter="amount > 30")] == [3, 4, 5]
    assert older.get(id=1) == {"id": 1, "amount": 11, "v": "x"}
    with pytest.raises(InvalidError, match="no such column"):
        older.scan(columns=["n"])
    with pytest.raises(AlreadyExistsError):
        new.rename_column("amount", "V")


def test_names_that_change_places_stay_with_their_columns(connection: penstock.Connection) -> None:
    table = connection.create_table("shop.t", "id BIGINT, a INT, b INT, PRIMARY KEY (id)")
    older = connection.table("shop.t")
    table.rename_column("a", "c").rename_column("b", "a").rename_column("c", "b")

    older.upsert([{"id": 1, "a": 1, "b": 2}])
    connection.table("shop.t").upsert([{"id": 2, "a": 1, "b": 2}])

    assert rows(table) == [{"id": 1, "b": 1, "a": 2}, {"id": 2, "b": 2, "a": 1}]


def test_key_partition_and_version_columns_are_renamed(connection: penstock.Connection) -> None:
    table = connection.create_table(
        "shop.t",
        "day STRING, id BIGINT, n INT, PRIMARY KEY (day, id)",
        partitioned_by=["day"],
        bucket_key=["id"],
        buckets=2,
        merge_engine="versioned",
        version_column="n",
    )
    older = connection.table("shop.t")
    older.upsert([{"day": "mon", "id": 1, "n": 1}])
    for old, new in (("day", "date"), ("id", "key"), ("n", "version")):
        table.rename_column(old, new)

    older.upsert([{"day": "mon", "id": 1, "n": 5}, {"day": "tue", "id": 2, "n": 1}])
    table.upsert([{"date": "mon", "key": 1, "version": 3}])

    info = connection.table("shop.t").info
    assert (info.primary_key, info.partitioned_by, info.bucket_key, info.version_column) == (
        ("date", "key"),
        ("date",),
        ("key",),
        "version",
    )
    assert rows(table) == [{"date": "mon", "key": 1, "version": 5}, {"date": "tue", "key": 2, "version": 1}]
    assert table.list_partitions() == ["day=mon", "day=tue"]
    assert table.get(date="mon", key=1) == older.get(day="mon", id=1) == {"date": "mon", "key": 1, "version": 5}
    assert older.prefix_lookup(day="tue").num_rows == table.prefix_lookup(date="tue").num_rows == 1
    table.drop_partition({"date": "mon"})
    for name in ("date", "key", "version"):
        with pytest.raises(UnsupportedError, match="cannot be dropped"):
            table.drop_column(name)
        with pytest.raises(UnsupportedError, match="cannot be widened"):
            table.widen_column(name, "BIGINT")
    assert [row["date"] for row in rows(table)] == ["tue"]


def test_dropped_column_that_a_handle_still_sends_is_named(
    connection: penstock.Connection, table: penstock.Table
) -> None:
    older, cut = connection.table("shop.t"), table.cut()
    table.drop_column("n")

    writes: list[Callable[[], object]] = [
        lambda: older.upsert([{"id": 1, "n": 1, "v": "x"}]),
        lambda: older.upsert([{"id": 1, "n": 1}], columns=["n"]),
        lambda: older.delete([{"id": 1}], columns=["n"]),
        lambda: older.apply_changes([{"id": 1, "n": 1, "v": "x", "_change_type": "+I"}]),
    ]
    for write in writes:
        with pytest.raises(SchemaMismatchError, match="dropped") as refused:
            write()
        assert refused.value.facts["column"] == "n"
    older.upsert([{"id": 1, "v": "y"}])
    older.delete([2])

    assert rows(older)[:2] == [{"id": 0, "v": "v0"}, {"id": 1, "v": "y"}]
    assert rows(older, as_of=cut)[2] == {"id": 2, "v": "v2"}
    assert len(rows(older)) == 5


def test_name_that_was_dropped_belongs_to_another_column_then(
    connection: penstock.Connection, table: penstock.Table
) -> None:
    older = connection.table("shop.t")
    table.drop_column("v")
    new = table.add_column("v", "STRING", default="fresh")

    with pytest.raises(SchemaMismatchError, match="dropped"):
        older.upsert([{"id": 0, "n": 1, "v": "x"}])
    table.upsert([{"id": 1, "n": 1, "v": "mine"}])

    assert [row["v"] for row in rows(new)] == ["fresh", "mine", "fresh", "fresh", "fresh", "fresh"]


@pytest.mark.parametrize(
    ("narrow", "wide", "small", "large"),
    [
        ("TINYINT", "BIGINT", 7, 1 << 40),
        ("FLOAT", "DOUBLE", 0.5, 0.1),
        ("DECIMAL(4,2)", "DECIMAL(12,2)", Decimal("1.25"), Decimal("123456.25")),
        ("STRING", "LARGE_STRING", "a", "b" * 1000),
        ("BINARY", "LARGE_BINARY", b"a", b"b"),
    ],
)
def test_widened_column_takes_larger_values_and_shows_old_ones(
    connection: penstock.Connection, narrow: str, wide: str, small: Any, large: Any
) -> None:
    table = connection.create_table("shop.t", f"id BIGINT, x {narrow}, PRIMARY KEY (id)")
    older = connection.table("shop.t")
    older.upsert([{"id": 1, "x": small}, {"id": 2, "x": small}])
    cut = table.cut()
    table.create_snapshot()
    new = table.widen_column("x", wide)

    older.upsert([{"id": 3, "x": small}])
    new.upsert([{"id": 2, "x": large}])

    assert [row["x"] for row in rows(table)] == [small, large, small]
    assert [row["x"] for row in rows(older, as_of=cut)] == [small, small]
    assert older.scan().schema.field("x").type == new.schema.field("x").type
    assert new.get(id=1) == {"id": 1, "x": small}
    images = changes(table.changes())
    assert [row["x"] for row in images] == [small, small, small, small, large]
    with pytest.raises(InvalidError):
        table.widen_column("x", narrow)
    with pytest.raises(InvalidError):
        table.widen_column("x", "DATE")


def test_stream_that_is_open_keeps_its_columns(connection: penstock.Connection, table: penstock.Table) -> None:
    with (
        table.changes(follow=True, timeout="200ms") as stream,
        table.changes(follow=True, timeout="200ms", columns=["id", "n"]) as narrow,
    ):
        next(stream)
        table.rename_column("n", "amount")
        table.add_column("tag", "STRING", default="none")
        table.upsert([{"id": 0, "amount": 9, "v": "x", "tag": "t"}])
        shown = [row for batch in stream for row in batch.to_pylist()]
        assert stream.schema.names[:3] == ["id", "n", "v"]
        assert [row["n"] for row in shown if row["id"] == 0][-1] == 9
        position = stream.position
        table.drop_column("v")
        assert {"id", "n"} <= {name for batch in narrow for name in batch.schema.names}
    with table.changes(start=position, timeout="50ms") as again:
        assert again.schema.names[:3] == ["id", "amount", "tag"]


def test_stream_that_needs_a_dropped_column_raises(table: penstock.Table) -> None:
    with table.changes(follow=True, timeout="5s") as stream:
        next(stream)
        table.drop_column("v")
        table.upsert([{"id": 0, "n": 9}])
        with pytest.raises(SchemaMismatchError, match="dropped") as refused:
            list(stream)
        assert refused.value.facts["column"] == "v"


def test_stream_that_began_before_a_column_was_widened_goes_on_while_values_fit(table: penstock.Table) -> None:
    with table.changes(follow=True, timeout="200ms") as stream:
        list(stream)
        table.widen_column("n", "BIGINT")
        table.upsert([{"id": 0, "n": 9, "v": "x"}])
        assert [row["n"] for batch in stream for row in batch.to_pylist()] == [0, 9]
        table.upsert([{"id": 0, "n": 1 << 40, "v": "x"}])
        with pytest.raises(SchemaMismatchError, match="widened") as refused:
            list(stream)
        assert refused.value.facts["column"] == "n"


def test_scan_and_its_token_keep_their_columns(connect: Callable[..., penstock.Connection]) -> None:
    connection = connect(kv__scanner__page_bytes="1KB")
    connection.create_database("shop")
    table = connection.create_table("shop.t", DDL)
    table.upsert([{"id": number, "n": number, "v": "x" * 20} for number in range(300)])
    scan, other = table.scan(filter="n >= 0"), table.scan(columns=["id", "v"])
    first = next(scan).num_rows
    token, needing = scan.resume_token, other
    next(needing)
    table.rename_column("n", "amount")
    table.add_column("tag", "STRING", default="none")

    rest = connection.resume_scan(token).to_arrow()
    assert rest.column_names == ["id", "n", "v"]
    assert first + rest.num_rows == 300
    assert sum(batch.num_rows for batch in scan) == 300 - first

    table.drop_column("v")
    with pytest.raises(SchemaMismatchError, match="dropped") as refused:
        list(needing)
    assert refused.value.facts["column"] == "v"
    with pytest.raises(SchemaMismatchError, match="dropped"):
        connection.resume_scan(token).to_arrow()


def test_lease_keeps_the_columns_of_its_start(connection: penstock.Connection, table: penstock.Table) -> None:
    with connection.acquire_lease("job", table.latest_snapshots) as lease:
        table.rename_column("n", "amount")
        table.add_column("tag", "STRING", default="none")
        table.upsert([{"id": 0, "amount": 9, "v": "x", "tag": "t"}])

        held = connection.lease("job").table("shop.t")
        assert held.schema.names == ["id", "n", "v"]
        assert rows(held)[0] == {"id": 0, "n": 0, "v": "v0"}
        assert rows(table, lease=lease, source="snapshot", columns=["n"], filter="n < 1") == [{"n": 0}]
        assert sorted(row["n"] for row in changes(held.changes())) == [0, 1, 2, 3, 4, 5]
        table.drop_column("v")
        assert rows(table, lease=lease, source="snapshot", columns=["id"])[0] == {"id": 0}
        with pytest.raises(SchemaMismatchError, match="dropped"):
            rows(held)


def test_snapshot_and_its_stream_go_on_with_the_columns_of_their_start(
    connect: Callable[..., penstock.Connection],
) -> None:
    connection = connect(kv__scanner__page_bytes="1KB")
    connection.create_database("shop")
    table = connection.create_table("shop.t", DDL)
    table.upsert([{"id": number, "n": number, "v": "x" * 20} for number in range(300)])
    with table.snapshot_and_follow(follow=False) as stream:
        next(stream)
        position = stream.position
    table.rename_column("n", "amount")
    table.upsert([{"id": 0, "amount": 9, "v": "x"}])

    with table.snapshot_and_follow(start=position, follow=False) as stream:
        found = [row for batch in stream for row in batch.to_pylist()]
    assert stream.schema.names[:3] == ["id", "n", "v"]
    assert [row["n"] for row in found if row["_change_type"] == "+U"] == [9]


ALTERATIONS: dict[str, Alter] = {
    "drop": lambda table: table.drop_column("n"),
    "widen": lambda table: table.widen_column("n", "BIGINT"),
}


@pytest.mark.parametrize("alteration", ALTERATIONS)
def test_alteration_is_refused_while_an_owner_holds_the_column(table: penstock.Table, alteration: str) -> None:
    alter = ALTERATIONS[alteration]
    with table.acquire_owner("job", columns=["n"]):
        with pytest.raises(LockedError, match="holder=job"):
            alter(table)
        table.rename_column("v", "w").add_column("tag", "STRING", default="x")
    with table.acquire_owner("all"), pytest.raises(LockedError):
        alter(table)
    alter(table)
    assert len(rows(table)) == 6


@pytest.mark.parametrize("alteration", ALTERATIONS)
def test_alteration_is_refused_while_rows_of_the_column_are_staged(
    connection: penstock.Connection, table: penstock.Table, alteration: str
) -> None:
    attempt, other = uuid.uuid4(), connection.table("shop.t")
    with table.acquire_owner("job", columns=["v"]) as owner:
        owner.begin(1)
        table.stage([{"id": 1, "n": 5, "v": "x"}], owner=owner, attempt=attempt)
        with pytest.raises(LockedError, match="staged"):
            ALTERATIONS[alteration](other)
        other.add_column("tag", "STRING", default="none")
        other.rename_column("v", "w")
        owner.commit(1, attempts={attempt: 1})
    ALTERATIONS[alteration](other)
    assert rows(other)[1]["w"] == "x"
    assert rows(other)[1]["tag"] == "none"


def test_undo_of_an_epoch_that_began_before_the_alteration(
    connection: penstock.Connection, table: penstock.Table
) -> None:
    with table.acquire_owner("job") as owner:
        owner.begin(1)
        connection.table("shop.t").upsert(
            [{"id": 0, "n": 100, "v": "mine"}, {"id": 9, "n": 9, "v": "mine"}], owner=owner
        )
        table.rename_column("n", "amount")
        new = table.add_column("tag", "STRING", default="none")
        owner.undo()

    assert rows(new)[0] == {"id": 0, "amount": 0, "v": "v0", "tag": "none"}
    assert len(rows(new)) == 6


def test_undo_gives_a_row_that_others_keep_the_default(connection: penstock.Connection, table: penstock.Table) -> None:
    new = table.add_column("tag", "STRING", default="none")
    with table.acquire_owner("job", columns=["tag"]) as owner:
        owner.begin(1)
        new.upsert([{"id": 9, "tag": "mine"}], columns=["tag"], owner=owner)
        new.upsert([{"id": 9, "n": 4}], columns=["n"])
        owner.undo()

    assert new.get(id=9) == {"id": 9, "n": 4, "v": None, "tag": "none"}


def test_aggregates_are_added_and_widened(connection: penstock.Connection) -> None:
    table = connection.create_table("shop.s", "k INT, s INT SUM, n BIGINT COUNT, PRIMARY KEY (k)")
    older = connection.table("shop.s")
    older.upsert([{"k": 1, "s": 2_000_000_000, "n": 1}])
    with pytest.raises(InvalidError):
        older.upsert([{"k": 1, "s": 2_000_000_000, "n": 1}])
    table.widen_column("s", "BIGINT")
    table.add_column("best", "INT", agg="max")

    older.upsert([{"k": 1, "s": 2_000_000_000, "n": 1}])
    table.upsert([{"k": 1, "best": 4}])
    table.upsert([{"k": 2, "s": 1, "best": 5}])
    older.apply_changes([{"k": 1, "s": 1, "n": 1, "_change_type": "-D"}])

    assert rows(table) == [
        {"k": 1, "s": 3_999_999_999, "n": 1, "best": 4},
        {"k": 2, "s": 1, "n": None, "best": 5},
    ]
    table.drop_column("n")
    table.rename_column("best", "top")
    older.upsert([{"k": 2, "s": 4}])
    assert rows(table)[1] == {"k": 2, "s": 5, "top": 5}


def test_count_of_delete_at_zero_is_renamed_and_stays(connection: penstock.Connection) -> None:
    properties = {"aggregate.delete-at-zero": "n", "delete.behavior": "allow"}
    table = connection.create_table(
        "shop.s", "k INT, s BIGINT SUM, n BIGINT COUNT, PRIMARY KEY (k)", properties=properties
    )
    older = connection.table("shop.s")
    table.upsert([{"k": 1, "s": 5, "n": 1}])
    table.rename_column("n", "live")

    assert table.info.properties["aggregate.delete-at-zero"] == "live"
    with pytest.raises(UnsupportedError):
        table.drop_column("live")
    with pytest.raises(InvalidError, match="cannot change later"):
        table.set_properties({"aggregate.delete-at-zero": None})
    older.apply_changes([{"k": 1, "s": 5, "n": 1, "_change_type": "-D"}])
    assert rows(table) == []


def test_one_handle_alters_and_writes(table: penstock.Table) -> None:
    table.add_column("tag", "STRING")
    table.upsert([{"id": 1, "n": 1, "v": "a", "tag": "x"}])
    table.rename_column("tag", "label")
    table.upsert([{"id": 2, "n": 1, "v": "a", "label": "y"}])
    table.upsert([{"id": 3, "n": 1, "v": "a"}])
    table.drop_column("label")
    table.add_column("label", "STRING")
    table.upsert([{"id": 4, "n": 1, "v": "a", "label": "z"}])

    assert {row["id"]: row["label"] for row in rows(table)} == {0: None, 1: None, 2: None, 3: None, 4: "z", 5: None}
    assert table.schema.names == table.info.schema.names == ["id", "n", "v", "label"]


def test_everything_is_there_after_the_node_was_opened_again(tmp_path: Path) -> None:
    with penstock.connect(tmp_path / "data") as connection:
        connection.create_database("shop")
        table = connection.create_table("shop.t", DDL, buckets=2)
        table.upsert([{"id": number, "n": number, "v": "a"} for number in range(4)])
        cut = table.cut()
        table.add_column("tag", "STRING", default="none")
        table.widen_column("n", "BIGINT")
        table.drop_column("v")
        table.set_properties({"log.retention": "36h"})
        text = cut.to_json()
    with penstock.connect(tmp_path / "data") as connection:
        table = connection.table("shop.t").rename_column("n", "amount")
        table.upsert([{"id": 0, "amount": 1 << 40}])
        assert rows(table)[:2] == [{"id": 0, "amount": 1 << 40, "tag": "none"}, {"id": 1, "amount": 1, "tag": "none"}]
        assert rows(table, as_of=text)[0] == {"id": 0, "amount": 0, "tag": "none"}
        assert table.info.properties == {"log.retention": "36h"}
        assert table.add_column("v", "STRING").info.schema.column("v").id == 4
        with pytest.raises(InvalidError):
            table.upsert([{"id": 0}])
        table.create_snapshot()
    with penstock.connect(tmp_path / "data") as connection:
        table = connection.table("shop.t")
        assert rows(table)[0] == {"id": 0, "amount": 1 << 40, "tag": "none", "v": None}
        assert [row["tag"] for row in changes(table.changes()) if row["_change_type"] == "-U"] == ["none"]


def test_retry_of_a_write_that_was_made_is_answered_although_its_column_was_dropped_since(
    connection: penstock.Connection, table: penstock.Table
) -> None:
    made = table._requests.upsert([{"id": 1, "n": 7, "v": "x"}])
    call, node = replace(made, writer_id=b"w" * 16, sequence=0), connection._link.node
    first = node.tables.write(call)
    connection.table("shop.t").widen_column("n", "BIGINT").drop_column("v")

    assert node.tables.write(call).offsets == first.offsets
    assert node.tables.write(call).changes == first.changes == 1
    with pytest.raises(SchemaMismatchError, match="dropped"):
        node.tables.write(replace(call, sequence=1))
    assert rows(table)[1] == {"id": 1, "n": 7}


def test_delete_where_and_truncate_go_by_the_columns_of_today(
    connection: penstock.Connection, table: penstock.Table
) -> None:
    older = connection.table("shop.t")
    table.add_column("tag", "STRING", default="none")
    table.rename_column("n", "amount")
    table.upsert([{"id": 1, "amount": 1, "v": "a", "tag": "other"}])

    assert older.delete_where("tag = 'none' AND amount < 3").changes == 2
    with pytest.raises(InvalidError, match="no such column"):
        older.delete_where("n = 1")
    assert [row["id"] for row in rows(older)] == [1, 3, 4, 5]
    assert older.truncate().changes == 4


def test_expected_rows_are_compared_across_an_alteration(
    connection: penstock.Connection, table: penstock.Table
) -> None:
    older = connection.table("shop.t")
    at = table.lookup([1], offsets=True)["_offset"].to_pylist()
    table.rename_column("id", "key").rename_column("n", "amount")

    assert older.upsert([{"id": 1, "n": 5, "v": "x"}], expect=at).changes == 1
    with pytest.raises(ConflictError) as refused:
        older.upsert([{"id": 1, "n": 6, "v": "x"}], expect=at)
    assert refused.value.facts["keys"] == [{"id": 1}]


def test_backup_of_a_table_that_was_altered_is_restored_as_it_was(tmp_path: Path) -> None:
    with penstock.connect(tmp_path / "data") as connection:
        connection.create_database("shop")
        table = connection.create_table("shop.t", DDL)
        table.upsert([{"id": number, "n": number, "v": "a"} for number in range(4)])
        table.add_column("tag", "STRING", default="none")
        table.widen_column("n", "BIGINT")
        table.rename_column("n", "amount")
        table.drop_column("v")
        table.upsert([{"id": 0, "amount": 1 << 40}])
        before = rows(table)
        connection.backup(str(tmp_path / "backup"))
    penstock.restore(tmp_path / "backup", tmp_path / "restored")
    with penstock.connect(tmp_path / "restored") as connection:
        table = connection.table("shop.t")
        assert rows(table) == before
        assert table.add_column("v", "STRING").info.schema.column("v").id == 4
        table.upsert([{"id": 1, "amount": 2}])
        assert rows(table)[1] == {"id": 1, "amount": 2, "tag": "none", "v": None}


def test_a_snapshot_is_read_from_storage_by_the_columns_of_its_reader(tmp_path: Path) -> None:
    with penstock.connect(tmp_path / "data") as connection:
        connection.create_database("shop")
        table = connection.create_table("shop.t", DDL)
        table.upsert([{"id": 1, "n": 1, "v": "a"}])
        with connection.acquire_lease("job", table.latest_snapshots) as lease:
            (snapshot,) = lease.snapshots.values()
            then = table.info.schema
            table.rename_column("n", "amount")
            table.widen_column("amount", "BIGINT")
            table.add_column("tag", "STRING", default="none")
            with StoredSnapshot(tmp_path / "data", snapshot.path) as stored:
                assert stored.to_arrow().to_pylist() == [{"id": 1, "n": 1, "v": "a"}]
                (now,) = stored.read(["amount", "tag"], "amount = 1", table.info.schema)
                assert now.to_pylist() == [{"amount": 1, "tag": "none"}]
            table.drop_column("v")
            (later,) = table.create_snapshot().values()
            with StoredSnapshot(tmp_path / "data", later.path) as stored:
                with pytest.raises(SchemaMismatchError, match="dropped"):
                    list(stored.read(["v"], None, then))
                (old,) = stored.read(["n"], None, then)
                assert old.to_pylist() == [{"n": 1}]
