"""What a connection and everything made from it share: the node, and whether it may still be used."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable
from typing import TypeVar

from penstock.client.retry import Retry, not_reached
from penstock.client.writer_identity import WriterIdentities
from penstock.errors import ClosedError
from penstock.model.node import Node

T = TypeVar("T")


class Link:
    """The way to one node, for one process. Thread-safe.

    The node is closed when asked, when the last handle is gone, or when the process ends; never by a
    forked child, whose copies of the node's threads and files are not its own.
    """

    def __init__(self, node: Node, name: str, retry: Retry | None = None, *, distant: bool = False) -> None:
        self.name = name
        # Whether answers travel, so that asking early saves time.
        self.distant = distant
        self.retry = retry or Retry()
        self.identities = WriterIdentities()
        self._node = node
        self._pid = os.getpid()
        self._finalizer = weakref.finalize(self, _close, node, self._pid)

    @property
    def node(self) -> Node:
        """Return the node.

        Raises:
            ClosedError: the connection was closed, or belongs to the process that forked this one.
        """
        self.check_usable()
        return self._node

    def once(self, call: Callable[[Node], T]) -> T:
        """Make a call that must not be made twice: it is tried again only while the server is not reached.

        Raises:
            PenstockError: as the node answered.
        """
        return self.retry.run(lambda: call(self.node), when=not_reached)

    def check_usable(self) -> None:
        """Refuse a connection that is not to be used any more.

        Raises:
            ClosedError: the connection was closed, or belongs to the process that forked this one.
        """
        if os.getpid() != self._pid:
            if self.distant:
                raise ClosedError("a connection does not survive a fork; connect again in this process", name=self.name)
            raise ClosedError(
                "an open data directory does not survive a fork; start the process by spawn instead "
                "(multiprocessing.set_start_method), or connect to a server",
                name=self.name,
            )
        if self.closed:
            raise ClosedError("the connection is closed; connect again", name=self.name)

    @property
    def closed(self) -> bool:
        """Tell whether the node was closed."""
        return not self._finalizer.alive

    def close(self) -> None:
        """Close the node; idempotent."""
        self._finalizer()


def _close(node: Node, pid: int) -> None:
    if os.getpid() == pid:
        node.close()
