"""Print the lowest versions that the project file allows, as constraints for pip: `lowest.py engine sql`."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

LOWEST = re.compile(r"^([A-Za-z0-9._-]+)(?:\[[^]]*\])?>=([0-9.]+)")


def lowest(extras: list[str]) -> list[str]:
    """Return a pin for each package of the client and of these extras."""
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    requirements = [*project["dependencies"], *(r for extra in extras for r in project["optional-dependencies"][extra])]
    return [f"{bound[1]}=={bound[2]}" for requirement in requirements if (bound := LOWEST.match(requirement))]


if __name__ == "__main__":
    print("\n".join(lowest(sys.argv[1:])))
