from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kit.ddl_text import format_ddl

from penstock.errors import InvalidError, PenstockError
from penstock.model.schema.aggregate import AggFunction
from penstock.model.schema.ddl import parse_ddl
from penstock.model.schema.schema import Schema


def test_every_kind_of_column_is_read() -> None:
    schema = parse_ddl(
        """
        city STRING, day DATE NOT NULL,  -- where and when
        revenue DECIMAL(18,2) SUM, items STRING LISTAGG('|'), tags ARRAY<STRING> array_agg,
        m MAP<STRING,BIGINT> last_value, s STRUCT<a: INT, b: STRING NOT NULL> LAST_VALUE, /* more */
        ts TIMESTAMP MAX, tn TIMESTAMP_NTZ MAX COMMENT 'it''s late', PRIMARY KEY (city, day)
        """
    )

    assert schema.arrow_schema == pa.schema(
        [
            pa.field("city", pa.string(), nullable=False),
            pa.field("day", pa.date32(), nullable=False),
            pa.field("revenue", pa.decimal128(18, 2)),
            pa.field("items", pa.string()),
            pa.field("tags", pa.list_(pa.string())),
            pa.field("m", pa.map_(pa.string(), pa.int64())),
            pa.field("s", pa.struct([pa.field("a", pa.int32()), pa.field("b", pa.string(), nullable=False)])),
            pa.field("ts", pa.timestamp("us", "UTC")),
            pa.field("tn", pa.timestamp("us")),
        ]
    )
    assert schema.primary_key == ("city", "day")
    assert [column.agg for column in schema.columns[2:5]] == [
        AggFunction.SUM,
        AggFunction.LISTAGG,
        AggFunction.ARRAY_AGG,
    ]
    assert schema.column("items").agg_params == {"delimiter": "|"}


@pytest.mark.parametrize(
    "text",
    ["id BIGINT PRIMARY KEY, v STRING", "Id bigint, V string, primary key (ID)", 'id long, v text, PRIMARY KEY ("id")'],
)
def test_a_key_is_named_inline_or_apart_in_any_case(text: str) -> None:
    schema = parse_ddl(text)

    assert schema.primary_key == (schema.columns[0].name,)
    assert not schema.columns[0].nullable


def test_quoted_names_may_be_anything_visible() -> None:
    schema = parse_ddl('`a ``b``` INT, "c ""d""" INT, `primary` INT, `date` DATE, date2 DATE, größe INT')

    assert schema.names == ["a `b`", 'c "d"', "primary", "date", "date2", "größe"]


@pytest.mark.parametrize(
    ("text", "position", "expected"),
    [
        ("", 0, "expected a column name, found the end"),
        ("id", 2, "expected a type, found the end"),
        ("id WAT", 3, "expected a type (BOOLEAN"),
        ("id INT,", 7, "expected a column name, found the end"),
        ("id INT v INT", 7, "expected ',', NOT NULL"),
        ("id INT SUM MAX", 11, "one aggregate function"),
        ("id INT, PRIMARY KEY id", 20, "expected '('"),
        ("id INT, PRIMARY KEY (id), PRIMARY KEY (id)", 26, "expected one primary key"),
        ("id ARRAY<INT", 12, "expected '>'"),
        ("id INT; DROP", 6, "unexpected ';'"),
        ("id 'x'", 3, "expected a type"),
        ("`id INT", 0, "unexpected '`'"),
        ("id INT)", 6, "expected ',' or the end"),
        ("a STRING LISTAGG(5)", 17, "expected a delimiter"),
    ],
)
def test_an_error_names_the_position_and_what_was_expected(text: str, position: int, expected: str) -> None:
    with pytest.raises(InvalidError) as caught:
        parse_ddl(text)

    assert expected in str(caught.value)
    assert caught.value.facts["position"] == position


@pytest.mark.parametrize(
    "text",
    [
        "a INT PRIMARY KEY, b INT PRIMARY KEY",
        "a INT PRIMARY KEY, PRIMARY KEY (a)",
        "a INT, PRIMARY KEY (b)",
        "a INT, a STRING",
        "a DOUBLE PRIMARY KEY",
        "_offset INT",
        "a STRING SUM",
        "a INT SUM('x')",
        "a STRING LISTAGG('\ud800')",
    ],
)
def test_columns_that_do_not_go_together_are_refused(text: str) -> None:
    with pytest.raises(InvalidError):
        parse_ddl(text)


_NAMES = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1, max_size=8)
_COLUMNS = st.tuples(
    _NAMES,
    st.sampled_from(
        [
            ("INT", None),
            ("BIGINT", "sum"),
            ("STRING", "listagg"),
            ("DECIMAL(38, 5)", "max"),
            ("TIMESTAMP('Europe/Berlin')", None),
            ("ARRAY<STRUCT<`x y`: MAP<STRING, DOUBLE NOT NULL>>>", "array_agg"),
            ("LARGE_BINARY", "rbm64"),
        ]
    ),
    st.booleans(),
    st.text("|',\"` ", max_size=3),
)


@given(st.lists(_COLUMNS, min_size=1, max_size=6), st.booleans())
def test_a_schema_written_as_text_reads_back_as_itself(
    columns: list[tuple[str, tuple[str, str | None], bool, str]], keyed: bool
) -> None:
    builder = Schema.builder()
    try:
        for name, (words, function), nullable, delimiter in columns:
            if function is None:
                builder.column(name, words, nullable=nullable)
            else:
                builder.agg_column(name, words, function, delimiter=delimiter if function == "listagg" else None)
        if keyed:
            builder.column("the key", "bigint").primary_key("the key")
        schema = builder.build()
    except InvalidError:
        return  # a name is reserved, or two of them cannot be told apart

    assert parse_ddl(format_ddl(schema)) == schema


_PIECES = st.sampled_from([*"abI NTSRG,()<>'`\"-/*:.59\n", " INT", "PRIMARY KEY", "ARRAY<", " SUM ", "a INT, "])


@given(st.lists(_PIECES, max_size=30).map("".join))
def test_any_text_is_a_schema_or_an_error_of_ours(text: str) -> None:
    try:
        schema = parse_ddl(text)
    except PenstockError:
        return

    assert parse_ddl(format_ddl(schema)) == schema
