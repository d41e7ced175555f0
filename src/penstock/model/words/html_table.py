"""Tables for notebooks: a title and rows as HTML, with every text escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape


def html_table(title: str, heading: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return an HTML table under a title; None shows as nothing."""
    head = "".join(f"<th>{escape(word)}</th>" for word in heading)
    body = "".join(f"<tr>{''.join(_cell(value) for value in row)}</tr>" for row in rows)
    return (
        f"<div><strong>{escape(title)}</strong><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _cell(value: object) -> str:
    return f"<td>{'' if value is None else escape(str(value))}</td>"
