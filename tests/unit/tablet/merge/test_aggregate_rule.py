"""Writes to an aggregating table: modes, columns, retractions, deletes, refusals."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from pyroaring import BitMap, BitMap64
from tests.kit.open_table import OpenTableRig, delete, open_tables, take_up, write, write_batch

from penstock.engine.table.open_table import OpenTable
from penstock.errors import (
    ArithmeticOverflowError,
    DeleteDisabledError,
    InvalidError,
    LimitError,
    SchemaMismatchError,
    UnsupportedError,
)
from penstock.model.node.calls import Operation, WriteResult

DDL = "id BIGINT, total BIGINT SUM, top DOUBLE MAX, n BIGINT COUNT, PRIMARY KEY (id)"


@pytest.fixture
def rig() -> Iterator[OpenTableRig]:
    with open_tables() as opened:
        yield opened


def put(table: OpenTable, rows: list[dict[str, Any]], **call: Any) -> WriteResult:
    """Upsert rows with the columns that the first one has."""
    schema = pa.schema([table.info.schema.arrow_schema.field(name) for name in rows[0]])
    return write_batch(table, pa.RecordBatch.from_pylist(rows, schema=schema), **call)


def apply(table: OpenTable, *changes: tuple[str, dict[str, Any]]) -> WriteResult:
    rows = [row | {"_change_type": kind} for kind, row in changes]
    fields = [table.info.schema.arrow_schema.field(name) for name in changes[0][1]]
    schema = pa.schema([*fields, pa.field("_change_type", pa.string())])
    return write_batch(table, pa.RecordBatch.from_pylist(rows, schema=schema), Operation.APPLY)


def rows_of(table: OpenTable) -> list[dict[str, Any]]:
    names = table.info.schema.names
    found = []
    for view in table.view.values():
        for block in view.scan(view.visible, table.schema.user_columns):
            found += block.batch.rename_columns(names).to_pylist()
    return sorted(found, key=lambda row: row["id"])


def row(id_: int, total: int | None, top: float | None, n: int | None) -> dict[str, Any]:
    return {"id": id_, "total": total, "top": top, "n": n}


def test_repeated_keys_of_a_batch_are_one_change(rig: OpenTableRig) -> None:
    table = rig.create("default.t", DDL)

    result = put(table, [row(1, 2, 0.5, 9), row(2, 1, 1.0, 9), row(1, 3, -1.0, 9)])

    assert rows_of(table) == [row(1, 5, 0.5, 2), row(2, 1, 1.0, 1)]
    assert (result.rows, result.changes, result.ignored) == (3, 2, 0)


def test_rows_that_change_nothing_are_ignored_and_folded_ones_are_not(rig: OpenTableRig) -> None:
    table = rig.create("default.t", DDL)
    put(table, [row(1, 2, 5.0, 1), row(2, 2, 5.0, 1)])

    result = put(table, [{"id": 1, "top": 4.0}, {"id": 2, "top": 6.0}, {"id": 1, "top": 5.0}, {"id": 2, "top": 7.0}])

    assert (result.rows, result.changes, result.ignored) == (4, 1, 2)
    assert rows_of(table) == [row(1, 2, 5.0, 1), row(2, 2, 7.0, 1)]


@pytest.mark.parametrize("mode", ["accumulate", "replace", "merge_state"])
def test_columns_that_are_not_named_keep_their_values(rig: OpenTableRig, mode: str) -> None:
    table = rig.create("default.t", DDL)
    put(table, [row(1, 2, 5.0, 1)])

    put(table, [{"id": 1, "top": 9.0}, {"id": 2, "top": 1.0}], columns=("top",), agg_mode=mode)

    assert rows_of(table) == [row(1, 2, 9.0, 1), row(2, None, 1.0, None)]


def test_absent_columns_contribute_nothing(rig: OpenTableRig) -> None:
    table = rig.create("default.t", DDL)
    put(table, [row(1, 2, 5.0, 1)])

    put(table, [{"id": 1, "total": 3}])
    put(table, [{"id": 1}, {"id": 2}])

    assert rows_of(table) == [row(1, 5, 5.0, 1), row(2, None, None, None)]


def test_replace_overwrites_and_the_last_row_of_a_batch_wins(rig: OpenTableRig) -> None:
    table = rig.create("default.t", DDL)
    put(table, [row(1, 2, 5.0, 1)])

    put(table, [row(1, 7, 1.0, 40), row(1, 8, None, 41)], agg_mode="replace")

    assert rows_of(table) == [row(1, 8, None, 41)]


def test_merge_state_adds_counts_of_the_sender(rig: OpenTableRig) -> None:
    table = rig.create("default.t", DDL)
    put(table, [row(1, 2, 5.0, 1)])

    put(table, [row(1, 7, 6.0, 40), row(1, 1, 1.0, None)], agg_mode="merge_state")

    assert rows_of(table) == [row(1, 10, 6.0, 41)]


def test_unknown_mode_is_refused_with_the_list(rig: OpenTableRig) -> None:
    table = rig.create("default.t", DDL)

    with pytest.raises(InvalidError, match="accumulate, replace, merge_state agg_mode='add'"):
        put(table, [row(1, 2, 5.0, 1)], agg_mode="add")


def test_mode_goes_with_upserts_of_aggregating_tables_only(rig: OpenTableRig) -> None:
    plain = rig.create("default.plain", "id BIGINT, v BIGINT, PRIMARY KEY (id)")
    table = rig.create("default.t", DDL, properties={"delete.behavior": "allow"})

    with pytest.raises(InvalidError, match="aggregating tables only"):
        put(plain, [{"id": 1, "v": 1}], agg_mode="replace")
    with pytest.raises(InvalidError, match="goes with upsert"):
        write(table, [{"id": 1}], Operation.DELETE, agg_mode="replace")


def test_changes_are_folded_in_and_taken_back(rig: OpenTableRig) -> None:
    table = rig.create("default.t", "id BIGINT, total BIGINT SUM, n BIGINT COUNT, PRIMARY KEY (id)")
    apply(table, ("+I", {"id": 1, "total": 5, "n": 1}), ("+I", {"id": 1, "total": 7, "n": 1}))

    result = apply(
        table,
        ("-U", {"id": 1, "total": 5, "n": 1}),
        ("+U", {"id": 1, "total": 6, "n": 1}),
        ("-D", {"id": 1, "total": 7, "n": 1}),
    )

    assert rows_of(table) == [{"id": 1, "total": 6, "n": 1}]
    assert (result.rows, result.changes, result.ignored) == (3, 1, 0)


def test_an_update_may_move_a_value_to_another_key(rig: OpenTableRig) -> None:
    table = rig.create("default.t", "id BIGINT, total BIGINT SUM, PRIMARY KEY (id)", buckets=4)
    apply(table, ("+I", {"id": 1, "total": 5}))

    apply(table, ("-U", {"id": 1, "total": 5}), ("+U", {"id": 2, "total": 5}))

    assert rows_of(table) == [{"id": 1, "total": 0}, {"id": 2, "total": 5}]


def test_after_images_are_refused(rig: OpenTableRig) -> None:
    table = rig.create("default.t", "id BIGINT, total BIGINT SUM, PRIMARY KEY (id)")

    with pytest.raises(UnsupportedError, match="images='full'"):
        apply(table, ("+I", {"id": 1, "total": 5}), ("+U", {"id": 1, "total": 6}))

    assert rows_of(table) == []


def test_taking_back_before_it_came_makes_up_for_it_later(rig: OpenTableRig) -> None:
    table = rig.create("default.t", "id BIGINT, total BIGINT SUM, n BIGINT COUNT, PRIMARY KEY (id)")

    apply(table, ("-D", {"id": 1, "total": 5, "n": 1}))
    apply(table, ("+I", {"id": 1, "total": 5, "n": 1}))

    assert rows_of(table) == [{"id": 1, "total": 0, "n": 0}]


def test_taking_back_nothing_makes_no_row(rig: OpenTableRig) -> None:
    properties = {"aggregate.retract": "ignore"}
    table = rig.create("default.t", "id BIGINT, top BIGINT MAX, PRIMARY KEY (id)", properties=properties)

    result = apply(table, ("-D", {"id": 1, "top": 5}))

    assert rows_of(table) == []
    assert (result.changes, result.ignored) == (0, 1)


def test_row_goes_when_its_count_reaches_zero(rig: OpenTableRig) -> None:
    ddl = "id BIGINT, total BIGINT SUM, n BIGINT COUNT, PRIMARY KEY (id)"
    table = rig.create("default.t", ddl, properties={"aggregate.delete-at-zero": "n"})
    one = {"total": 5, "n": 1}
    apply(table, ("+I", {"id": 1} | one), ("+I", {"id": 2} | one), ("+I", {"id": 2} | one))

    gone = apply(
        table, ("-D", {"id": 1} | one), ("-D", {"id": 2} | one), ("+I", {"id": 3} | one), ("-D", {"id": 3} | one)
    )

    assert rows_of(table) == [{"id": 2, "total": 5, "n": 1}]
    assert (gone.changes, gone.ignored) == (2, 2)


def test_row_that_was_never_counted_stays(rig: OpenTableRig) -> None:
    ddl = "id BIGINT, total BIGINT SUM, n BIGINT COUNT, PRIMARY KEY (id)"
    table = rig.create("default.t", ddl, properties={"aggregate.delete-at-zero": "n"})

    put(table, [{"id": 1, "total": 5, "n": None}])
    put(table, [{"id": 1, "total": 5}])

    assert rows_of(table) == [{"id": 1, "total": 10, "n": 0}]


def test_partial_write_does_not_make_a_row_without_its_first_value(rig: OpenTableRig) -> None:
    table = rig.create("default.t", "id BIGINT, origin STRING FIRST_VALUE, total BIGINT SUM, PRIMARY KEY (id)")
    put(table, [{"id": 1, "origin": None, "total": 1}])

    put(table, [{"id": 1, "total": 1}])
    with pytest.raises(InvalidError, match=r"column=origin key={'id': 2}"):
        put(table, [{"id": 1, "total": 1}, {"id": 2, "total": 1}])
    put(table, [{"id": 1, "origin": "late", "total": 1}])

    assert rows_of(table) == [{"id": 1, "origin": None, "total": 3}]


def test_deletes_follow_the_property(rig: OpenTableRig) -> None:
    ignoring = rig.create("default.i", DDL)
    allowing = rig.create("default.a", DDL, properties={"delete.behavior": "allow"})
    refusing = rig.create("default.d", DDL, properties={"delete.behavior": "disable"})
    for table in (ignoring, allowing, refusing):
        put(table, [row(1, 2, 5.0, 1), row(2, 2, 5.0, 1)])

    assert delete(ignoring, [{"id": 1}]).ignored == 1
    assert delete(allowing, [{"id": 1}, {"id": 3}]).changes == 1
    with pytest.raises(DeleteDisabledError):
        delete(refusing, [{"id": 1}])

    assert [len(rows_of(table)) for table in (ignoring, allowing, refusing)] == [2, 1, 2]


def test_deleted_columns_become_null_and_begin_anew(rig: OpenTableRig) -> None:
    table = rig.create("default.t", DDL, properties={"delete.behavior": "allow"})
    put(table, [row(1, 2, 5.0, 1)])

    write(table, [{"id": 1}], Operation.DELETE, columns=("total", "n"))
    put(table, [row(1, 3, 1.0, 1)])

    assert rows_of(table) == [row(1, 3, 5.0, 1)]


def test_overflow_in_one_bucket_writes_nothing_anywhere(rig: OpenTableRig) -> None:
    ddl = "id BIGINT, day INT, total BIGINT SUM, PRIMARY KEY (id, day)"
    table = rig.create("default.t", ddl, buckets=4)
    largest = (1 << 63) - 1
    put(table, [{"id": number, "day": 7, "total": largest if number == 30 else 1} for number in range(40)])
    before = rows_of(table)

    with pytest.raises(ArithmeticOverflowError, match=r"column=total key={'id': 30, 'day': 7}"):
        put(table, [{"id": number, "day": 7, "total": 1} for number in range(40)])

    assert rows_of(table) == before


def test_column_added_later_folds_from_null(rig: OpenTableRig) -> None:
    table = rig.create("default.t", "id BIGINT, total BIGINT SUM, PRIMARY KEY (id)")
    put(table, [{"id": 1, "total": 1}])

    take_up(table, rig.catalog.add_column(table.info.table_id, "n", pa.int64(), "count"))
    put(table, [{"id": 1, "total": 1, "n": 8}])

    assert rows_of(table) == [{"id": 1, "total": 2, "n": 1}]


def test_value_of_another_type_is_refused(rig: OpenTableRig) -> None:
    table = rig.create("default.t", "id BIGINT, n BIGINT COUNT, PRIMARY KEY (id)")

    with pytest.raises(SchemaMismatchError, match="column=n"):
        write_batch(table, pa.RecordBatch.from_pylist([{"id": 1, "n": "x"}]))


def test_listagg_uses_its_delimiter_and_is_held_to_its_size(rig: OpenTableRig) -> None:
    properties = {"aggregate.max-value-bytes": "9"}
    table = rig.create("default.t", "id BIGINT, names STRING LISTAGG('||'), PRIMARY KEY (id)", properties=properties)
    put(table, [{"id": 1, "names": "ä"}, {"id": 1, "names": ""}, {"id": 1, "names": "b"}])

    with pytest.raises(LimitError, match=r"column=names key={'id': 1} max_value_bytes=9"):
        put(table, [{"id": 1, "names": "c"}])

    assert rows_of(table) == [{"id": 1, "names": "ä||||b"}]


@pytest.mark.parametrize(("function", "kind"), [("RBM32", BitMap), ("RBM64", BitMap64)])
@pytest.mark.parametrize("mode", ["accumulate", "replace"])
def test_hostile_bitmaps_are_refused(rig: OpenTableRig, function: str, kind: type[BitMap], mode: str) -> None:
    seed = 7
    random = Random(seed)
    table = rig.create("default.t", f"id BIGINT, seen BINARY {function}, PRIMARY KEY (id)")
    good = kind([*range(300), *range(70_000, 70_900, 3), 1 << 31]).serialize()
    put(table, [{"id": 1, "seen": good}])

    refusals = []
    for _ in range(300):
        bad = bytearray(good[: random.randrange(len(good) + 1)])
        for _ in range(random.randrange(4) if bad else 0):
            bad[random.randrange(min(len(bad), 40))] = random.randrange(256)
        try:
            put(table, [{"id": 2, "seen": bytes(bad)}], agg_mode=mode)
        except InvalidError as error:
            refusals.append(error)
    put(table, [{"id": 1, "seen": kind([5, 1 << 30]).serialize()}])

    assert len(refusals) > 200, f"seed {seed}"
    assert all(error.facts.keys() >= {"column", "key"} for error in refusals), f"seed {seed}"
    assert set(kind.deserialize(rows_of(table)[0]["seen"])) == {*kind.deserialize(good), 1 << 30}


def test_bitmap_that_adds_nothing_is_no_change(rig: OpenTableRig) -> None:
    table = rig.create("default.t", "id BIGINT, seen BINARY RBM32, PRIMARY KEY (id)")
    put(table, [{"id": 1, "seen": BitMap([1, 2, 3]).serialize()}])

    assert put(table, [{"id": 1, "seen": BitMap([2]).serialize() + b"tail"}]).changes == 0
