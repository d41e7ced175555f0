"""What the client's unit tests share: a node on memory parts, and a link to it whose pauses take no time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain, count
from typing import Any

import pytest
from tests.kit.client_node import ClientNode

from penstock.client.link.link import Link
from penstock.client.link.retry import Retry
from penstock.client.table import Table
from penstock.model.table.spec import make_spec


class ManualTime:
    """Time that passes only while a caller pauses."""

    def __init__(self) -> None:
        self.now = 0.0
        self.pauses: list[float] = []

    def monotonic(self) -> float:
        return self.now

    def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds

    def retry(self, **options: Any) -> Retry:
        return Retry(monotonic=self.monotonic, pause=self.pause, jitter=lambda: 0.0, **options)


@pytest.fixture
def manual_time() -> ManualTime:
    return ManualTime()


@pytest.fixture
def node() -> Iterator[ClientNode]:
    node = ClientNode()
    yield node
    node.rules.clear()
    node.engine.close()


@pytest.fixture
def link(node: ClientNode, manual_time: ManualTime) -> Link:
    return Link(node, "memory", manual_time.retry())


@pytest.fixture
def make_table(link: Link, node: ClientNode) -> Callable[..., Table]:
    paths = chain(["shop.orders"], (f"shop.orders_{number}" for number in count(2)))

    def make(ddl: str = "id BIGINT, v STRING, PRIMARY KEY (id)", **options: Any) -> Table:
        return Table(link, node.catalog.create_table(next(paths), make_spec(ddl, **options)))

    return make
