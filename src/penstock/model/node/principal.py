"""Principals: on whose behalf a call is made.

The service edge finds out who calls and asks the node for its facets as that principal sees them. Below, the
principal is an argument; there is no ambient one. Embedded calls are made by the principal `local`.
"""

from __future__ import annotations

from copy import copy
from typing import Final, Self

LOCAL: Final = "local"
"""The principal of a call that crossed no edge."""
ANONYMOUS: Final = "anonymous"
"""The principal of callers that nobody asked who they are."""

UNNAMED: Final = frozenset({LOCAL, ANONYMOUS})
"""Principals that nobody proved to be. No token and no certificate gives these names: `local` may do anything."""


class ActsForPrincipal:
    """A service of a node, as one principal calls it. Everything else in it is shared with the other principals."""

    def __init__(self, principal: str) -> None:
        self._principal = principal

    def acting_as(self, principal: str) -> Self:
        """Return the same service as another principal calls it."""
        other = copy(self)
        other._principal = principal
        return other


def may_change(who: str, owner: str) -> bool:
    """Tell whether what an owner acquired is also for `who` to change.

    What was acquired by nobody in particular is anybody's, and who has the files may do anything with them.
    """
    return owner in UNNAMED or who in {owner, LOCAL}
