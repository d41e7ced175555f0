"""Connections through which nothing whole comes."""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from penstock.client.remote.node import RemoteNode
from penstock.server.access.tokens import hash_token, make_token
from penstock.server.calls.connection_watch import PART_BYTES_MIN, ConnectionWatch
from penstock.server.calls.connections import received_bytes
from penstock.server.server import Server
from penstock.server.settings import ServerSettings
from penstock.testing.manual_clock import ManualClock

PEER = ("127.0.0.1", 4_242)
SETTINGS = ServerSettings()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def watch(clock: ManualClock) -> ConnectionWatch:
    return ConnectionWatch(SETTINGS, clock)


def test_connection_without_a_call_is_cut_when_its_time_is_over(watch: ConnectionWatch, clock: ManualClock) -> None:
    assert watch.look({PEER: 100}, {}) == set()
    clock.advance(SETTINGS.stranger_ms - 1)
    assert watch.look({PEER: 100}, {}) == set()
    clock.advance(1)
    assert watch.look({PEER: 100}, {}) == {PEER}


def test_connection_that_sends_much_before_its_first_call_is_cut_at_once(watch: ConnectionWatch) -> None:
    assert watch.look({PEER: SETTINGS.stranger_bytes_max + 1}, {}) == {PEER}


def test_connection_whose_calls_come_through_is_left_alone(watch: ConnectionWatch, clock: ManualClock) -> None:
    for turn in range(1, 100):
        clock.advance(SETTINGS.stall_ms)
        assert watch.look({PEER: turn * SETTINGS.peer_memory_bytes_max}, {PEER: turn}) == set()


def test_idle_connection_that_had_calls_is_left_alone(watch: ConnectionWatch, clock: ManualClock) -> None:
    watch.look({PEER: 1_000}, {PEER: 1})
    clock.advance(100 * SETTINGS.stall_ms)

    assert watch.look({PEER: 1_000 + PART_BYTES_MIN}, {PEER: 1}) == set()


def test_message_that_is_begun_and_not_ended_is_cut(watch: ConnectionWatch, clock: ManualClock) -> None:
    watch.look({PEER: 1_000}, {PEER: 1})
    clock.advance(SETTINGS.stall_ms - 1)
    assert watch.look({PEER: 1_001 + PART_BYTES_MIN}, {PEER: 1}) == set()
    clock.advance(1)

    assert watch.look({PEER: 1_001 + PART_BYTES_MIN}, {PEER: 1}) == {PEER}


def test_message_larger_than_a_connection_may_hold_is_cut_at_once(watch: ConnectionWatch) -> None:
    watch.look({PEER: 1_000}, {PEER: 1})

    assert watch.look({PEER: 1_001 + SETTINGS.peer_memory_bytes_max}, {PEER: 1}) == {PEER}


def test_port_that_is_used_again_by_another_connection_begins_anew(watch: ConnectionWatch, clock: ManualClock) -> None:
    watch.look({PEER: 10}, {})
    clock.advance(SETTINGS.stranger_ms)
    watch.look({}, {})

    assert watch.look({PEER: 10}, {}) == set()


def test_bytes_of_a_connection_are_those_that_were_sent() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)) as client, listening.accept()[0] as accepted:
            client.sendall(b"x" * 5_000)
            assert len(accepted.recv(5_000, socket.MSG_WAITALL)) == 5_000

            assert received_bytes(port) == {client.getsockname(): 5_000}


def test_stranger_who_sends_much_without_a_call_is_cut_and_callers_are_not(
    start: Callable[..., Server], reach: Callable[..., RemoteNode], tmp_path: Path, node: Any
) -> None:
    token = make_token()
    (tmp_path / "tokens").write_text(f"ann:{hash_token(token)}\n")
    server = start(token_file=tmp_path / "tokens", settings=ServerSettings(stranger_bytes_max=1 << 16))
    ann = reach(server, token=token)
    ann.catalog.list_databases()

    unknown_frame = (16_000).to_bytes(3, "big") + bytes([0xEE, 0, 0, 0, 0, 0]) + bytes(16_000)
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as stranger:
        stranger.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(3) + b"\x04" + bytes(5))
        with suppress(ConnectionError):
            stranger.sendall(unknown_frame * 10)
            while stranger.recv(4_096):
                pass

    assert ann.catalog.list_databases() == ["default"]
    assert node.principals == ["ann", "ann"]
