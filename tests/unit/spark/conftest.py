"""A served Penstock for the tests of a module, empty at the start of each."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import penstock
from penstock.testing.server import server


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """Return the url of a server that lasts as long as the module's tests."""
    with server() as running:
        yield running.url


@pytest.fixture
def connection(url: str) -> Iterator[penstock.Connection]:
    """Return a connection to the module's server, from whose default database every table is dropped."""
    with penstock.connect(url) as made:
        for name in made.list_tables("default"):
            made.drop_table(f"default.{name}")
        yield made
