"""Principals: a call is made on behalf of one.

The service edge authenticates the caller and asks the node for its facets as that principal sees them. Below, the
principal is an argument; there is no ambient one. Embedded calls are made by the principal `local`.
"""

from __future__ import annotations

from copy import copy
from typing import Final, Self

LOCAL: Final = "local"
"""The principal of a call that crossed no edge."""
ANONYMOUS: Final = "anonymous"
"""The principal of callers on a server without authentication."""

UNNAMED: Final = frozenset({LOCAL, ANONYMOUS})
"""Principals without a proof of identity. No token and no certificate gives these names: `local` may do anything."""


class ActsForPrincipal:
    """A service of a node, as one principal calls it. Everything else in it is shared with the other principals."""

    def __init__(self, principal: str) -> None:
        self._principal = principal

    def acting_as(self, principal: str) -> Self:
        """Return the same service as another principal calls it."""
        other = copy(self)
        other._principal = principal
        return other


def may_change(principal: str, owner: str) -> bool:
    """Tell whether a principal may change what another acquired, its owner.

    What was acquired without authentication is for all to change, and a caller that has the files may do anything.
    """
    return owner in UNNAMED or principal in {owner, LOCAL}
