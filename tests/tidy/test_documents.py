"""The documents say what they must, and their links lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

LINK = re.compile(r"\[[^\]]+\]\((?!\w+:)(?P<target>[^)#\s]+)(?:#[^)]*)?\)")


CODE_WIDTH_MAX = 76
"""The site shows so many characters of a line of code; what is longer is cut."""


def wide_code(text: str) -> list[str]:
    """Return the lines of a document's code blocks that are too wide."""
    wide, inside = [], False
    for line in text.splitlines():
        if line.lstrip().startswith("```"):
            inside = not inside
        elif inside and len(line) > CODE_WIDTH_MAX:
            wide.append(line)
    return wide


def dead_links(file: Path) -> list[str]:
    """Return the relative links of a document that lead nowhere."""
    targets = [match["target"] for match in LINK.finditer(file.read_text())]
    return [target for target in targets if not (file.parent / target).exists()]


@pytest.mark.parametrize("words", ["make demo", "make test"])
def test_readme_names_the_first_commands(words: str, repository: Path) -> None:
    assert words in (repository / "README.md").read_text()


def test_changelog_opens_with_what_is_unreleased(repository: Path) -> None:
    headings = [line for line in (repository / "CHANGELOG.md").read_text().splitlines() if line.startswith("## ")]

    assert headings[:1] == ["## Unreleased"]


def test_documented_verbs_exist(repository: Path) -> None:
    verbs = set(re.findall(r"^([a-z-]+):.*## ", (repository / "Makefile").read_text(), re.M))
    named = {
        (file, verb)
        for file in ("README.md", "CONTRIBUTING.md", "AGENTS.md")
        for verb in re.findall(r"(?:^|`)make ([a-z-]+)", (repository / file).read_text(), re.M)
    }

    assert named
    assert {(file, verb) for file, verb in named if verb not in verbs} == set()


def test_decisions_are_numbered_without_gaps(repository: Path) -> None:
    names = sorted(path.name for path in (repository / "docs/decisions").glob("*.md"))

    assert [name[:5] for name in names] == [f"{number:04}-" for number in range(1, len(names) + 1)]


def test_links_lead_somewhere(repository: Path) -> None:
    files = [*repository.glob("*.md"), *(repository / "docs").rglob("*.md"), repository / "examples/README.md"]

    dead = [f"{file.relative_to(repository)}: {target}" for file in files for target in dead_links(file)]

    assert dead == []


def test_every_example_is_listed(repository: Path) -> None:
    text = (repository / "examples/README.md").read_text()
    examples = {path.name for path in (repository / "examples").glob("*.py")} - {"__init__.py", "spark_here.py"}

    assert examples
    assert {name for name in examples if f"({name})" not in text} == set()


def test_dead_link_is_caught(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("[here](page.md#top) [gone](nowhere.md) [out](https://example.org)")

    assert dead_links(page) == ["nowhere.md"]


def test_code_fits_the_page(repository: Path) -> None:
    files = [repository / "README.md", *(repository / "docs").rglob("*.md")]

    wide = [f"{file.relative_to(repository)}: {line}" for file in files for line in wide_code(file.read_text())]

    assert wide == []


def test_wide_code_is_caught() -> None:
    assert wide_code("x" * 80 + "\n```python\n" + "y" * 77 + "\n```\n" + "z" * 80) == ["y" * 77]
