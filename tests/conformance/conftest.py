"""The nodes that every suite here is run on. A third kind of node joins by one more way to `open_node`.

Each suite holds one facet of `penstock.model.node.node.Node` to its protocol: results, errors, ids that are gone,
calls that are made again because their answers were lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import pytest
from tests.kit.memory_engine import MemoryEngine

from penstock.client.remote.node import RemoteNode
from penstock.model.node.node import Node
from penstock.server.server import Listen, Server

OpenNode = Callable[[MemoryEngine, ExitStack], Node]


@dataclass(frozen=True)
class House:
    """A node under test, and the engine in which it ends, whose time a test lets pass."""

    node: Node
    engine: MemoryEngine


def _embedded(engine: MemoryEngine, _: ExitStack) -> Node:
    return engine


def _served(engine: MemoryEngine, stack: ExitStack) -> Node:
    server = stack.enter_context(Server(engine, Listen(http_port=None)))
    node = RemoteNode(server.url)
    stack.callback(node.close)
    return node


@pytest.fixture(params=[_embedded, _served], ids=["embedded", "served"])
def house(request: pytest.FixtureRequest) -> Iterator[House]:
    open_node: OpenNode = request.param
    with ExitStack() as stack:
        engine = MemoryEngine()
        stack.callback(engine.close)
        engine.catalog.create_database("shop")
        yield House(open_node(engine, stack), engine)


@pytest.fixture
def node(house: House) -> Node:
    return house.node
