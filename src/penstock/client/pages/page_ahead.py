"""Pages of a generator: one asked for ahead, that travels while the caller works on the one before, or each in turn."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Generator, Iterator
from contextlib import closing
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class _Exchange(Generic[T]):
    """What the caller and the thread share; it does not hold the `PageAhead`, so that one can be forgotten."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.waiting: list[T] = []
        self.ended = False
        self.stopped = False
        self.failure: BaseException | None = None

    def stop(self) -> None:
        with self.changed:
            self.stopped = True
            self.changed.notify_all()

    def fill(self, items: Generator[T, Any, Any]) -> None:
        try:
            with closing(items):
                while self._is_wanted():
                    try:
                        item = next(items)
                    except StopIteration:
                        break
                    self._offer(item)
        except BaseException as failure:  # noqa: BLE001 - it is raised again in the thread that iterates
            self.failure = failure
        finally:
            with self.changed:
                self.ended = True
                self.changed.notify_all()

    def _is_wanted(self) -> bool:
        """Wait until the item before was taken: only then is another asked for, so that one is ahead and not two."""
        with self.changed:
            self.changed.wait_for(lambda: not self.waiting or self.stopped)
            return not self.stopped

    def _offer(self, item: T) -> None:
        with self.changed:
            self.waiting.append(item)
            self.changed.notify_all()

    def take(self) -> T:
        with self.changed:
            self.changed.wait_for(lambda: self.waiting or self.ended or self.stopped)
            if self.waiting and not self.stopped:
                self.changed.notify_all()
                return self.waiting.pop()
            if self.failure is not None:
                raise self.failure
            raise StopIteration


class PageAhead(Iterator[T]):
    """Iterates over a generator that runs in a daemon thread of its own, one item ahead.

    The thread closes the generator, at its end, on `close()`, or when this object is forgotten.
    """

    def __init__(self, items: Generator[T, Any, Any], name: str) -> None:
        self._exchange: _Exchange[T] = _Exchange()
        self._finalizer = weakref.finalize(self, self._exchange.stop)
        self._thread = threading.Thread(target=self._exchange.fill, args=(items,), name=name, daemon=True)
        self._thread.start()

    def __next__(self) -> T:
        return self._exchange.take()

    def close(self) -> None:
        """End the thread after the item that it is working on; idempotent."""
        self._finalizer()


class PageInTurn(Iterator[T]):
    """Iterates over a generator for one thread at a time. `close()` from any thread, as of a `PageAhead`."""

    def __init__(self, items: Generator[T, Any, Any]) -> None:
        self._items = items
        self._at_work = threading.Lock()
        self._stopped = False

    def __next__(self) -> T:
        with self._at_work:
            item = next(self._items)
        if self._stopped:
            # Closed while the generator was at work: Python refuses to close it from another thread then.
            self.close()
        return item

    def close(self) -> None:
        """Close the generator, at once or after the item that it is working on; idempotent."""
        self._stopped = True
        if self._at_work.acquire(blocking=False):
            try:
                self._items.close()
            finally:
                self._at_work.release()
