from __future__ import annotations

import io
from pathlib import Path

from rich.console import Console

import penstock
from penstock.cli.top import Sample, _screen, take_sample


def words(sample: Sample, earlier: Sample | None = None) -> str:
    console = Console(file=io.StringIO(), width=200)
    console.print(_screen(sample, earlier))
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
    earlier = Sample(10.0, {"shop.orders": figures | {"changes": 100}}, 0)
    later = Sample(12.0, {"shop.orders": figures | {"changes": 500}}, 0)

    (row,) = later.rates_since(earlier)

    assert row["changes_per_s"] == 200
    assert "owners" not in words(later, earlier)
    assert "200" in words(later, earlier)
