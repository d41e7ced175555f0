"""Rows by key, as users meet them."""

from __future__ import annotations

import datetime as dt
import json

import pyarrow as pa
import pytest

import penstock
from penstock.errors import InvalidError, SchemaMismatchError, UnsupportedError

DAY = dt.date(2024, 1, 1)


@pytest.fixture
def sales(connection: penstock.Connection) -> penstock.Table:
    table = connection.create_table(
        "shop.sales", "city STRING, day DATE, n INT, PRIMARY KEY (city, day)", buckets=3, bucket_key=["city"]
    )
    table.upsert(
        [
            {"city": city, "day": DAY + dt.timedelta(days=n), "n": n}
            for city in ("Ulm", "Ulmen", "Bonn")
            for n in range(3)
        ]
    )
    return table


def test_lookup_answers_in_the_order_asked(sales: penstock.Table) -> None:
    keys = [{"city": city, "day": DAY} for city in ("Bonn", "Rome", "Ulm", "Bonn")]

    found = sales.lookup(keys)

    assert isinstance(found, pa.Table)
    assert found["_found"].to_pylist() == [True, False, True, True]
    assert found["n"].to_pylist() == [0, None, 0, 0]


def test_lookup_may_ask_for_some_columns(sales: penstock.Table) -> None:
    found = sales.lookup([{"city": "Ulm", "day": DAY}], columns=["n"])

    assert found["n"].to_pylist() == [0]
    assert "city" not in found.column_names
    with pytest.raises(InvalidError, match="no such column"):
        sales.lookup([{"city": "Ulm", "day": DAY}], columns=["x"])


def test_many_keys_are_looked_up_at_once(connection: penstock.Connection) -> None:
    table = connection.create_table("shop.t", "id BIGINT, v STRING, PRIMARY KEY (id)", buckets=4)
    table.upsert(pa.table({"id": range(0, 20_000, 2), "v": [str(n) for n in range(0, 20_000, 2)]}))
    table.delete(list(range(0, 100, 2)))

    found = table.lookup(list(range(20_000)))

    assert found["_found"].to_pylist() == [n % 2 == 0 and n >= 100 for n in range(20_000)]
    assert found["v"][19_998].as_py() == "19998"
    assert table.lookup([]).num_rows == 0


def test_get_gives_one_row_or_none(sales: penstock.Table) -> None:
    assert sales.get(city="Ulm", day=DAY) == {"city": "Ulm", "day": DAY, "n": 0}
    assert sales.get(city="Rome", day=DAY) is None
    with pytest.raises(InvalidError, match="get takes every key column and no other"):
        sales.get(city="Ulm")
    with pytest.raises(SchemaMismatchError, match="column=day"):
        sales.get(city="Ulm", day="monday")
    with pytest.raises(SchemaMismatchError, match=r"a key column is never null.* column=city"):
        sales.get(city=None, day=DAY)


def test_prefix_lookup_finds_what_shares_the_first_key_columns(sales: penstock.Table) -> None:
    found = sales.prefix_lookup(city="Ulm")

    assert sorted(found["n"].to_pylist()) == [0, 1, 2]
    assert set(found["city"].to_pylist()) == {"Ulm"}
    assert sales.prefix_lookup(city="Rome").num_rows == 0
    with pytest.raises(InvalidError, match="prefix_lookup takes the first key columns"):
        sales.prefix_lookup(day=DAY)
    with pytest.raises(InvalidError, match="prefix_lookup takes the first key columns"):
        sales.prefix_lookup()


def test_prefix_lookup_also_works_over_all_buckets(connection: penstock.Connection) -> None:
    table = connection.create_table("shop.t", "a STRING, b INT, PRIMARY KEY (a, b)", buckets=4)
    table.upsert([{"a": a, "b": b} for a in ("x", "y") for b in range(20)])

    assert sorted(table.prefix_lookup(a="x")["b"].to_pylist()) == list(range(20))


def test_lookups_see_every_write_at_once(sales: penstock.Table) -> None:
    for n in range(20):
        sales.upsert([{"city": "Ulm", "day": DAY, "n": n}])
        assert sales.get(city="Ulm", day=DAY) == {"city": "Ulm", "day": DAY, "n": n}
    sales.delete([{"city": "Ulm", "day": DAY}])
    assert sales.get(city="Ulm", day=DAY) is None


def offsets_of(found: pa.Table) -> dict[str, int]:
    told = json.loads(found.schema.metadata[b"penstock.offsets"])
    assert all(type(offset) is str for offset in told.values())
    return {bucket: int(offset) for bucket, offset in told.items()}


def test_lookups_say_up_to_which_changes_they_looked(sales: penstock.Table) -> None:
    keys = [{"city": "Ulm", "day": DAY}, {"city": "Bonn", "day": DAY}]
    ends = {str(bucket.bucket): offsets.end for bucket, offsets in sales.offsets().items()}
    looked = offsets_of(sales.lookup(keys))
    assert looked
    assert looked.items() <= ends.items()
    assert offsets_of(sales.prefix_lookup(city="Ulm")).items() <= ends.items()
    assert offsets_of(sales.lookup([{"city": "Rome", "day": DAY}])).items() <= ends.items()

    (written,) = sales.upsert([{"city": "Ulm", "day": DAY, "n": 9}]).offsets.items()
    assert offsets_of(sales.lookup(keys))[str(written[0].bucket)] == written[1][1]


def test_offsets_of_lookups_name_partitions(connection: penstock.Connection) -> None:
    t = connection.create_table("shop.p", "day INT, id INT, PRIMARY KEY (day, id)", partitioned_by=["day"], buckets=2)
    written = t.upsert({"day": [1, 2], "id": [7, 7]}).offsets
    named = {f"{bucket.partition}/{bucket.bucket}": end for bucket, (_, end) in written.items()}

    assert offsets_of(t.lookup({"day": [1, 2], "id": [7, 7]})) == named
    assert offsets_of(t.lookup({"day": [3], "id": [7]})) == {}


def test_log_tables_have_no_lookup(connection: penstock.Connection) -> None:
    log = connection.create_table("shop.log", "a INT")
    for call in (lambda: log.lookup([1]), lambda: log.get(a=1), lambda: log.prefix_lookup(a=1)):
        with pytest.raises(UnsupportedError, match=r"needs a table with a primary key; scan the log table=shop.log"):
            call()


def test_day_beyond_pythons_years_is_read_as_arrow(connection: penstock.Connection) -> None:
    table = connection.create_table("shop.far", "id INT, day DATE, PRIMARY KEY (id)")
    far = pa.array([10**7], pa.int32()).cast(pa.date32())
    table.upsert(pa.table({"id": pa.array([1], pa.int32()), "day": far}))

    with pytest.raises(UnsupportedError, match="read it with lookup, as Arrow"):
        table.get(id=1)

    assert table.lookup([{"id": 1}])["day"].combine_chunks().equals(far)
