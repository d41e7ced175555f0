"""The reference in the repository is what the code says."""

from __future__ import annotations

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest

import penstock
import penstock.spark


@pytest.fixture(scope="module")
def reference(repository: Path) -> Any:
    return loaded(repository, "reference_api")


@pytest.fixture(scope="module")
def tables(repository: Path) -> Any:
    return loaded(repository, "reference_tables")


def loaded(repository: Path, name: str) -> Any:
    # The folder of the documentation is no package.
    spec = spec_from_file_location(name, repository / f"docs/{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("page", ["api.md", "spark.md"])
def test_page_is_what_the_code_says(page: str, reference: Any, repository: Path) -> None:
    written = (repository / "docs/reference" / page).read_text()

    assert written == reference.PAGES[page](), "write it anew: python docs/reference_api.py"


@pytest.mark.parametrize(
    ("page", "names"),
    [
        ("cli.md", ("shared options", "commands")),
        ("errors.md", ("errors",)),
        ("settings.md", ("settings", "table properties")),
    ],
)
def test_table_is_what_the_code_says(page: str, names: tuple[str, ...], tables: Any, repository: Path) -> None:
    written = (repository / "docs/reference" / page).read_text()

    assert page in tables.PAGES
    assert [name for name in names if f"<!-- end of {name} -->" not in written] == []
    assert written == tables.filled(written), "write it anew: python docs/reference_tables.py"


def test_everything_that_is_exported_is_in_the_reference(reference: Any) -> None:
    told_elsewhere = {"EARLIEST", "LATEST", "Offsets", "PenstockError", "col", "errors"}

    assert set(reference.PYTHON) == set(penstock.__all__) - told_elsewhere
    assert set(reference.SPARK) == set(penstock.spark.__all__)
