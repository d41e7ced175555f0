"""Facets over a stand-in whose methods have the names of the wire: `node.scan.open` calls its `open_scanner`."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from penstock.wire.calls import CALLS

_NAMES: dict[str, dict[str, str]] = defaultdict(dict)
for _call in CALLS.values():
    _facet, _, _method = _call.target.partition(".")
    _NAMES[_facet].setdefault(_method, _call.name)
# A method of that name would stand in the way of the facet.
_NAMES["lookup"]["rows"] = "lookup_rows"
_NAMES["scan"]["pages"] = "pages"
_NAMES["tables"]["write_stream"] = "write_stream"


class FlatFacet:
    """One facet of a stand-in."""

    def __init__(self, node: object, facet: str) -> None:
        self._node = node
        self._names = _NAMES[facet]

    def __getattr__(self, method: str) -> Any:
        if method not in self._names:
            raise AttributeError(method)
        name = self._names[method]

        def call(*given: Any, **named: Any) -> Any:
            return getattr(self._node, name)(*given, **named)

        return call


class FlatNode:
    """A base for stand-ins: adds the facets to their methods."""

    @property
    def catalog(self) -> Any:
        return FlatFacet(self, "catalog")

    @property
    def tables(self) -> Any:
        return FlatFacet(self, "tables")

    @property
    def scan(self) -> Any:
        return FlatFacet(self, "scan")

    @property
    def changes(self) -> Any:
        return FlatFacet(self, "changes")

    @property
    def lookup(self) -> Any:
        return FlatFacet(self, "lookup")

    @property
    def leases(self) -> Any:
        return FlatFacet(self, "leases")

    @property
    def owners(self) -> Any:
        return FlatFacet(self, "owners")

    @property
    def backup(self) -> Any:
        return FlatFacet(self, "backup")
