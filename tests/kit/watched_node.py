"""A real node whose calls are noted, and which fails, loses answers or waits where a test says so."""

from __future__ import annotations

import threading
from collections import defaultdict, deque
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from penstock.errors import PenstockError
from penstock.model.node.node import Node, SharedNode
from penstock.model.node.principal import LOCAL

FACETS: Final = ("catalog", "tables", "scan", "changes", "lookup", "leases", "owners", "backup")


class CallRules:
    """What is to happen at calls, by target (`scan.open`), and which calls there were. Thread-safe by one lock."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._before: dict[str, deque[PenstockError]] = defaultdict(deque)
        self._after: dict[str, deque[PenstockError]] = defaultdict(deque)
        self._hooks: dict[str, Callable[[], object]] = {}
        self._shapes: dict[str, Callable[[Any], Any]] = {}
        self._answers: dict[str, Callable[[Any], Any]] = {}
        self._instead: dict[str, Callable[..., Any]] = {}
        self._callers: list[tuple[str, str]] = []
        self.calls: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []

    def names(self, *facets: str) -> list[str]:
        """Return the targets of the calls so far, of some facets or of all."""
        with self._lock:
            return [target for target, _, _ in self.calls if not facets or target.partition(".")[0] in facets]

    def arguments(self, target: str) -> list[Any]:
        """Return the first argument of each call of a target."""
        with self._lock:
            return [next(iter((*given, *named.values())), None) for name, given, named in self.calls if name == target]

    def callers(self, target: str) -> list[str]:
        """Return the principal of each call of a target."""
        with self._lock:
            return [principal for principal, name in self._callers if name == target]

    def refuse(self, target: str, *errors: PenstockError) -> None:
        """Let the next calls of a target fail before they are done."""
        self._before[target].extend(errors)

    def lose(self, target: str, *errors: PenstockError) -> None:
        """Let the next calls of a target fail once they are done, as when an answer is lost."""
        self._after[target].extend(errors)

    def at(self, target: str, hook: Callable[[], object]) -> None:
        """Have `hook` called before each call of a target."""
        self._hooks[target] = hook

    def shape(self, target: str, shape: Callable[[Any], Any]) -> None:
        """Have the first argument of each call of a target replaced by what `shape` makes of it."""
        self._shapes[target] = shape

    def answer(self, target: str, answer: Callable[[Any], Any]) -> None:
        """Have what each call of a target returns replaced by what `answer` makes of it."""
        self._answers[target] = answer

    def instead(self, target: str, method: Callable[..., Any]) -> None:
        """Have another method answer the calls of a target."""
        self._instead[target] = method

    def clear(self) -> None:
        """Forget the calls so far, the faults and the hooks."""
        with self._lock:
            self.calls.clear()
        self._before.clear()
        self._after.clear()
        self._hooks.clear()
        self._answers.clear()
        self._instead.clear()

    def perform(self, principal: str, target: str, method: Callable[..., Any], /, *given: Any, **named: Any) -> Any:
        """Make a call as the rules say."""
        with self._lock:
            self.calls.append((target, given, named))
            self._callers.append((principal, target))
            refused = self._before[target].popleft() if self._before[target] else None
        if target in self._hooks:
            self._hooks[target]()
        if refused is not None:
            raise refused
        if target in self._shapes:
            given = (self._shapes[target](given[0]), *given[1:])
        result = self._instead.get(target, method)(*given, **named)
        if target in self._answers:
            result = self._answers[target](result)
        with self._lock:
            lost = self._after[target].popleft() if self._after[target] else None
        if lost is not None:
            raise lost
        return result


class _WatchedFacet:
    """A facet of a node whose methods are called as the rules say."""

    def __init__(self, name: str, facet: Any, rules: CallRules, principal: str) -> None:
        self._name = name
        self._principal = principal
        self._facet = facet
        self._rules = rules

    def __getattr__(self, method: str) -> Any:
        return partial(self._rules.perform, self._principal, f"{self._name}.{method}", getattr(self._facet, method))


class WatchedNode:
    """A node behind rules; implements `penstock.model.node.node.SharedNode` as far as the node does."""

    catalog: Any
    tables: Any
    scan: Any
    changes: Any
    lookup: Any
    leases: Any
    owners: Any
    backup: Any

    def __init__(self, node: Node, rules: CallRules | None = None, principal: str = LOCAL) -> None:
        self.node = node
        self.rules = rules or CallRules()
        self.closed = False
        for name in FACETS:
            setattr(self, name, _WatchedFacet(name, getattr(node, name), self.rules, principal))

    def acting_as(self, principal: str) -> WatchedNode:
        """Return the node as a principal sees it, behind the same rules."""
        shared: SharedNode = self.node  # type: ignore[assignment]
        return WatchedNode(shared.acting_as(principal), self.rules, principal)

    def close(self) -> None:
        """Close the node."""
        self.closed = True
        self.node.close()
