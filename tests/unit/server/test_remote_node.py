"""The client's end: urls, forks, reconnects, closing."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from penstock.client.remote.node import RemoteNode
from penstock.errors import ClosedError, InvalidError, NotFoundError, UnavailableError
from penstock.server.server import Server

Start = Callable[..., Server]
Reach = Callable[..., RemoteNode]


@pytest.mark.parametrize(
    "url", ["", "penstock://", "http://localhost", "penstock://h:x", "penstock://h:99999", "penstock://h:1/path", "./d"]
)
def test_what_is_no_url_of_a_server_is_refused(url: str) -> None:
    with pytest.raises(InvalidError, match="penstock://host:port"):
        RemoteNode(url)


def test_tls_files_are_checked_at_once(tmp_path: Path) -> None:
    with pytest.raises(InvalidError, match="unknown=password"):
        RemoteNode("penstock+tls://localhost", tls={"password": "x"})
    with pytest.raises(NotFoundError, match=r"nothing\.pem"):
        RemoteNode("penstock+tls://localhost", tls={"ca": tmp_path / "nothing.pem"})
    with pytest.raises(InvalidError, match="penstock\\+tls"):
        RemoteNode("penstock://localhost", tls={"ca": tmp_path / "nothing.pem"})


def test_nobody_there_is_unavailable_and_says_where(start: Start) -> None:
    server = start()
    server.close()
    remote = RemoteNode(server.url)

    with pytest.raises(UnavailableError, match="no server answers"):
        remote.catalog.list_databases()
    remote.close()


def test_connection_comes_back_with_the_server(node: Any, start: Start, reach: Reach) -> None:
    first = start()
    remote = reach(first)
    remote.catalog.list_databases()
    first.close()
    with pytest.raises(UnavailableError):
        remote.catalog.list_databases()

    start(port=first.port)

    assert remote.catalog.list_databases() == ["default"]


def test_closed_connection_refuses_calls_and_closes_again(start: Start, reach: Reach) -> None:
    remote = reach(start())
    remote.catalog.list_databases()

    remote.close()
    remote.close()

    with pytest.raises(ClosedError, match="connect again"):
        remote.catalog.list_databases()


def test_close_breaks_calls_off(node: Any, start: Start, reach: Reach) -> None:
    server = start()
    remote = reach(server)
    node.hold.clear()
    caught: list[BaseException] = []

    def call() -> None:
        try:
            remote.catalog.list_databases()
        except ClosedError as error:
            caught.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    while not node.principals:
        assert thread.is_alive()

    remote.close()
    thread.join(10)

    assert len(caught) == 1


@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_use_after_fork_is_refused(start: Start, reach: Reach) -> None:
    remote = reach(start())
    remote.catalog.list_databases()

    child = os.fork()
    if child == 0:
        try:
            remote.catalog.list_databases()
        except ClosedError:
            remote.close()  # leaves the parent's connection alone
            os._exit(0)
        finally:
            os._exit(1)

    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert remote.catalog.list_databases() == ["default"]


def test_idle_streams_are_used_again(start: Start, reach: Reach) -> None:
    server = start()
    remote = reach(server)
    for _ in range(20):
        remote.catalog.list_databases()

    assert server.admission.counts()["streams"] == 1
