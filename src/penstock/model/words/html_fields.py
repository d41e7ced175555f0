"""Values as a notebook shows them: their fields, and a table for each field that has several values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

from penstock.model.words.html_table import html_table


class HtmlFields:
    """Gives a dataclass a notebook's view of it."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        """Return the fields as HTML; text is escaped."""
        facts = _facts(self)
        single = [(name, value) for name, value in facts.items() if not _is_several(value)]
        tables = [_several(name, value) for name, value in facts.items() if _is_several(value) and value]
        return html_table(type(self).__name__, ("", ""), single) + "".join(tables)


def _facts(value: Any) -> dict[str, Any]:
    if hasattr(value, "_asdict"):
        return dict(value._asdict())
    return {field.name: getattr(value, field.name) for field in fields(value)}


def _is_several(value: object) -> bool:
    return isinstance(value, Mapping) or (isinstance(value, Sequence) and any(is_dataclass(each) for each in value))


def _several(name: str, values: Any) -> str:
    if isinstance(values, Mapping):
        rows = [(key, *_cells(value)) for key, value in values.items()]
        heading: tuple[str, ...] = ("", *_heading(next(iter(values.values()))))
    else:
        rows = [_cells(value) for value in values]
        heading = _heading(values[0])
    return html_table(name, heading, rows)


def _heading(value: object) -> tuple[str, ...]:
    return tuple(_facts(value)) if is_dataclass(value) or hasattr(value, "_asdict") else ("",)


def _cells(value: object) -> tuple[object, ...]:
    return tuple(_facts(value).values()) if is_dataclass(value) or hasattr(value, "_asdict") else (value,)
