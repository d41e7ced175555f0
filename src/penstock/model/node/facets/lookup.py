"""Rows of a node by their keys."""

from __future__ import annotations

from typing import Protocol

from penstock.model.node.calls import (
    LookupCall,
    LookupResult,
)


class LookupFacet(Protocol):
    """Rows of a node by their keys. Thread-safe."""

    def rows(self, call: LookupCall) -> LookupResult:
        """Return one row for each key in the order asked, with `_found`."""

    def prefix(self, call: LookupCall) -> LookupResult:
        """Return the live rows whose first key columns equal the one row of `keys`."""
