from __future__ import annotations

import importlib

import pytest

from penstock.errors import UnsupportedError
from penstock.runtime.packages import install_command, needs_engine, needs_extra


def test_command_names_the_distribution_and_its_extra() -> None:
    assert install_command() == "pip install penstock-db"
    assert install_command("sql") == "pip install 'penstock-db[sql]'"


@pytest.mark.parametrize("name", ["xxhash", "rocksdict", "typer.main"])
def test_missing_package_of_the_engine_says_what_to_install(name: str) -> None:
    with pytest.raises(UnsupportedError) as caught, needs_engine("a data directory"):
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    assert str(caught.value).startswith("a data directory needs the engine, and only the client is installed")
    assert "pip install penstock-db " in f"{caught.value} "
    assert caught.value.facts == {"missing": name.partition(".")[0]}


def test_missing_module_that_no_package_brings_stays_what_it_is() -> None:
    with pytest.raises(ModuleNotFoundError), needs_engine("a data directory"):
        importlib.import_module("penstock.nowhere")


def test_missing_package_of_an_extra_says_what_to_install() -> None:
    with pytest.raises(UnsupportedError) as caught, needs_extra("to_polars", "polars", "polars"):
        raise ModuleNotFoundError("No module named 'polars'", name="polars")

    assert str(caught.value) == "to_polars needs polars; pip install 'penstock-db[polars]'"


def test_broken_package_of_an_extra_stays_what_it_is() -> None:
    with pytest.raises(ModuleNotFoundError, match="dateutil"), needs_extra("to_pandas", "pandas", "pandas"):
        raise ModuleNotFoundError("No module named 'dateutil'", name="dateutil")
