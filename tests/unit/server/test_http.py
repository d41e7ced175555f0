"""The HTTP port under slow and silent clients: whoever asks is answered."""

from __future__ import annotations

import socket
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, closing

import pytest

from penstock.runtime.metrics import Metrics
from penstock.server.http import REQUEST_MS_MAX, REQUESTS_MAX, HttpServer
from penstock.testing.manual_clock import ManualClock


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def http(clock: ManualClock) -> Iterator[HttpServer]:
    with closing(HttpServer("127.0.0.1", 0, Metrics(), lambda: True, clock=clock)) as http:
        yield http


def slow_client(http: HttpServer, stack: ExitStack) -> socket.socket:
    """Return a connection that has sent the beginning of a request."""
    client = stack.enter_context(socket.create_connection(("127.0.0.1", http.server_port), timeout=20))
    client.sendall(b"GET /health HTTP/1.1\r\nX-Slow: ")
    return client


def health(http: HttpServer) -> int:
    with urllib.request.urlopen(f"{http.url}/health", timeout=20) as reply:
        return int(reply.status)


def test_health_is_told_while_every_place_is_taken_by_slow_clients(http: HttpServer) -> None:
    with ExitStack() as stack:
        for _ in range(3 * REQUESTS_MAX):
            slow_client(http, stack)

        assert [health(http) for _ in range(20)] == [200] * 20


def test_client_that_sends_a_byte_now_and_then_is_cut_when_its_time_is_over(
    http: HttpServer, clock: ManualClock
) -> None:
    with ExitStack() as stack:
        client = slow_client(http, stack)
        assert health(http) == 200  # so the connection before it was taken up
        clock.advance(REQUEST_MS_MAX)

        assert client.recv(1) == b""
