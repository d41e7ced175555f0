"""The shop at work: a thread that writes the stream of orders into its table, at a pace."""

from __future__ import annotations

import threading
from typing import Final

from penstock.cli.demo.order_stream import OrderStream
from penstock.client.table import Table
from penstock.errors import PenstockError

FIRST_SHARE: Final = 0.4
HELD_SHARE: Final = 0.2
"""The last part of the stream waits until the crashes are over: there must be something to do after them."""
KEPT_SHARE: Final = 0.08
"""So much of it waits in any case; the rest may be let go step by step, for a job that is to be caught at work."""


class Feed:
    """Writes a stream of orders. The first part at once, the rest step by step in the background."""

    def __init__(self, stream: OrderStream, orders: Table, seconds: float) -> None:
        self._stream = stream
        self._steps = stream.steps()
        self._orders = orders
        self._pause = seconds / stream.steps_count
        self._held_share = HELD_SHARE
        self._may_end = threading.Event()
        self._may_step = threading.Event()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="demo-feed", daemon=True)
        self._failure: PenstockError | None = None
        self.steps = 0
        self.changes = 0

    @property
    def share(self) -> float:
        """Return how much of the stream is written, between 0 and 1."""
        return self.steps / self._stream.steps_count

    @property
    def held(self) -> bool:
        """Tell whether the last part waits until it may be written."""
        return self.share >= 1 - self._held_share and not self._may_end.is_set()

    def write_first(self) -> None:
        """Write the first part of the stream, as fast as it goes."""
        while self.share < FIRST_SHARE:
            self._write_step()

    def start(self) -> None:
        """Write the rest in the background."""
        self._thread.start()

    def let_step(self) -> None:
        """Write one step of the part that waits, as long as enough is left."""
        self._held_share = max(KEPT_SHARE, 1 - self.share - 1 / self._stream.steps_count)
        self._may_step.set()

    def let_end(self) -> None:
        """Write the last part too."""
        self._may_end.set()
        self._may_step.set()

    def ended(self) -> bool:
        """Tell whether everything is written.

        Raises:
            PenstockError: it cannot be written.
        """
        if self._failure is not None:
            raise self._failure
        return self.steps == self._stream.steps_count

    def close(self) -> None:
        """Stop writing."""
        self._stop.set()
        self.let_end()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        try:
            while self.steps < self._stream.steps_count:
                while self.held:
                    self._may_step.wait()
                    self._may_step.clear()
                if self._stop.wait(self._pause):
                    return
                self._write_step()
        except PenstockError as error:
            self._failure = error

    def _write_step(self) -> None:
        step = next(self._steps)
        self._orders.upsert(step.upserts)
        self._orders.delete(step.cancelled)
        self.steps += 1
        self.changes += step.changes
