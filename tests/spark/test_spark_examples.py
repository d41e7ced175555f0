"""The examples do what they say, each against the tests' Spark and server."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession


@pytest.fixture
def run_example(
    spark: SparkSession, url: str, tmp_path: Path, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> Any:
    """Return a function that runs an example by its name."""
    monkeypatch.syspath_prepend(str(repository))

    def run(name: str) -> Any:
        return importlib.import_module(f"examples.{name}").example(spark, url, tmp_path)

    return run


@pytest.mark.parametrize("name", ["spark_replicate", "spark_export", "spark_backfill"])
def test_what_follows_a_table_ends_equal_to_it(run_example: Any, name: str) -> None:
    assert run_example(name) is True


def test_sums_follow_updates_moves_and_deletes(run_example: Any) -> None:
    assert run_example("spark_fold_changes") == [
        {"city": "Kiel", "amount": 25, "orders": 1},
        {"city": "Ulm", "amount": 40, "orders": 4},
    ]


def test_two_jobs_fill_their_own_columns(run_example: Any) -> None:
    assert run_example("spark_wide_table") == [{"user": user, "visits": 10, "paid": 10} for user in range(3)]


def test_rows_are_enriched_at_a_cut_and_as_they_pass(run_example: Any) -> None:
    enriched = [
        {"id": 1, "page": "home", "name": "Ada"},
        {"id": 2, "page": "cart", "name": "Bo"},
        {"id": 3, "page": "home", "name": None},
    ]
    assert run_example("spark_enrich") == {"cut": enriched, "lookup": enriched}


def test_every_spark_example_is_run(repository: Path) -> None:
    source = Path(__file__).read_text()
    names = {path.stem for path in (repository / "examples").glob("spark_*.py")} - {"spark_here"}
    assert {name for name in names if name in source} == names
