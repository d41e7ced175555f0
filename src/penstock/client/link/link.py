"""What a connection and everything made from it share: the node, and whether it may still be used."""

from __future__ import annotations

import os
import time
import weakref
from collections.abc import Callable
from typing import Final, TypeVar

from penstock.client.link.progress import Meter, OnProgress
from penstock.client.link.request_id import one_request
from penstock.client.link.retry import Retry
from penstock.client.link.writer_identity import WriterIdentities
from penstock.errors import (
    AlreadyExistsError,
    ClosedError,
    InvalidError,
    NotFoundError,
    TimedOutError,
    UnavailableError,
)
from penstock.model.node.node import Node

T = TypeVar("T")
_MAYBE_DONE: Final = "may have been done"


class Link:
    """The way to one node, for one process. Thread-safe.

    The node is closed when asked, when the last handle is gone, or when the process ends; never by a
    forked child, whose copies of the node's threads and files are not its own.
    """

    def __init__(
        self,
        node: Node,
        name: str,
        retry: Retry | None = None,
        *,
        distant: bool = False,
        on_progress: OnProgress | None = None,
    ) -> None:
        self.name = name
        self.monotonic = time.monotonic
        """The clock of what is measured for the caller."""
        self._on_progress = on_progress
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
        """Return what `call` returns, which asks the node one thing that must not be done twice.

        It is tried again like any other call, as one request: a server that did it gives its first answer again.

        Raises:
            PenstockError: as the node answered; if an earlier try got no answer, it says that this may have done it.
        """
        lost = False

        def attempt() -> T:
            nonlocal lost
            try:
                return call(self.node)
            except UnavailableError as error:
                lost = lost or _is_unanswered(error)
                raise

        with one_request():
            try:
                return self.retry.run(attempt)
            except (AlreadyExistsError, InvalidError, NotFoundError, UnavailableError) as error:
                if not lost or _MAYBE_DONE in error.message:
                    raise
                # The server that did it may have forgotten that, for it was started anew.
                raise type(error)(
                    f"{error.message}; an earlier try of this call got no answer, and {_MAYBE_DONE}", **error.facts
                ) from error

    def meter(self, what: str, table: str) -> Meter | None:
        """Return what measures a reading or writing of a table, None if no caller asked for it."""
        return None if self._on_progress is None else Meter(self._on_progress, what, table, monotonic=self.monotonic)

    @property
    def reading_retry(self) -> Retry:
        """Return how a reader tries again in the middle of reading: longer, for a server comes back."""
        return self.retry.reading() if self.distant else self.retry

    @property
    def database(self) -> str:
        """Return the id of the database at the node.

        Raises:
            ClosedError: as `node` has it.
            UnavailableError: it was never asked for, and the node does not answer.
        """
        return self.retry.run(self.node.catalog.database_id)

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


def _is_unanswered(error: UnavailableError) -> bool:
    """Tell whether it is the connection that failed on the way, so that it is unknown what the server did."""
    return error.reached and (isinstance(error, TimedOutError) or "cause" in error.facts)


def _close(node: Node, pid: int) -> None:
    if os.getpid() == pid:
        node.close()
