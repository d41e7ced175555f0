"""What the client's unit tests share: a fake node, and a link to it that never sleeps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.unit.client.fake_node import FakeNode

from penstock.client.link.link import Link
from penstock.client.link.retry import Retry
from penstock.client.table import Table
from penstock.model.table.spec import make_spec


class ManualTime:
    """Time that passes only while somebody pauses."""

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
def node() -> FakeNode:
    return FakeNode()


@pytest.fixture
def link(node: FakeNode, manual_time: ManualTime) -> Link:
    return Link(node, "fake", manual_time.retry())


@pytest.fixture
def make_table(link: Link, node: FakeNode) -> Callable[..., Table]:
    def make(ddl: str = "id BIGINT, v STRING, PRIMARY KEY (id)", **options: Any) -> Table:
        return Table(link, node.create_table("shop.orders", make_spec(ddl, **options)))

    return make
