"""Workers that run a Python without penstock: the driver says so, and what to set."""

from __future__ import annotations

import sys
import venv
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import penstock.spark as pks
from penstock.errors import InvalidError

NOWHERE = "penstock://127.0.0.1:1"
"""No server is asked: what is wrong with the workers is said first."""


@pytest.fixture(autouse=True)
def registered_as_before(spark: SparkSession) -> Iterator[None]:
    """Leave the source to other tests as it was: a source keeps the Python that it was registered with."""
    yield
    pks.register(spark)


@pytest.fixture
def bare_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return a Python that has nothing installed."""
    venv.create(tmp_path / "bare", with_pip=False, symlinks=True)
    monkeypatch.delenv("PYTHONPATH", raising=False)
    return str(tmp_path / "bare" / "bin" / "python")


@pytest.mark.parametrize(
    "use",
    [
        pks.register,
        lambda spark: pks.read(spark, NOWHERE, "shop.t"),
        lambda spark: pks.read_stream(spark, NOWHERE, "shop.t"),
        lambda spark: pks.write(spark.range(1), NOWHERE, "shop.t"),
        lambda spark: pks.write_stream(spark.readStream.format("rate").load(), NOWHERE, "shop.t", checkpoint="/x"),
        lambda spark: pks.lookup_join(spark.range(1), NOWHERE, "shop.t"),
    ],
    ids=["register", "read", "read_stream", "write", "write_stream", "lookup_join"],
)
def test_a_worker_without_penstock_is_found_before_a_job_runs(
    spark: SparkSession, bare_python: str, monkeypatch: pytest.MonkeyPatch, use: Callable[[SparkSession], object]
) -> None:
    monkeypatch.setattr(spark.sparkContext, "pythonExec", bare_python)

    with pytest.raises(InvalidError, match=f"set PYSPARK_PYTHON={sys.executable} .*python={bare_python}"):
        use(spark)


def test_a_worker_with_penstock_may_run_another_python(
    spark: SparkSession, bare_python: str, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(repository / "src"))
    monkeypatch.setattr(spark.sparkContext, "pythonExec", bare_python)

    pks.register(spark)


def test_a_python_that_only_the_workers_have_is_left_to_them(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark.sparkContext, "pythonExec", "./environment/bin/python")

    pks.register(spark)
