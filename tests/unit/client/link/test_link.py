from __future__ import annotations

import gc
import os

import pytest
from tests.kit.client_node import ClientNode

from penstock.client.connection import Connection, connect
from penstock.client.link.link import Link
from penstock.errors import ClosedError, InvalidError


def test_a_closed_link_says_so(link: Link, node: ClientNode) -> None:
    link.close()
    link.close()

    assert node.closed
    with pytest.raises(ClosedError, match="the connection is closed; connect again name=memory"):
        _ = link.node


def test_the_node_is_closed_when_the_last_handle_is_gone(node: ClientNode) -> None:
    link = Link(node, "memory")
    del link
    gc.collect()

    assert node.closed


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_may_not_use_the_connection_nor_close_it(node: ClientNode) -> None:
    link = Link(node, "memory", distant=True)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            _ = link.node
        except ClosedError as error:
            link.close()
            os.write(writer, f"{error} node.closed={node.closed}".encode())
        finally:
            os._exit(0)
    os.close(writer)
    os.waitpid(child, 0)

    said = os.read(reader, 1_000).decode()
    os.close(reader)

    assert said == "a connection does not survive a fork; connect again in this process name=memory node.closed=False"
    assert link.node is node


def test_a_connection_is_a_context_manager_and_shows_its_state(node: ClientNode) -> None:
    with Connection(node, "./data") as connection:
        assert repr(connection) == "<Connection to ./data>"
        assert connection.list_databases() == ["default", "shop"]

    assert repr(connection) == "<Connection to ./data, closed>"
    with pytest.raises(ClosedError):
        connection.list_databases()


@pytest.mark.parametrize(
    ("target", "options", "message"),
    [
        ("", {}, "connect to a directory or a penstock:// url"),
        ("http://localhost", {}, "a server's url begins with penstock:// or penstock.tls:// url=http://localhost"),
        ("./x", {"token": "t"}, "token and tls go with a server's url directory=./x"),
        ("./x", {"tls": {}}, "token and tls go with a server's url"),
        ("penstock://h:1", {"settings": {"log.fsync": "never"}}, "a server has its own settings"),
    ],
)
def test_targets_that_are_none_are_refused(target: str, options: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidError, match=message):
        connect(target, **options)  # type: ignore[arg-type]
