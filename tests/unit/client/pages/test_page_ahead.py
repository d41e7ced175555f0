from __future__ import annotations

import gc
import threading
from collections.abc import Generator

import pytest

from penstock.client.pages.page_ahead import PageAhead
from penstock.errors import UnavailableError


class Source:
    def __init__(self, count: int) -> None:
        self.count = count
        self.made = threading.Semaphore(0)
        self.closed = threading.Event()

    def items(self) -> Generator[int, None, None]:
        try:
            for n in range(self.count):
                self.made.release()
                yield n
        finally:
            self.closed.set()


def test_items_come_in_order_and_end() -> None:
    source = Source(100)
    assert list(PageAhead(source.items(), "test")) == list(range(100))
    assert source.closed.wait(30)


def test_one_item_and_no_more_is_made_while_the_caller_works() -> None:
    source = Source(10)
    ahead = PageAhead(source.items(), "test")

    for n in range(3):
        assert next(ahead) == n
        assert all(source.made.acquire(timeout=30) for _ in range(2 if n == 0 else 1))
        # One waits to be taken; none beyond it is made.
        assert not source.made.acquire(timeout=0.05)
    ahead.close()


def test_an_error_arrives_after_the_items_before_it_and_stays() -> None:
    def items() -> Generator[int, None, None]:
        yield 1
        raise UnavailableError("gone")

    ahead = PageAhead(items(), "test")

    assert next(ahead) == 1
    for _ in range(2):
        with pytest.raises(UnavailableError, match="gone"):
            next(ahead)


def test_closing_ends_generator_and_thread() -> None:
    source = Source(10)
    ahead = PageAhead(source.items(), "test")
    next(ahead)

    ahead.close()
    ahead.close()

    assert source.closed.wait(30)
    assert list(ahead) == []


def test_forgetting_it_ends_generator_and_thread() -> None:
    source = Source(10)
    ahead = PageAhead(source.items(), "test")
    next(ahead)

    del ahead
    gc.collect()

    assert source.closed.wait(30)
