"""Facets of a node that is read only: some calls are answered, the others are refused, each by its name."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NoReturn

from penstock.errors import UnsupportedError


class ReadingFacet:
    """A facet of which only the calls that read are answered."""

    def __init__(self, name: str, facet: object, answered: Collection[str]) -> None:
        self._name = name
        self._facet = facet
        self._answered = frozenset(answered)

    def __getattr__(self, call: str) -> Any:
        if call.startswith("_"):
            raise AttributeError(call)
        if call in self._answered:
            return getattr(self._facet, call)

        def refuse(*_: object, **__: object) -> NoReturn:
            raise UnsupportedError(
                "the connection is read only, and this is not reading; connect to the process that has the directory"
                " open, or open it without read only",
                call=f"{self._name}.{call}",
            )

        return refuse
