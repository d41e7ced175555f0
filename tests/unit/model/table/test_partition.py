from __future__ import annotations

from datetime import date
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import InvalidError, LimitError
from penstock.model.schema.ddl import parse_ddl
from penstock.model.table.partition import (
    parse_partition_name,
    partition_codes,
    partition_columns,
    partition_name,
    partition_names,
)

SCHEMA = parse_ddl("day DATE, city STRING, flag BOOLEAN, n SMALLINT, big BIGINT, `a/b=c` LARGE_STRING")
DAY_AND_CITY = partition_columns(SCHEMA, ["day", "city"])


def test_a_partition_is_named_by_its_escaped_values() -> None:
    name = partition_name(DAY_AND_CITY, {"city": "Neu-Ulm/a=b%", "day": date(2024, 1, 31)})

    assert name == "day=2024-01-31/city=Neu-Ulm%2Fa%3Db%25"
    assert parse_partition_name(DAY_AND_CITY, name) == {"day": date(2024, 1, 31), "city": "Neu-Ulm/a=b%"}


@given(st.dates(), st.text(max_size=20), st.booleans(), st.integers(-(1 << 15), (1 << 15) - 1), st.text(max_size=5))
def test_names_read_back_as_the_same_values(day: date, city: str, flag: bool, n: int, odd: str) -> None:
    columns = partition_columns(SCHEMA, ["a/b=c", "n", "day", "flag", "city"])
    values = {"day": day, "city": city, "flag": flag, "n": n, "a/b=c": odd}

    name = partition_name(columns, values)

    assert parse_partition_name(columns, name) == values
    assert name.isascii()
    assert name.isprintable()
    assert name.count("/") == 4


def test_rows_get_names_and_codes_by_distinct_values() -> None:
    days = pa.array([date(2024, 1, 2), date(2024, 1, 1), date(2024, 1, 2), date(2024, 1, 2)])
    cities = pa.array(["Ulm", "Ulm", "Bonn", "Ulm"])

    names, codes = partition_codes(DAY_AND_CITY, [days, cities])

    assert [names[code] for code in codes] == partition_names(DAY_AND_CITY, [days, cities]).to_pylist()
    assert [names[code] for code in codes] == [
        "day=2024-01-02/city=Ulm",
        "day=2024-01-01/city=Ulm",
        "day=2024-01-02/city=Bonn",
        "day=2024-01-02/city=Ulm",
    ]
    assert len(names) == 3
    assert codes.dtype == np.int64


def test_names_of_many_rows_equal_the_names_of_each() -> None:
    seed = 7
    print(f"seed={seed}")
    chance = np.random.default_rng(seed)
    columns = partition_columns(SCHEMA, ["big", "city", "flag"])
    arrays = [
        pa.array(chance.integers(-3, 3, 500)),
        pa.array(chance.choice(["", "a", "b c", "ü"], 500)),
        pa.array(chance.random(500) < 0.5),
    ]

    names = partition_names(columns, arrays).to_pylist()

    for row in range(500):
        values = {column.name: array[row].as_py() for column, array in zip(columns, arrays, strict=True)}
        assert names[row] == partition_name(columns, values)


def test_no_rows_have_no_partitions() -> None:
    names, codes = partition_codes(DAY_AND_CITY, [pa.array([], pa.date32()), pa.array([], pa.string())])

    assert names == []
    assert len(codes) == 0


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"day": date(2024, 1, 1)},
        {"day": date(2024, 1, 1), "city": "a", "more": 1},
        {"day": None, "city": "a"},
        {"day": "31.1.2024", "city": "a"},
        {"day": date(2024, 1, 1), "city": 7},
    ],
)
def test_values_that_do_not_fit_are_refused(values: dict[str, Any]) -> None:
    with pytest.raises(InvalidError):
        partition_name(DAY_AND_CITY, values)


def test_a_null_names_column_and_row() -> None:
    with pytest.raises(InvalidError, match="partition column is null column=city row=1"):
        partition_names(partition_columns(SCHEMA, ["city"]), [pa.array(["a", None])])


@pytest.mark.parametrize(
    "name",
    [
        "",
        "day=2024-01-01",
        "city=a/day=2024-01-01",
        "day=2024-1-1/city=a",
        "day=x/city=a",
        "day=2024-01-01/city=%ff",
        "day=2024-01-01/city=a b",
        "day=2024-01-01/city=../..",
    ],
)
def test_a_name_that_no_partition_has_is_refused(name: str) -> None:
    with pytest.raises(InvalidError):
        parse_partition_name(DAY_AND_CITY, name)


def test_a_very_long_name_is_refused() -> None:
    with pytest.raises(LimitError, match="1024 characters"):
        partition_name(DAY_AND_CITY, {"day": date(2024, 1, 1), "city": "x" * 2_000})
