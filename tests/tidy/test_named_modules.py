"""Modules and files that documents and docstrings name are there, under that name."""

from __future__ import annotations

import importlib
import re
import subprocess
from functools import cache
from pathlib import Path

import pytest

DOTTED = re.compile(r"(?<![\w./:@-])penstock(?:\.[A-Za-z_]\w*)+")
# Inside of the package rooms are named without it: `engine.table`, `tablet.view`.
ROOM_NAME = re.compile(r"`((?:client|codec|engine|model|server|spark|tablet|wire)\.[a-z_]+(?:\.\w+)*)`")
PYTHON_FILE = re.compile(r"(?<![\w./*<-])(?:[\w-]+/)*[\w-]+\.py\b")
# Words that look like a module and are none: a file, headers and keys on the wire, a logger.
NO_MODULES = frozenset(("toml", "calls", "offsets", "request_id", "principal", "requests"))


@cache
def resolves(name: str) -> bool:
    """Tell whether a dotted name leads to a module, or to something in one."""
    parts = name.split(".")
    found: object = importlib.import_module(parts[0])
    for depth, part in enumerate(parts[1:], 2):
        if hasattr(found, part):
            found = getattr(found, part)
        elif part in getattr(found, "__annotations__", {}):
            return depth == len(parts)
        else:
            try:
                found = importlib.import_module(".".join(parts[:depth]))
            except ModuleNotFoundError:
                return False
    return True


def lost_names(text: str) -> list[str]:
    """Return the dotted names of a text that lead nowhere."""
    names = {name for name in DOTTED.findall(text) if name.split(".")[1] not in NO_MODULES}
    # Spark's own settings begin as our room does.
    rooms = {name for name in ROOM_NAME.findall(text) if not re.match(r"spark\.(sql|app|python|read)\b", name)}
    return sorted(
        [name for name in names if not resolves(name)] + [name for name in rooms if not resolves(f"penstock.{name}")]
    )


def lost_files(text: str, tracked: frozenset[str], folder: str) -> list[str]:
    """Return the Python files that a text names and that are neither in the tree nor in the package.

    A bare name stands for a file beside the one that names it, or for one of the folder that the text is about.
    """
    names = {path.rpartition("/")[2] for path in tracked}
    return sorted(
        name
        for name in set(PYTHON_FILE.findall(text))
        if not ({name, f"src/penstock/{name}", f"{folder}/{name}"} & tracked or ("/" not in name and name in names))
    )


@pytest.fixture(scope="module")
def tracked(repository: Path) -> frozenset[str]:
    """Return the paths of the tree, as git has them."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=repository, capture_output=True, text=True, timeout=60, check=True)
    return frozenset(path for path in listed.stdout.splitlines() if (repository / path).is_file())


def test_named_modules_and_files_exist(repository: Path, tracked: frozenset[str]) -> None:
    read = [path for path in tracked if path.endswith(".md") or (path.startswith("src/") and path.endswith(".py"))]

    lost = {}
    for path in sorted(read):
        text = (repository / path).read_text()
        found = lost_names(text) + lost_files(text, tracked, path.rpartition("/")[0])
        if found:
            lost[path] = found

    assert read
    assert lost == {}


def test_stale_names_are_caught() -> None:
    text = "`penstock.model.gone.Gone`, `engine.gone`, `penstock.errors.GoneError`, `penstock.connect`, penstock.toml"

    assert lost_names(text) == ["engine.gone", "penstock.errors.GoneError", "penstock.model.gone.Gone"]


def test_stale_files_are_caught() -> None:
    tracked = frozenset(("src/penstock/log/segment.py", "docs/site_hooks.py"))

    text = "`log/segment.py`, `segment.py`, `log/gone.py`, `gone.py`"

    assert lost_files(text, tracked, "docs") == ["gone.py", "log/gone.py"]
