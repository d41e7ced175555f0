"""Connections for scenarios: the same story is told embedded and against a server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import penstock

Connect = Callable[..., penstock.Connection]


@pytest.fixture(params=["embedded", "server"])
def connect(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Connect]:
    """Return a function that connects to a node with the settings given; everything is closed afterwards."""
    with ExitStack() as stack:

        def connect(directory: str = "data", **settings: Any) -> penstock.Connection:
            named = {name.replace("__", ".").replace("_", "-"): value for name, value in settings.items()}
            if request.param == "embedded":
                return stack.enter_context(penstock.connect(tmp_path / directory, settings=named))
            server = stack.enter_context(penstock.serve(tmp_path / directory, settings=named))
            return stack.enter_context(penstock.connect(server.url))

        yield connect


@pytest.fixture
def connection(connect: Connect) -> penstock.Connection:
    """Return a connection with the database `shop`."""
    connection = connect()
    connection.create_database("shop")
    return connection
