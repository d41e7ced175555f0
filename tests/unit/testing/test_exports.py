"""What `penstock.testing` gives to users: these names and no more, each in the guide; the tests' kit stays here."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

import penstock.testing

ROOT = Path(__file__).parents[3]
EXPORTS = ["FaultyDisk", "ManualClock", "Operation", "ServerProcess", "SimulatedCrash", "server"]


def test_room_exports_exactly_these_names() -> None:
    assert sorted(penstock.testing.__all__) == EXPORTS


@pytest.mark.parametrize("name", EXPORTS)
def test_export_is_named_in_the_guide(name: str) -> None:
    section = (ROOT / "docs/guide/serving.md").read_text().split("## In tests")[1].split("\n## ")[0]

    assert name in section


def test_kit_of_the_tests_is_not_installed() -> None:
    wheel = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]

    assert all(part.startswith("src/") for part in wheel["packages"])
