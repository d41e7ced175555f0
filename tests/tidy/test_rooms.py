"""Every room and sub-room says what it is, what holds in it, and what it may import."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src/penstock"
ROOMS = sorted(path for path in SOURCE.rglob("__init__.py") if path.parent != SOURCE)
SENTENCES_MIN = 3
IMPORTS = re.compile(r"\b[Ii]mports\b")


def faults_of(text: str) -> list[str]:
    """Return what a room's docstring lacks."""
    words = ast.get_docstring(ast.parse(text)) or ""
    sentences = re.findall(r"[.:;?](?=\s|$)", words)
    faults = [] if len(sentences) >= SENTENCES_MIN else ["it does not say what holds in it"]
    return faults + ([] if IMPORTS.search(words) else ["it does not say what it imports"])


@pytest.mark.parametrize("path", ROOMS, ids=lambda path: str(path.parent.relative_to(SOURCE)))
def test_room_says_what_it_is_what_holds_in_it_and_what_it_may_import(path: Path) -> None:
    assert faults_of(path.read_text()) == []


def test_room_that_says_too_little_is_found() -> None:
    assert faults_of('"""Things."""') == ["it does not say what holds in it", "it does not say what it imports"]
