"""The one point that every call of a server passes: the principal, the call, its arguments.

Each part of the server that answers calls asks here for the method that answers, and calls nothing of the node
otherwise. So a permission for a table is one check in `Dispatch.method`: `call.tables(arguments)` names the tables that
the call is on, by id or path (`penstock.wire.call_tables`), and `call.target` what it does there.

A call of an embedded node does not come by here: the caller has the files, and its principal is `local`, which may do
anything. The facets of an engine are made with that principal (`Engine`), and no others are handed out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, TypeVar

from penstock.model.node.node import SharedNode
from penstock.wire.call import Call
from penstock.wire.calls import CALLS

R = TypeVar("R")

Methods = Mapping[str, Callable[..., Any]]
PRINCIPALS_MAX: Final = 1_000
"""Principals whose methods are kept; more begin anew."""


class Dispatch:
    """Finds the method of a node that answers a call of a principal.

    Thread-safe: the methods of a principal are put into the map whole, and never change.
    """

    def __init__(self, node: SharedNode) -> None:
        self._node = node
        self._methods: dict[str, Methods] = {}

    def method(self, principal: str, call: Call[R], arguments: Mapping[str, Any]) -> Callable[[], R]:
        """Return what answers a call; a call that the principal may not make is refused here.

        Raises:
            PermissionDeniedError: the principal may not make it.
        """
        found = (self._methods.get(principal) or self._of(principal))[call.name]
        return partial(found, **arguments)

    def _of(self, principal: str) -> Methods:
        node = self._node.acting_as(principal)
        if len(self._methods) >= PRINCIPALS_MAX:
            self._methods.clear()
        methods = self._methods[principal] = {call.name: call.method(node) for call in CALLS.values()}
        return methods
