"""The connections of a listening port, cut from our side.

Flight has no way for a server to end a call whose client neither reads nor goes away, and its
shutdown waits for such calls without end. So the socket underneath is shut down: the transport then
sees what it would see if the client had died, and cleans up by itself. The socket stays the
transport's own; it is shut down, never closed.
"""

from __future__ import annotations

import os
import socket
import stat
import struct
from collections.abc import Iterator
from contextlib import suppress
from typing import Final
from urllib.parse import unquote

_DESCRIPTORS: Final = "/dev/fd"


Address = tuple[str, int]
# Where Linux says in `struct tcp_info` how many bytes have come in.
_TCP_INFO_BYTES: Final = 256
_RECEIVED: Final = struct.Struct("=Q")
_RECEIVED_AT: Final = 128


def cut_connections(port: int, peers: set[Address] | None = None) -> int:
    """Cut the connections of a local port, or those with the peers at these addresses; return how many."""
    cut = 0
    for peer, connection in _connections(port):
        if peers is None or peer in peers:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
                cut += 1
    return cut


def received_bytes(port: int) -> dict[Address, int]:
    """Return how many bytes each connection of a local port has received; 0 where the system does not say."""
    return {peer: _received(connection) for peer, connection in _connections(port)}


def address_of(peer: str) -> Address:
    """Return the address of a peer as gRPC names it: `ipv4:127.0.0.1:4242`, `ipv6:[::1]:4242`."""
    host, _, port = unquote(peer).partition(":")[2].rpartition(":")
    return host.strip("[]"), int(port) if port.isdigit() else -1


def _connections(port: int) -> Iterator[tuple[Address, socket.socket]]:
    for connection in _sockets():
        with connection, suppress(OSError):
            host, peer_port = connection.getpeername()[:2]
            if connection.getsockname()[1] == port:
                # An IPv6 socket that also serves IPv4 shows such a peer as a mapped address.
                yield (host.removeprefix("::ffff:"), peer_port), connection


def _received(connection: socket.socket) -> int:
    if not hasattr(socket, "TCP_INFO"):
        return 0
    with suppress(OSError, struct.error):
        facts = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO_BYTES)
        return int(_RECEIVED.unpack_from(facts, _RECEIVED_AT)[0])
    return 0


def _sockets() -> Iterator[socket.socket]:
    for name in os.listdir(_DESCRIPTORS):
        with suppress(OSError, ValueError):
            number = int(name)
            if stat.S_ISSOCK(os.fstat(number).st_mode):
                # A duplicate: closing it leaves the transport's descriptor alone.
                copy = socket.socket(fileno=os.dup(number))
                if copy.family in (socket.AF_INET, socket.AF_INET6):
                    yield copy
                else:
                    copy.close()
