from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from penstock.client.ingest.ingest import ingest_changes, ingest_keys, ingest_partial, ingest_present, ingest_rows
from penstock.errors import InvalidError, SchemaMismatchError
from penstock.model.schema.ddl import parse_ddl

SCHEMA = parse_ddl("id BIGINT, name STRING, amount DOUBLE, n INT NOT NULL, PRIMARY KEY (id)")
LOG = parse_ddl("tags ARRAY<STRING>, n INT")
ROWS: list[dict[str, Any]] = [
    {"id": 1, "name": "a", "amount": 1.5, "n": 1},
    {"id": 2, "name": None, "amount": None, "n": 2},
]
BATCH = pa.RecordBatch.from_pylist(ROWS, schema=SCHEMA.arrow_schema)
TABLE = pa.Table.from_batches([BATCH])


class Stream:
    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return TABLE.__arrow_c_stream__(requested_schema)


class Array:
    def __arrow_c_array__(self, requested_schema: object = None) -> object:
        return BATCH.__arrow_c_array__(requested_schema)


@pytest.mark.parametrize(
    "data",
    [
        ROWS,
        tuple(ROWS),
        BATCH,
        TABLE,
        pa.concat_tables([TABLE.slice(0, 1), TABLE.slice(1)]),
        pa.RecordBatchReader.from_batches(BATCH.schema, [BATCH.slice(0, 1), BATCH.slice(1)]),
        TABLE.to_pandas(),
        TABLE.to_pandas().set_index("id"),
        pd.DataFrame(ROWS).convert_dtypes(),
        pd.DataFrame(ROWS).astype(object),
        pl.DataFrame(ROWS),
        Stream(),
        Array(),
        TABLE.to_pydict(),
        # Columns may each come in a form of their own.
        {"id": np.array([1, 2], np.int32), "name": ["a", None], "amount": pa.array([1.5, None]), "n": [1, 2]},
        {"id": TABLE["id"], "name": np.array(["a", None], object), "amount": (1.5, None), "n": pd.Series([1, 2])},
        [dict(reversed(row.items())) for row in ROWS],
        TABLE.select(["n", "amount", "name", "id"]),
        TABLE.cast(pa.schema([("id", pa.int32()), ("name", pa.large_string()), ("amount", "double"), ("n", "int64")])),
    ],
    ids=lambda data: type(data).__name__,
)
def test_every_form_of_the_same_rows_gives_the_same_batch(data: object) -> None:
    assert ingest_rows(data, SCHEMA).equals(BATCH)


def test_a_pandas_column_without_values_fits_any_column() -> None:
    frame = pd.DataFrame({"id": [1], "name": [float("nan")], "amount": [None], "n": [1]})

    assert ingest_rows(frame, SCHEMA).to_pylist() == [{"id": 1, "name": None, "amount": None, "n": 1}]


def test_one_row_may_be_a_dict() -> None:
    assert ingest_rows(ROWS[0], SCHEMA).to_pylist() == ROWS[:1]


def test_a_dict_with_lists_is_a_row_if_another_value_is_single() -> None:
    assert ingest_rows({"tags": ["x", "y"], "n": 1}, LOG).num_rows == 1
    assert ingest_rows({"tags": [["x"], ["y"]], "n": [1, 2]}, LOG).num_rows == 2


@pytest.mark.parametrize("data", [[], (), {}, TABLE.slice(0, 0), pl.DataFrame(), pd.DataFrame()])
def test_no_rows_are_an_empty_batch(data: object) -> None:
    assert ingest_rows(data, SCHEMA).num_rows == 0


@pytest.mark.parametrize("data", [5, "rows", None, object(), [1], ["x"], iter([1])])
def test_data_of_no_known_kind_is_refused(data: object) -> None:
    with pytest.raises(InvalidError, match=r"not understood; pass a RecordBatch|holds dicts row=0"):
        ingest_rows(data, SCHEMA)


def test_an_unknown_column_is_named_with_those_there_are() -> None:
    with pytest.raises(
        SchemaMismatchError, match=r"no such column; did you mean name\? it has id, name, amount, n; .* column=nam$"
    ):
        ingest_rows([{**ROWS[0], "nam": 1}, ROWS[1]], SCHEMA)


def test_a_missing_column_is_named_with_the_way_out() -> None:
    with pytest.raises(
        SchemaMismatchError, match=r"missing .* or pass columns=\[...\] .* column=amount found=id, name"
    ):
        ingest_rows(TABLE.drop_columns(["amount"]), SCHEMA)


def test_a_row_that_lacks_a_column_is_named() -> None:
    with pytest.raises(SchemaMismatchError, match="write None where null is meant column=name row=1"):
        ingest_rows([ROWS[0], {"id": 2, "amount": 1.0, "n": 2}], SCHEMA)


def test_a_null_key_is_named_with_its_first_row() -> None:
    with pytest.raises(SchemaMismatchError, match=r"a key column is never null.* column=id row=1"):
        ingest_rows([ROWS[0], {**ROWS[1], "id": None}, {**ROWS[1], "id": None}], SCHEMA)


def test_a_null_in_a_column_declared_not_null_is_named() -> None:
    with pytest.raises(SchemaMismatchError, match=r"declared not null.* column=n row=0"):
        ingest_rows([{**ROWS[0], "n": None}], SCHEMA)


def test_a_nullable_key_field_without_nulls_is_accepted() -> None:
    loose = pa.schema([field.with_nullable(True) for field in SCHEMA.arrow_schema])

    assert ingest_rows(TABLE.cast(loose), SCHEMA).schema.field("id").nullable is False


def test_a_wrong_value_is_named_by_column_and_row() -> None:
    with pytest.raises(SchemaMismatchError, match=r"\(str is no int32\) column=n row=1 value='x' wanted=int32"):
        ingest_rows([ROWS[0], {**ROWS[1], "n": "x"}], SCHEMA)


def test_a_column_named_twice_is_refused() -> None:
    twice = pa.Table.from_arrays([pa.array([1]), pa.array([1])], names=["id", "id"])
    with pytest.raises(SchemaMismatchError, match="named twice column=id"):
        ingest_rows(twice, SCHEMA)


def test_a_column_name_that_is_no_string_is_refused() -> None:
    with pytest.raises(SchemaMismatchError, match="a column's name is a string column=0"):
        ingest_rows(pd.DataFrame([[1, 2]]), SCHEMA)


def test_columns_of_different_lengths_are_refused() -> None:
    with pytest.raises(SchemaMismatchError, match="differ in length"):
        ingest_rows({"id": [1, 2], "name": ["a"]}, SCHEMA)


def test_arrow_memory_that_lies_is_refused_before_it_is_read() -> None:
    offsets = pa.py_buffer(np.array([0, 1 << 30, 5], np.int32).tobytes())
    liar = pa.Array.from_buffers(pa.string(), 2, [None, offsets, pa.py_buffer(b"abcde")])
    with pytest.raises(InvalidError, match="the data is not valid arrow"):
        ingest_rows(TABLE.set_column(1, "name", liar), SCHEMA)
    with pytest.raises(InvalidError, match="the data is not valid arrow"):
        ingest_rows({**TABLE.to_pydict(), "name": liar}, SCHEMA)


def test_a_partial_write_takes_key_and_named_columns_whether_the_key_is_named_or_not() -> None:
    for columns in (["amount"], ["amount", "id"], ("id", "amount")):
        batch, targets = ingest_partial(TABLE, SCHEMA, columns)
        assert batch.schema.names == ["id", "amount"]
        assert targets == ("amount",)


def test_a_partial_write_of_an_unknown_column_is_refused() -> None:
    with pytest.raises(SchemaMismatchError, match=r"no such column.* column=nope"):
        ingest_partial(TABLE, SCHEMA, ["nope"])
    with pytest.raises(InvalidError, match="columns= takes a list of names columns=amount"):
        ingest_partial(TABLE, SCHEMA, "amount")


def test_a_partial_write_whose_column_is_missing_is_refused() -> None:
    with pytest.raises(SchemaMismatchError, match="missing from the data; add it column=amount"):
        ingest_partial([{"id": 1}], SCHEMA, ["amount"])


def test_present_columns_are_named_when_some_are_absent() -> None:
    batch, targets = ingest_present([{"id": 1, "n": 2}], SCHEMA)
    assert (batch.schema.names, targets) == (["id", "n"], ("n",))
    assert ingest_present(TABLE, SCHEMA)[1] is None
    with pytest.raises(SchemaMismatchError, match="column=id"):
        ingest_present([{"n": 2}], SCHEMA)


@pytest.mark.parametrize(
    "keys",
    [[1, 2], (1, 2), pa.array([1, 2]), {"id": [1, 2]}, [{"id": 1}, {"id": 2}], TABLE, TABLE.select(["id"]), ROWS],
)
def test_keys_come_in_every_form(keys: Any) -> None:
    assert ingest_keys(keys, SCHEMA).to_pydict() == {"id": [1, 2]}


def test_bare_values_do_for_a_key_of_one_column_only() -> None:
    with pytest.raises(InvalidError, match="a key has 2 columns here; pass a tuple of them"):
        ingest_keys([1, 2], parse_ddl("a INT, b INT, PRIMARY KEY (a, b)"))


def test_changes_keep_their_type_and_lose_what_else_a_changelog_adds() -> None:
    changes = [{**row, "_change_type": kind, "_offset": 5} for row, kind in zip(ROWS, ("+I", "-D"), strict=True)]

    batch, targets = ingest_changes(changes, SCHEMA)

    assert targets is None
    assert batch.schema.names == [*SCHEMA.names, "_change_type"]
    assert batch.column("_change_type").to_pylist() == ["+I", "-D"]


def test_changes_may_have_some_columns_where_the_rest_is_not_wanted() -> None:
    changes = [{"id": 1, "amount": 2.5, "_change_type": "+I"}]

    named, targets = ingest_changes(changes, SCHEMA, ["amount"])
    present, found = ingest_changes(changes, SCHEMA, some_absent=True)

    assert named == present
    assert named.schema.names == ["id", "amount", "_change_type"]
    assert targets == found == ("amount",)
    with pytest.raises(SchemaMismatchError, match=r"pass columns=\[\.\.\.\] to apply only some column=name"):
        ingest_changes(changes, SCHEMA)
    with pytest.raises(SchemaMismatchError, match=r"missing.* column=name"):
        ingest_changes(changes, SCHEMA, ["name"])


def test_a_delete_among_changes_may_hold_its_key_alone() -> None:
    batch, _ = ingest_changes([{"id": 1, "name": None, "amount": None, "n": None, "_change_type": "-D"}], SCHEMA)

    assert batch.num_rows == 1


@pytest.mark.parametrize("kind", ["+X", "", None])
def test_an_unknown_change_type_is_named_by_row(kind: str | None) -> None:
    changes = [{**ROWS[0], "_change_type": "+I"}, {**ROWS[0], "_change_type": kind}]
    with pytest.raises(InvalidError, match=r"no such change type.* row=1"):
        ingest_changes(changes, SCHEMA)


def test_changes_without_their_type_are_refused() -> None:
    with pytest.raises(SchemaMismatchError, match=r"it says \+I, -U, \+U or -D column=_change_type"):
        ingest_changes(ROWS, SCHEMA)


def test_no_changes_at_all_need_no_change_type() -> None:
    batch, targets = ingest_changes([], SCHEMA)

    assert (batch.num_rows, targets) == (0, None)
