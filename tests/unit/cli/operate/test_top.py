from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

import penstock
from penstock.cli.operate.top_sample import Sample, take_sample
from penstock.cli.operate.top_screen import draw, query_name
from penstock.model.node.owner import OwnerInfo


def words(sample: Sample, earlier: Sample | None = None, width: int = 200) -> str:
    console = Console(file=io.StringIO(), width=width)
    console.print(draw(sample, earlier, width))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_owners_and_leases_are_shown_with_what_they_hold(tmp_path: Path) -> None:
    with penstock.connect(tmp_path / "data") as connection:
        sums = connection.create_table("sums", "city STRING, amount BIGINT SUM, PRIMARY KEY (city)")
        lease = connection.acquire_lease("backfill-7", sums.cut())
        owner = sums.acquire_owner("job-7", columns=["amount"])
        owner.begin(epoch=3)
        sums.upsert([{"city": "Ulm", "amount": 5}], owner=owner)

        sample = take_sample(connection)

        assert (sample.tables["default.sums"]["leases"], sample.tables["default.sums"]["rows_pending"]) == (1, 1)
        assert "job-7" in words(sample)
        assert "backfill-7" in words(sample)
        owner.release()
        lease.drop()


def test_rate_is_changes_by_time() -> None:
    figures = {"rows": 1, "bytes": 1, "buckets": 1, "scanners": 0, "pins": 0, "leases": 0, "rows_pending": 0}
    earlier = Sample(10.0, {"shop.orders": figures | {"changes": 100}})
    later = Sample(12.0, {"shop.orders": figures | {"changes": 500}})

    (row,) = later.rates_since(earlier)

    assert row["changes_per_s"] == 200
    assert "owners" not in words(later, earlier)
    assert "200" in words(later, earlier)


@pytest.mark.parametrize(
    ("holder", "name"),
    [("revenue at host-1:42", "revenue"), ("a at b at host-1:42", "a at b"), ("host-1:42", "3f2c"), ("", "3f2c")],
)
def test_owner_is_called_by_the_name_of_its_query(holder: str, name: str) -> None:
    owner = OwnerInfo("shop.sums", "3f2c", ("amount",), 1, "3f2c", 7, 8, 12, holder, True, 59_000)

    assert query_name(owner) == name
    assert name in words(Sample(1.0, {}, owners=(owner,)))
    assert "59s" in words(Sample(1.0, {}, owners=(owner,)))


def test_scanners_are_shown_with_what_they_read(tmp_path: Path) -> None:
    with penstock.connect(tmp_path / "data") as connection:
        orders = connection.create_table("orders", "id BIGINT PRIMARY KEY")
        orders.upsert({"id": list(range(1_000))})
        scanner = connection.scanner(orders, 0, page_bytes=100)
        opened = scanner.open()

        sample = take_sample(connection)

        assert sample.tables["default.orders"]["scanners"] == 1
        assert str(opened.scanner_id) in words(sample)
        scanner.close()


def test_long_lists_are_cut(tmp_path: Path) -> None:
    owners = tuple(
        OwnerInfo("shop.sums", f"job-{n}", ("amount",), 1, None, -1, None, 0, "", False, 0) for n in range(40)
    )

    shown = words(Sample(1.0, {}, owners=owners))

    assert "owners, 15 of 40" in shown
    assert "job-14" in shown
    assert "job-15" not in shown


def test_changes_of_a_partition_that_came_back_are_counted_from_its_birth(tmp_path: Path) -> None:
    with penstock.connect(tmp_path / "data") as connection:
        table = connection.create_table("t", "day INT, id INT, PRIMARY KEY (day, id)", partitioned_by=["day"])
        for _ in range(2):
            table.create_partition({"day": 1})
            table.upsert([{"day": 1, "id": number} for number in range(3)])
            assert take_sample(connection).tables["default.t"]["changes"] == 3
            table.drop_partition({"day": 1})


@pytest.mark.parametrize("width", [60, 80, 120])
def test_every_row_is_one_line_that_fits_the_terminal(tmp_path: Path, width: int) -> None:
    name = "a_table_with_a_rather_long_name_as_people_have"
    with penstock.connect(tmp_path / "data") as connection:
        table = connection.create_table(name, "city STRING, amount BIGINT SUM, PRIMARY KEY (city)")
        table.upsert({"city": [f"city {i}" for i in range(5000)], "amount": [1] * 5000})
        lease = connection.acquire_lease("a-lease-of-a-backfill-that-has-a-name", table.cut())
        owner = table.acquire_owner("job-of-a-query-with-a-name-of-its-own", columns=["amount"])

        shown = words(take_sample(connection), take_sample(connection), width)
        owner.release()
        lease.drop()

    lines = shown.splitlines()
    assert max(map(len, lines)) <= width
    assert "5,000" in shown
    assert len([line for line in lines if "default." in line]) == 3
    assert "changes/s" in shown
