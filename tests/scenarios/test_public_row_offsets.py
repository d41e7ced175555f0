"""Rows with the offsets at which they began, from scans and lookups."""

from __future__ import annotations

import pyarrow as pa
import pytest
from tests.scenarios.conftest import Connect

import penstock
from penstock.errors import InvalidError, UnsupportedError

SCHEMA = "id BIGINT NOT NULL, n BIGINT, PRIMARY KEY (id)"


def test_a_scan_gives_the_offset_at_which_each_row_began(connection: penstock.Connection) -> None:
    table = connection.create_table("shop.orders", SCHEMA)
    table.upsert({"id": [1, 2, 3], "n": [1, 2, 3]})
    table.upsert({"id": [2], "n": [20]})
    table.delete({"id": [3]})

    found = table.scan(offsets=True).to_arrow()

    assert found.schema.names == ["id", "n", "_offset"]
    assert found.schema.field("_offset") == pa.field("_offset", pa.int64(), nullable=False)
    assert sorted(zip(*(found[name].to_pylist() for name in found.schema.names), strict=True)) == [
        (1, 1, 0),
        (2, 20, 3),
    ]


def test_offsets_come_with_columns_a_filter_a_limit_and_a_cut(connection: penstock.Connection) -> None:
    table = connection.create_table("shop.orders", SCHEMA, buckets=3)
    table.upsert({"id": list(range(100)), "n": list(range(100))})
    cut = table.cut()
    table.upsert({"id": list(range(100)), "n": [0] * 100})

    found = table.scan(columns=["n"], filter="id >= 50", as_of=cut, offsets=True).to_arrow()
    some = table.scan(columns=["n"], limit=7, offsets=True).to_arrow()
    none = table.scan(filter="id > 1000", offsets=True).to_arrow()

    assert found.schema.names == some.schema.names == none.schema.names[1:] == ["n", "_offset"]
    assert sorted(found["n"].to_pylist()) == list(range(50, 100))
    assert some.num_rows == 7
    assert none.num_rows == 0
    changed = {
        (row["_bucket"], row["_offset"]): row["n"]
        for batch in table.changes(end=cut)
        for row in batch.to_pylist()
        if row["id"] >= 50
    }
    assert sorted(found["_offset"].to_pylist()) == sorted(offset for _, offset in changed)


def test_a_scan_with_offsets_goes_on_by_token(connection: penstock.Connection) -> None:
    table = connection.create_table("shop.orders", SCHEMA, buckets=2)
    table.upsert({"id": list(range(1_000)), "n": list(range(1_000))})
    first = table.scan(offsets=True)
    begun = next(first)

    rest = connection.resume_scan(first.resume_token).to_arrow()

    assert rest.schema == begun.schema
    both = pa.concat_tables([pa.Table.from_batches([begun]), rest])
    assert sorted(both["id"].to_pylist()) == list(range(1_000))


def test_a_page_with_offsets_goes_on_by_token(connection: penstock.Connection) -> None:
    table = connection.create_table("shop.orders", SCHEMA)
    table.upsert({"id": list(range(1_000)), "n": list(range(1_000))})
    first = connection.scanner(table, 0, page_bytes=1_000, offsets=True).open()

    again = connection.scanner(table, 0).open(first.resume_token)
    rest = connection.resume_scan(first.resume_token).to_arrow()

    assert again.batch.schema.names == rest.schema.names == ["id", "n", "_offset"]
    assert rest["_offset"].to_pylist() == list(range(first.next_offset, 1_000))


def test_a_log_table_gives_the_offsets_of_its_rows(connection: penstock.Connection) -> None:
    table = connection.create_table("shop.clicks", "n BIGINT")
    table.append({"n": [7, 8]})

    assert table.scan(offsets=True).to_arrow().to_pydict() == {"n": [7, 8], "_offset": [0, 1]}
    assert table.scan(columns=["n"], filter="n > 7", offsets=True).to_arrow().to_pydict() == {"n": [8], "_offset": [1]}


def test_a_lookup_gives_the_offset_at_which_each_row_began(connection: penstock.Connection) -> None:
    table = connection.create_table("shop.orders", SCHEMA, buckets=2)
    table.upsert({"id": [1, 2], "n": [1, 2]})
    table.upsert({"id": [1], "n": [10]})
    known = dict(
        zip(*(table.scan(offsets=True).to_arrow()[name].to_pylist() for name in ("id", "_offset")), strict=True)
    )

    many = table.lookup({"id": [2, 9, 1]}, offsets=True)
    one = table.lookup([{"id": 1}], columns=["n"], offsets=True)
    none = table.lookup([{"id": 9}], offsets=True, consistency="leader")

    assert many.schema.names == ["id", "n", "_found", "_offset"]
    assert many["_offset"].to_pylist() == [known[2], None, known[1]]
    assert one.to_pydict() == {"n": [10], "_found": [True], "_offset": [known[1]]}
    assert none.to_pydict() == {"id": [9], "n": [None], "_found": [False], "_offset": [None]}
    assert table.lookup({"id": [1]}).schema.names == ["id", "n", "_found"]


def test_what_gives_no_offsets_says_so(connection: penstock.Connection) -> None:
    table = connection.create_table("shop.orders", SCHEMA)

    with pytest.raises(InvalidError, match="offsets is True or False"):
        table.scan(offsets="yes")  # type: ignore[arg-type]
    with pytest.raises(InvalidError, match="offsets is True or False"):
        table.lookup([{"id": 1}], offsets=1)  # type: ignore[arg-type]
    with pytest.raises(InvalidError, match="the leader answers"):
        table.lookup([{"id": 1}], consistency="replica")


def test_offsets_of_a_leased_table_are_those_of_the_lease(connect: Connect) -> None:
    connection = connect()
    connection.create_database("shop")
    table = connection.create_table("shop.orders", SCHEMA)
    table.upsert({"id": [1], "n": [1]})
    lease = connection.acquire_lease("job", table.cut())
    table.upsert({"id": [1], "n": [2]})
    connection.drop_table("shop.orders")

    assert lease.table("shop.orders").scan(offsets=True).to_arrow().to_pydict() == {"id": [1], "n": [1], "_offset": [0]}
    with pytest.raises(UnsupportedError, match="scan it with a filter"):
        lease.table("shop.orders").lookup([{"id": 1}], offsets=True)
