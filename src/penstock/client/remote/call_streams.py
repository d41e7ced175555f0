"""The streams of one connection: lent to one call at a time, kept for the next, given up when one breaks."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Hashable, Iterator
from itertools import pairwise

import pyarrow as pa
from pyarrow import flight

from penstock.client.link.deadlines import Deadlines
from penstock.client.remote.call_stream import CallStream
from penstock.client.remote.idle_streams import IdleStreams
from penstock.client.remote.raw_reply import RawReply
from penstock.errors import ClosedError


class CallStreams:
    """Lends streams; as many are open as calls were ever under way at once. Thread-safe by one lock.

    Once the id of the server's database is known, each new stream names it: at the same address there may be another.
    """

    def __init__(
        self,
        connect: Callable[[], flight.FlightClient],
        options: flight.FlightCallOptions,
        database: str | None = None,
        idle: IdleStreams | None = None,
    ) -> None:
        self.database = database
        self._connect = connect
        self._options = options
        self._deadlines = Deadlines()
        # Guarded by the lock.
        self._lock = threading.Lock()
        self._client: flight.FlightClient | None = None
        self._idle = idle or IdleStreams()

    def lend(self, affinity: Hashable = None) -> CallStream:
        """Return a stream for one call, or several in a row, which then give it back.

        Raises:
            PenstockError: as `CallStream.ask` has it.
        """
        with self._lock:
            if self._deadlines.closed:
                raise ClosedError("the connection is closed; connect again")
            unused = self._idle.take_unused()
            stream = self._idle.take(affinity)
            if stream is None and self._client is None:
                self._client = self._connect()
            client = self._client
        _end(unused)
        if stream is None:
            stream = CallStream(client, self._options, self.database, self._deadlines, self._take_back)
            stream.affinity = affinity
        return stream

    def ask_each(
        self, requests: Iterator[pa.Buffer], *, timeout_ms: int, affinity: Hashable
    ) -> Generator[RawReply, None, None]:
        """Yield the answers to requests over one stream, each sent as soon as the answer before shows that it goes on.

        To be closed after the last answer that is wanted.

        Raises:
            PenstockError: as `CallStream.ask` has it.
        """
        with self.lend(affinity) as stream:
            for request, following in pairwise(requests):
                yield stream.ask(request, timeout_ms=timeout_ms, following=following)

    def close(self) -> None:
        """End every stream; calls under way fail."""
        with self._lock:
            self._deadlines.close()
            idle, client, self._client = self._idle.take_all(), self._client, None
        _end(idle)
        if client is not None:
            client.close()

    def _take_back(self, stream: CallStream) -> None:
        with self._lock:
            current = stream.client is self._client
            if not stream.broken:
                ended = self._idle.put(stream) if current else [stream]
                broken: list[CallStream] = []
            else:
                # What broke one stream has mostly broken its connection: the next call starts afresh.
                ended, broken = [], [stream]
                if current:
                    self._client = None
                    broken += self._idle.take_all()
        for other in broken:
            other.break_off()
        _end(ended)


def _end(streams: list[CallStream]) -> None:
    for stream in streams:
        stream.end()
