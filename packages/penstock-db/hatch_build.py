"""The metadata of `penstock-db`, from the project file of `penstock-db-client`: one version, one list of packages.

In a source distribution there is no such file, and hatchling takes the same fields from PKG-INFO.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

CLIENT = "penstock-db-client"
ENGINE = "engine"
# For who works on this tree; nobody installs them from an index.
DEVELOPERS = ("bench", "dev", "release", "test")
SHARED = ("version", "license", "requires-python", "keywords", "classifiers")


class SharedMetadata(MetadataHookInterface):
    """Fields of the client's project, with its engine's packages as dependencies."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Fill in every field that is declared dynamic."""
        root = Path(self.root).parents[1]
        project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        version, extras = project["version"], dict(project["optional-dependencies"])
        metadata.update({name: project[name] for name in SHARED})
        metadata["license-files"] = ["LICENSE"]
        metadata["readme"] = {
            "content-type": "text/markdown",
            "text": (root / project["readme"]).read_text(encoding="utf-8"),
        }
        metadata["dependencies"] = [f"{CLIENT}=={version}", *extras.pop(ENGINE)]
        metadata["optional-dependencies"] = {
            name: [_pinned(requirement, version) for requirement in requirements]
            for name, requirements in extras.items()
            if name not in DEVELOPERS
        }


def _pinned(requirement: str, version: str) -> str:
    # An extra made of other extras names them on the client: those of the same version.
    return re.sub(rf"^({re.escape(CLIENT)}\[[^]]*\])$", rf"\1=={version}", requirement)
