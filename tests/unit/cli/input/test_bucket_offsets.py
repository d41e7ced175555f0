"""Offsets by bucket, as they are typed."""

from __future__ import annotations

import pytest

from penstock.cli.input.bucket_offsets import format_offsets, read_json_object, read_offsets
from penstock.cli.terminal.options import read_pairs, split_names
from penstock.errors import InvalidError
from penstock.model.place.bucket import TableBucket
from penstock.model.schema.ddl import parse_ddl
from penstock.model.table.table import TableInfo


def table(*partitioned_by: str) -> TableInfo:
    schema = parse_ddl("id BIGINT, day DATE, PRIMARY KEY (id, day)")
    return TableInfo(path="shop.orders", table_id=1, schema=schema, buckets=2, partitioned_by=partitioned_by)


@pytest.mark.parametrize(
    ("info", "buckets"),
    [
        (table(), [TableBucket("shop.orders", None, 0), TableBucket("shop.orders", None, 1)]),
        (table("day"), [TableBucket("shop.orders", "2026-07-01", 0), TableBucket("shop.orders", "a/b", 1)]),
    ],
)
def test_offsets_are_read_as_they_are_written(info: TableInfo, buckets: list[TableBucket]) -> None:
    offsets = {buckets[0]: 17, buckets[1]: 20}

    assert read_offsets(info, read_json_object(format_offsets(offsets), "--as-of"), "--as-of") == offsets


@pytest.mark.parametrize("text", ["", "x", "[1]", "17", '{"0": '])
def test_text_that_is_no_object_is_refused(text: str) -> None:
    with pytest.raises(InvalidError, match="--as-of takes"):
        read_json_object(text, "--as-of")


@pytest.mark.parametrize(("info", "name"), [(table(), "x"), (table(), "p/0"), (table("day"), "0"), (table(), "-1")])
def test_name_of_no_bucket_is_refused(info: TableInfo, name: str) -> None:
    with pytest.raises(InvalidError, match="names buckets as"):
        read_offsets(info, {name: 1}, "--as-of")


def test_names_are_split_at_commas_over_repeated_options() -> None:
    assert split_names(["a, b", "c"]) == ["a", "b", "c"]
    assert split_names(None) is None


def test_pairs_are_split_at_the_first_equals_sign() -> None:
    assert read_pairs(["a=1=2", "b="], "--set") == {"a": "1=2", "b": ""}


@pytest.mark.parametrize("given", [["a"], ["=1"], ["a=1", "a=2"]])
def test_pair_without_name_or_twice_is_refused(given: list[str]) -> None:
    with pytest.raises(InvalidError, match="name=value"):
        read_pairs(given, "--set")
