"""A connection that loses answers on request: the server did what was asked, and nobody hears of it."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, TypeVar

from penstock.client.connection import Connection
from penstock.client.remote.calls import RemoteCalls
from penstock.client.remote.node import RemoteNode
from penstock.errors import UnavailableError
from penstock.wire.call import Call

R = TypeVar("R")


class LossyCalls(RemoteCalls):
    """Calls whose answers are lost where `losses` names them, each once."""

    losses: dict[str, Callable[[], object]]

    def ask(
        self, asked: Call[R], /, *, rows: int = 0, wait_ms: int = 0, affinity: Hashable = None, **arguments: Any
    ) -> R:
        then = self.losses.pop(asked.name, None)
        answer = super().ask(asked, rows=rows, wait_ms=wait_ms, affinity=affinity, **arguments)
        if then is None:
            return answer
        then()
        raise UnavailableError("the connection broke; the call may have been done", cause="the answer was lost")


class LossyNode(RemoteNode):
    """A server's node. Answers to the calls named by `lose` are lost, each once. Not for several threads."""

    calls_kind = LossyCalls
    calls: LossyCalls

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.calls.losses = {}

    def lose(self, call: str, then: Callable[[], object] = lambda: None) -> None:
        """Lose the answer to the next call of that wire name; `then` happens before the caller learns of it."""
        self.calls.losses[call] = then

    def connection(self) -> Connection:
        """Return a connection over this node."""
        return Connection(self, self.url, distant=True)
