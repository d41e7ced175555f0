from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import InvalidError, LimitError
from penstock.model.schema.type_words import format_type, parse_type
from penstock.model.schema.types import (
    COLUMN_TYPES,
    DEPTH_MAX,
    REFUSED_TYPES,
    canonical,
    check_key_type,
    check_partition_type,
    find_type,
)

PLAIN = [
    pa.bool_(),
    pa.int8(),
    pa.int16(),
    pa.int32(),
    pa.int64(),
    pa.float32(),
    pa.float64(),
    pa.decimal128(1, 0),
    pa.decimal128(38, 38),
    pa.string(),
    pa.large_string(),
    pa.binary(),
    pa.large_binary(),
    pa.date32(),
    pa.timestamp("us"),
    pa.timestamp("us", "UTC"),
    pa.timestamp("us", "Europe/Berlin"),
    pa.timestamp("us", "+05:30"),
]


def nested(children: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.DataType]:
    names = st.lists(st.text("abcXYZ `<>,:'\"", min_size=1, max_size=4), min_size=1, max_size=3, unique_by=str.casefold)
    fields = st.builds(
        lambda names, data: pa.struct([pa.field(name, *one) for name, one in zip(names, data, strict=False)]),
        names,
        st.lists(st.tuples(children, st.booleans()), min_size=3, max_size=3),
    )
    return (
        st.builds(lambda child, null: pa.list_(pa.field("item", child, null)), children, st.booleans())
        | st.builds(lambda child: pa.large_list(pa.field("item", child)), children)
        | st.builds(
            lambda key, child, null: pa.map_(key, pa.field("value", child, null)), children, children, st.booleans()
        )
        | fields
    )


TYPES = st.recursive(st.sampled_from(PLAIN), nested, max_leaves=8)


@given(TYPES)
def test_a_type_written_in_words_reads_back_as_the_same_type(type_: pa.DataType) -> None:
    kept = canonical(type_, "c")

    assert parse_type(format_type(kept)).equals(kept, check_metadata=True)
    assert canonical(kept, "c").equals(kept, check_metadata=True)


@pytest.mark.parametrize("type_", PLAIN, ids=str)
def test_plain_types_are_kept_as_they_are(type_: pa.DataType) -> None:
    assert canonical(type_, "c").equals(type_)


@pytest.mark.parametrize(
    ("type_", "nearest"),
    [
        (pa.uint8(), "smallint"),
        (pa.uint16(), "int "),
        (pa.uint32(), "bigint"),
        (pa.uint64(), r"decimal\(20, 0\)"),
        (pa.float16(), "float"),
        (pa.decimal32(5, 2), "decimal128"),
        (pa.decimal256(40, 2), "decimal128"),
        (pa.timestamp("s"), r"timestamp\[us\]"),
        (pa.timestamp("ms"), r"timestamp\[us\]"),
        (pa.timestamp("ns", "UTC"), r"timestamp\[us\]"),
        (pa.date64(), "date32"),
        (pa.time32("s"), "bigint"),
        (pa.time64("us"), "bigint"),
        (pa.duration("us"), "bigint"),
        (pa.month_day_nano_interval(), "bigint"),
        (pa.dictionary(pa.int32(), pa.string()), r"\(string\)"),
        (pa.run_end_encoded(pa.int32(), pa.string()), "values"),
        (pa.null(), "string"),
        (pa.string_view(), "string"),
        (pa.binary_view(), "binary"),
        (pa.binary(16), "binary"),
        (pa.list_(pa.int32(), 3), "array"),
        (pa.list_view(pa.int32()), "array"),
        (pa.sparse_union([pa.field("a", pa.int32())]), "struct"),
        (pa.uuid(), "storage type"),
    ],
    ids=str,
)
def test_a_type_without_a_place_is_refused_with_the_nearest_choice(type_: pa.DataType, nearest: str) -> None:
    with pytest.raises(InvalidError, match=nearest) as caught:
        canonical(type_, "amount")

    assert "column=amount" in str(caught.value)


def test_a_type_without_a_place_is_refused_inside_others_too() -> None:
    with pytest.raises(InvalidError, match="bigint"):
        canonical(pa.list_(pa.struct([("a", pa.map_(pa.string(), pa.uint32()))])), "c")


def test_spellings_of_one_type_become_one() -> None:
    spelled = pa.list_(pa.field("element", pa.int32(), metadata={"k": "v"}))

    assert canonical(spelled, "c").equals(pa.list_(pa.int32()), check_metadata=True)
    assert canonical(pa.map_(pa.string(), pa.int32(), keys_sorted=True), "c") == pa.map_(pa.string(), pa.int32())


def test_types_are_nested_to_a_limit() -> None:
    type_ = pa.int32()
    for _ in range(DEPTH_MAX):
        type_ = pa.list_(type_)
    canonical(type_, "c")

    with pytest.raises(LimitError, match="nested"):
        canonical(pa.list_(type_), "c")
    with pytest.raises(InvalidError, match="nested"):
        parse_type("ARRAY<" * 40 + "INT" + ">" * 40)


@pytest.mark.parametrize("type_", [pa.struct([]), pa.struct([("a", pa.int8()), ("A", pa.int8())])], ids=str)
def test_structs_have_fields_that_can_be_told_apart(type_: pa.DataType) -> None:
    with pytest.raises(InvalidError):
        canonical(type_, "c")


@pytest.mark.parametrize("zone", ["Mars/Phobos", "../etc/passwd", "UTC\x00", "x" * 500])
def test_an_unknown_zone_is_refused(zone: str) -> None:
    with pytest.raises(InvalidError, match="time zone"):
        canonical(pa.timestamp("us", zone), "c")


@pytest.mark.parametrize("type_", PLAIN, ids=str)
def test_only_floats_and_nested_types_are_no_keys(type_: pa.DataType) -> None:
    if pa.types.is_floating(type_):
        with pytest.raises(InvalidError, match="decimal or bigint"):
            check_key_type(type_, "c")
    else:
        check_key_type(type_, "c")


@pytest.mark.parametrize("type_", [pa.list_(pa.int8()), pa.struct([("a", pa.int8())]), pa.map_(pa.int8(), pa.int8())])
def test_nested_types_are_no_keys_and_no_partitions(type_: pa.DataType) -> None:
    with pytest.raises(InvalidError, match="key column"):
        check_key_type(type_, "c")
    with pytest.raises(InvalidError, match="partition column"):
        check_partition_type(type_, "c")


@pytest.mark.parametrize("words", ["varchar(20)", "char( 3 )", "text", "String"])
def test_synonyms_name_the_same_type(words: str) -> None:
    assert parse_type(words) == pa.string()


@pytest.mark.parametrize(
    "words",
    [
        "",
        "wat",
        "decimal(39,0)",
        "decimal(0)",
        "decimal(2,3)",
        "array",
        "array<>",
        "map<int>",
        "struct<a>",
        "int int",
        "5",
    ],
)
def test_words_that_name_no_type_are_refused(words: str) -> None:
    with pytest.raises(InvalidError):
        parse_type(words)


def test_the_type_table_of_the_guide_is_this_one(repository: Path) -> None:
    guide = (repository / "docs/guide/types.md").read_text()
    rows = [
        f"| `{row.arrow}` | `{'`, `'.join(row.words)}` | `{row.spark}` | {_mark(row.key)} | {_mark(row.partition)} |"
        for row in COLUMN_TYPES
    ]
    refused = [f"| `{row.arrow}` | {row.nearest} |" for row in REFUSED_TYPES]

    assert "\n".join(rows) in guide
    assert "\n".join(refused) in guide


def test_every_plain_type_has_one_row() -> None:
    for type_ in PLAIN:
        assert [row.matches(type_) for row in COLUMN_TYPES].count(True) == 1
        assert find_type(type_) is not None


def _mark(allowed: bool) -> str:
    return "yes" if allowed else "no"
