"""The tree of errors in the docstring of `penstock.errors` is the tree of its classes."""

from __future__ import annotations

import inspect
import re

import pytest

from penstock import errors
from penstock.errors import PenstockError

LINE = re.compile(r"^(?P<indent>(?:[│ ] {3})*)(?:[├└]── )?(?P<name>[A-Z]\w+)(?P<note>.*)$")


def drawn(docstring: str) -> dict[str, str | None]:
    """Return the drawn tree as name to parent."""
    start = docstring.index("PenstockError")
    tree: dict[str, str | None] = {}
    path: list[str] = []
    for line in docstring[start:].partition("\n\n")[0].splitlines():
        match = LINE.match(line)
        assert match, f"not a line of the tree: {line!r}"
        depth = len(match["indent"]) // 4 + ("── " in line)
        path[depth:] = [match["name"]]
        tree[match["name"]] = path[depth - 1] if depth else None
    return tree


def defined() -> dict[str, type[PenstockError]]:
    """Return every error class of the module."""
    return {n: c for n, c in vars(errors).items() if inspect.isclass(c) and issubclass(c, PenstockError)}


def test_drawing_matches_the_classes() -> None:
    tree = {
        name: next((base.__name__ for base in error.__bases__ if issubclass(base, PenstockError)), None)
        for name, error in defined().items()
    }

    assert drawn(inspect.getdoc(errors) or "") == tree


def test_misplaced_and_missing_errors_show_in_the_drawing() -> None:
    picture = "PenstockError\n├── InvalidError     fix it\n│   └── LimitError\n└── ClosedError\n\nMore."

    assert drawn(picture) == {
        "PenstockError": None,
        "InvalidError": "PenstockError",
        "LimitError": "InvalidError",
        "ClosedError": "PenstockError",
    }


def test_codes_are_distinct_and_found_again() -> None:
    found = {error.code: error for error in defined().values() if error is not PenstockError}

    assert len(found) == len(defined()) - 1
    assert {code: PenstockError.by_code[code] for code in found} == found


@pytest.mark.parametrize("error", defined().values(), ids=lambda error: error.__name__)
def test_retriable_is_what_the_kind_says(error: type[PenstockError]) -> None:
    assert error.retriable is issubclass(error, errors.UnavailableError)
