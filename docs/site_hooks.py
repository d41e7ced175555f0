"""What mkdocs does for us beside its own work: navigation by directory, and tables made from the code.

A star in the navigation of mkdocs.yml stands for the pages of a directory that are not named there.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any


def on_config(config: Any) -> Any:
    """Put pages in the place of stars; mkdocs calls this before it reads them."""
    docs = Path(config.docs_dir)
    named = set(_pages(config.nav))
    config.nav = _expanded(config.nav, docs, named)
    return config


def on_page_markdown(markdown: str, *, page: Any, **_facts: Any) -> str:
    """Fill in the tables of the reference; mkdocs calls this for each page."""
    if not page.file.src_uri.startswith("reference/"):
        return markdown
    # Hooks are loaded by path, and so is what they need: this directory is no package.
    spec = spec_from_file_location(
        "reference_tables", Path(__file__).with_name("reference_tables.py")
    )
    assert spec is not None
    assert spec.loader is not None
    tables = module_from_spec(spec)
    spec.loader.exec_module(tables)
    filled: str = tables.filled(markdown)
    return filled


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
