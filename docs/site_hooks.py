"""What mkdocs does for us beside its own work: navigation by directory.

A star in the navigation of mkdocs.yml stands for the pages of a directory that are not named there.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any


def on_config(config: Any) -> Any:
    """Put pages in the place of stars; mkdocs calls this before it reads them."""
    docs = Path(config.docs_dir)
    named = set(_pages(config.nav))
    config.nav = _expanded(config.nav, docs, named)
    return config


def _pages(nav: Any) -> Iterator[str]:
    if isinstance(nav, str):
        yield nav
    for inner in (
        nav.values()
        if isinstance(nav, dict)
        else nav
        if isinstance(nav, list)
        else ()
    ):
        yield from _pages(inner)


def _expanded(nav: Any, docs: Path, named: set[str]) -> Any:
    if isinstance(nav, dict):
        return {
            title: _expanded(inner, docs, named)
            for title, inner in nav.items()
        }
    if not isinstance(nav, list):
        return nav
    made: list[Any] = []
    for entry in nav:
        if isinstance(entry, str) and entry.endswith("/*"):
            found = sorted(
                str(page.relative_to(docs))
                for page in (docs / entry[:-2]).glob("*.md")
            )
            made += [page for page in found if page not in named]
        else:
            made.append(_expanded(entry, docs, named))
    return made
