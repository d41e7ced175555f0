"""The two distributions of this tree: one version, one list of packages, no file in both."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

WHOLE = "packages/penstock-db"


def project_of(folder: Path) -> dict[str, Any]:
    return tomllib.loads((folder / "pyproject.toml").read_text())


def test_distribution_without_code_stays_without(repository: Path) -> None:
    files = {path.name for path in (repository / WHOLE).iterdir() if path.name != "__pycache__"}

    assert files == {"LICENSE", "hatch_build.py", "pyproject.toml"}
    assert project_of(repository / WHOLE)["tool"]["hatch"]["build"]["targets"]["wheel"] == {"bypass-selection": True}


def test_version_and_packages_are_said_once(repository: Path) -> None:
    whole, client = project_of(repository / WHOLE)["project"], project_of(repository)["project"]

    assert {"version", "dependencies", "optional-dependencies"} <= set(whole["dynamic"])
    assert not {"version", "dependencies", "optional-dependencies", "scripts"} & whole.keys()
    assert {"version", "dependencies", "optional-dependencies", "scripts"} <= client.keys()


def test_license_is_the_same_in_both(repository: Path) -> None:
    assert (repository / WHOLE / "LICENSE").read_text() == (repository / "LICENSE").read_text()


@pytest.mark.parametrize("extra", ["engine", "spark", "sql", "pandas", "polars", "cluster", "demo"])
def test_upper_bound_has_its_reason_beside_it(repository: Path, extra: str) -> None:
    lines = (repository / "pyproject.toml").read_text().splitlines()
    begins = next(number for number, line in enumerate(lines) if line.startswith(f"{extra} = ["))
    ends = next(number for number in range(begins, len(lines)) if lines[number].endswith("]"))

    bounded = [number for number in range(begins, ends + 1) if "<" in lines[number]]

    assert [lines[number] for number in bounded if not lines[number - 1].lstrip().startswith("#")] == []
