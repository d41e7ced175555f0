"""The shape of the tree, checked: what a reviewer should never have to say.

Each rule is a function from a file to its faults, run over the tree and over an offender it must catch.
"""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Callable
from pathlib import Path, PurePosixPath

import pytest

Rule = Callable[[PurePosixPath, str], list[str]]

LINES_MAX = 400
FILES_MAX = 15
VAGUE_NAMES = frozenset(("util", "utils", "helper", "helpers", "common", "base", "manager", "core", "misc"))
OPEN_WORK = re.compile(r"\b(?:TO" r"DO|FIX" r"ME|XX" r"X|HA" r"CK)\b")
MACHINE_PATH = re.compile(r"(?<![\w.~-])/(?:work|home|root|Users)/\w")
OTHER_DISTRIBUTION = re.compile(r"pip install [^`\n]*?(?<![-/\w.])penstock(?![-\w./])")
PACKAGE_REGISTRY = re.compile(r"index[-_]url\b|registry[-_]url\b|\bpypi\.\w|\b(?:pythonhosted|artifactory)\.\w", re.I)


def long_file(_path: PurePosixPath, text: str) -> list[str]:
    """Past the limit a second noun hides inside."""
    lines = len(text.splitlines())
    return [f"{lines} lines; find the second noun"] if lines > LINES_MAX else []


def vague_name(path: PurePosixPath, _text: str) -> list[str]:
    """A name that fits anything collects everything."""
    names = [*path.parent.parts, path.stem]
    return [f"'{n}' says nothing" for n in names if n in VAGUE_NAMES or re.search(r"_v\d+$", n)]


def missing_docstring(_path: PurePosixPath, text: str) -> list[str]:
    """A module, and so a room, says in its first line what it is."""
    return [] if ast.get_docstring(ast.parse(text)) else ["no module docstring"]


def open_work(_path: PurePosixPath, text: str) -> list[str]:
    """What is left open belongs where it is seen, not in a comment."""
    return _matching_lines(OPEN_WORK, text)


def machine_path(_path: PurePosixPath, text: str) -> list[str]:
    """A path of one machine is wrong on every other."""
    return _matching_lines(MACHINE_PATH, text)


def package_registry(_path: PurePosixPath, text: str) -> list[str]:
    """Where packages come from is the machine's choice, not the project's."""
    return _matching_lines(PACKAGE_REGISTRY, text)


def other_distribution(_path: PurePosixPath, text: str) -> list[str]:
    """On the package index, the name `penstock` is another project's; ours is `penstock-db`."""
    return _matching_lines(OTHER_DISTRIBUTION, text)


def full_folder(folder: str, names: list[str]) -> list[str]:
    """Past the limit a folder needs a wall inside."""
    return [f"{folder}: {len(names)} files; build sub-rooms"] if len(names) > FILES_MAX else []


def _matching_lines(pattern: re.Pattern[str], text: str) -> list[str]:
    return [f"line {n}: {line.strip()[:80]}" for n, line in enumerate(text.splitlines(), 1) if pattern.search(line)]


def _in_package(path: PurePosixPath) -> bool:
    return path.parts[0] == "src" and path.suffix == ".py"


def _is_code(path: PurePosixPath) -> bool:
    return path.suffix == ".py"


def _anywhere(_path: PurePosixPath) -> bool:
    return True


RULES: list[tuple[Rule, Callable[[PurePosixPath], bool], str, str]] = [
    (long_file, _in_package, "src/penstock/log/segment.py", "x = 1\n" * (LINES_MAX + 1)),
    (vague_name, _is_code, "src/penstock/log/utils.py", ""),
    (vague_name, _is_code, "src/penstock/common/segment.py", ""),
    (vague_name, _is_code, "src/penstock/log/segment_v2.py", ""),
    (missing_docstring, _in_package, "src/penstock/log/__init__.py", "x = 1\n"),
    (open_work, _anywhere, "src/penstock/log/segment.py", "x = 1  # TO" + "DO: later\n"),
    (machine_path, _anywhere, "docs/guide/start.md", "see /" + "home/ann/notes\n"),
    (other_distribution, _anywhere, "docs/index.md", "`pip " + "install 'penstock[sql]'`\n"),
    (other_distribution, _anywhere, "src/penstock/errors.py", "pip " + "install penstock\n"),
    (package_registry, _anywhere, "Makefile", "pip install --index" + "-url https://x.example\n"),
]


@pytest.fixture(scope="module")
def tree(repository: Path) -> dict[PurePosixPath, str]:
    """Return the text of every file that git has or would take."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=repository,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split("\0")
    files = {PurePosixPath(name): repository / name for name in listed if name}
    return {
        path: content.decode(errors="replace")
        for path, file in files.items()
        if file.is_file() and b"\0" not in (content := file.read_bytes())
    }


def test_tree_is_read_whole(tree: dict[PurePosixPath, str]) -> None:
    """Guard the rules against running over nothing."""
    assert PurePosixPath("src/penstock/errors.py") in tree
    assert PurePosixPath("pyproject.toml") in tree


@pytest.mark.parametrize("rule", dict.fromkeys(rule for rule, *_ in RULES), ids=lambda rule: rule.__name__)
def test_tree_has_no(rule: Rule, tree: dict[PurePosixPath, str]) -> None:
    applies = next(applies for other, applies, *_ in RULES if other is rule)

    faults = [f"{path}: {fault}" for path, text in sorted(tree.items()) if applies(path) for fault in rule(path, text)]

    assert not faults, "\n".join(faults)


@pytest.mark.parametrize(("rule", "applies", "path", "text"), RULES, ids=[f"{r.__name__}:{p}" for r, _, p, _ in RULES])
def test_offender_is_caught(rule: Rule, applies: Callable[[PurePosixPath], bool], path: str, text: str) -> None:
    offender = PurePosixPath(path)

    assert applies(offender)
    assert rule(offender, text)


def test_every_room_is_a_package(repository: Path) -> None:
    rooms = [path for path in (repository / "src/penstock").rglob("*") if path.is_dir() and any(path.glob("*.py"))]

    assert rooms
    assert [str(room) for room in rooms if not (room / "__init__.py").is_file()] == []


def test_every_setting_is_read(tree: dict[PurePosixPath, str]) -> None:
    """A setting that nobody reads promises what nobody does."""
    code = {path: text for path, text in tree.items() if _in_package(path)}
    declared = [
        (path, kind.name, part.target.id)
        for path, text in code.items()
        for kind in ast.walk(ast.parse(text))
        if isinstance(kind, ast.ClassDef) and kind.name.endswith("Settings")
        for part in kind.body
        if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name)
    ]
    whole = "\n".join(code.values())

    assert len({kind for _, kind, _ in declared}) >= 5
    assert [f"{path}: {kind}.{name}" for path, kind, name in declared if not re.search(rf"\.{name}\b", whole)] == []


def test_no_folder_of_the_package_is_full(tree: dict[PurePosixPath, str]) -> None:
    folders: dict[str, list[str]] = {}
    for path in tree:
        if _in_package(path):
            folders.setdefault(str(path.parent), []).append(path.name)

    assert len(folders) > 50
    assert [fault for folder, names in sorted(folders.items()) for fault in full_folder(folder, names)] == []


def test_full_folder_is_caught() -> None:
    assert full_folder("src/penstock/hall", [f"file_{number}.py" for number in range(FILES_MAX + 1)])
