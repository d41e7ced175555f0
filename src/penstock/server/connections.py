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
from collections.abc import Iterator
from contextlib import suppress
from typing import Final
from urllib.parse import unquote

_DESCRIPTORS: Final = "/dev/fd"


def cut_connections(port: int, peers: set[str] | None = None) -> int:
    """Cut the connections of a local port, or those with the peers named; return how many.

    Peers are named as gRPC names them: `ipv4:127.0.0.1:4242`, `ipv6:[::1]:4242`.
    """
    wanted = None if peers is None else {_address(peer) for peer in peers}
    cut = 0
    for connection in _sockets():
        with connection, suppress(OSError):
            host, peer_port = connection.getpeername()[:2]
            # An IPv6 socket that also serves IPv4 shows such a peer as a mapped address.
            peer = (host.removeprefix("::ffff:"), peer_port)
            if connection.getsockname()[1] == port and (wanted is None or peer in wanted):
                connection.shutdown(socket.SHUT_RDWR)
                cut += 1
    return cut


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


def _address(peer: str) -> tuple[str, int]:
    host, _, port = unquote(peer).partition(":")[2].rpartition(":")
    return host.strip("[]"), int(port) if port.isdigit() else -1
