"""Calls to a server: each is one request on a stream, answered or refused.

A call is made once: the client above decides what is tried again.
"""

from __future__ import annotations

import itertools
import os
from collections import deque
from collections.abc import Generator, Hashable, Iterable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

import pyarrow as pa
from pyarrow import flight

from penstock.client.link.request_id import current_request_id
from penstock.client.remote.call_streams import CallStreams
from penstock.client.remote.credentials import read_tls_files, token_bytes
from penstock.client.remote.diagnosis import explain
from penstock.client.remote.requests import Requests
from penstock.client.remote.write_stream import WriteStream
from penstock.errors import ClosedError, InvalidError, PermissionDeniedError, UnavailableError, UnsupportedError
from penstock.model.node.ports import FLIGHT_PORT
from penstock.wire.call import Call
from penstock.wire.calls import DATABASE_ID
from penstock.wire.frame import FRAME_BYTES_MAX

R = TypeVar("R")

SCHEMES: Final = {"penstock": "grpc", "penstock+tls": "grpc+tls"}
_MESSAGE_BYTES_MAX: Final = FRAME_BYTES_MAX + (1 << 20)
_TRANSPORT: Final = [
    ("grpc.max_receive_message_length", _MESSAGE_BYTES_MAX),
    ("grpc.max_send_message_length", _MESSAGE_BYTES_MAX),
    # A connection of our own, that is tried again soon after the server is back.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.min_reconnect_backoff_ms", 1_000),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    ("grpc.enable_http_proxy", 0),
]


class RemoteCalls:
    """The calls of one connection. Thread-safe: streams are lent to one call at a time.

    Connects when it is first asked, and again after the connection broke.
    """

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        tls: Mapping[str, str | Path] | None = None,
        timeout_ms: int = 60_000,
        database: str | None = None,
        any_database: bool = False,
    ) -> None:
        """Reach a server by its url.

        `database` is the id of the database that it must serve, if that is known; else the first that answers, or with
        `any_database` whichever does.
        """
        location, self._address, self._secure = _locate(url)
        if tls and not self._secure:
            raise InvalidError("tls files go with a penstock+tls:// url", url=url)
        files = {} if tls is None else read_tls_files(tls)
        self.url = url
        self._timeout_ms = timeout_ms
        self._pid = os.getpid()
        self._ids = itertools.count(1)
        self._any_database = any_database
        headers = [] if token is None else [(b"authorization", b"Bearer " + token_bytes(token))]
        self._streams = CallStreams(
            lambda: flight.FlightClient(location, generic_options=_TRANSPORT, **files),
            flight.FlightCallOptions(headers=headers),
            database,
        )
        self._requests = Requests(self._streams)
        # gRPC has a line of its own on stderr for each handshake that fails; ours says it once.
        os.environ.setdefault("GRPC_VERBOSITY", "ERROR")

    def close(self) -> None:
        """End the connection; idempotent, and nothing in a forked child."""
        if os.getpid() == self._pid:
            self._streams.close()

    def database_id(self) -> str:
        """Return the id of the database, which is asked for once: no other is talked to from then on."""
        known = self._streams.database
        if known is None:
            known = self.ask(DATABASE_ID)
            self._streams.database = None if self._any_database else known
        return known

    def ask(
        self, asked: Call[R], /, *, rows: int = 0, wait_ms: int = 0, affinity: Hashable = None, **arguments: Any
    ) -> R:
        """Send a request and return what the answer says.

        `rows` is how many it writes, `wait_ms` how long the server may wait, `affinity` what the rows
        of its answer have in common: answers of the same affinity travel on the same streams.
        """
        self._check_process()
        if asked is not DATABASE_ID and not self._any_database:
            self.database_id()
        call_id = next(self._ids)
        request = asked.draft_request(call_id, arguments, request_id=current_request_id())
        try:
            answer = self._requests.ask(
                call_id, request, rows=rows, timeout_ms=self._timeout_ms + wait_ms, affinity=affinity
            )
        except (UnavailableError, UnsupportedError, PermissionDeniedError) as error:
            if "cause" not in error.facts:
                raise
            raise explain(error, self.url, self._address, secure=self._secure) from error
        return asked.decode_reply(call_id, answer.frame, answer.batches)

    def ask_each(
        self, asked: Call[R], arguments: Iterable[Mapping[str, Any]], *, affinity: Hashable = None
    ) -> Generator[R, None, None]:
        """Yield the answers to requests of one kind; the next is sent while an answer still arrives."""
        ids: deque[int] = deque()

        def requests() -> Iterator[pa.Buffer]:
            for named in arguments:
                ids.append(next(self._ids))
                yield asked.encode_request(ids[-1], named)

        with closing(self._streams.ask_each(requests(), timeout_ms=self._timeout_ms, affinity=affinity)) as answers:
            for answer in answers:
                yield asked.decode_reply(ids.popleft(), answer.frame, answer.batches)

    def write_stream(self) -> WriteStream:
        """Return a stream for writes that are sent ahead."""
        self._check_process()
        if not self._any_database:
            self.database_id()
        return WriteStream(self._streams.lend(), self._ids, self._timeout_ms, self._requests)

    def _check_process(self) -> None:
        if os.getpid() != self._pid:
            raise ClosedError("a connection does not survive a fork; connect again in this process", url=self.url)


def _locate(url: str) -> tuple[str, tuple[str, int], bool]:
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port or FLIGHT_PORT
    except ValueError as error:
        raise InvalidError("not a server's url; it is penstock://host:port", url=url) from error
    if parts.scheme not in SCHEMES or not host or parts.path not in ("", "/") or parts.query or parts.username:
        raise InvalidError("not a server's url; it is penstock://host:port or penstock+tls://host:port", url=url)
    shown = f"[{host}]" if ":" in host else host
    return f"{SCHEMES[parts.scheme]}://{shown}:{port}", (host, port), parts.scheme == "penstock+tls"
