"""Open streams to a server, lent to one call at a time.

A stream answers in order, so a call has one to itself and as many are open as calls were ever under
way at once; a few stay open for the next. A stream that failed, or whose call ran out of time, is
never used again: nobody could tell which call its next answer belongs to.

Rows come the short way if they are of the schema of the first rows that came on their stream. So
calls that return rows name a subject, the same for the same schema, and each stream serves one.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator, Hashable, Iterator
from contextlib import suppress
from itertools import pairwise
from typing import Final, NamedTuple, TypeVar

import pyarrow as pa
from pyarrow import flight

from penstock.client.link.deadlines import IDLE_SECONDS_MAX, Deadlines
from penstock.errors import ClosedError, InvalidError, PenstockError, TimedOutError
from penstock.wire.body import check_schema
from penstock.wire.call import REPLY_LIMITS
from penstock.wire.fault import from_flight
from penstock.wire.frame import BODIES_MAX, FrameKind, call_stream, encode_frame, is_reply
from penstock.wire.piece import Pieces
from penstock.wire.reply import goes_on, is_last

T = TypeVar("T")

IDLE_STREAMS_MAX: Final = 16
END_SECONDS_MAX: Final = 2.0
_FOREIGN: Final = (pa.ArrowException, OSError, StopIteration)


class Answer(NamedTuple):
    """What a server sent in reply: a frame, and the batches that came beside it."""

    frame: pa.Buffer
    batches: list[pa.RecordBatch]


class CallStream:
    """One stream of calls. Used by one thread at a time, except for `cancel`."""

    def __init__(
        self, client: flight.FlightClient, options: flight.FlightCallOptions, database: str | None = None
    ) -> None:
        descriptor = flight.FlightDescriptor.for_command(call_stream(database))
        self._writer, self._reader = client.do_exchange(descriptor, options)
        self._calls = 0
        self._rows = 0
        self._knows_schema = False
        self._owed = 0
        self.client = client
        self.subject: Hashable = None
        self.used_at = time.monotonic()

    @property
    def owed(self) -> int:
        """Return how many answers are still to come."""
        return self._owed

    def ask(self, request: pa.Buffer, rows: int, following: pa.Buffer | None = None) -> Answer:
        """Send a request that writes so many rows, unless it was sent as the one to follow; return the answer.

        The one to follow is sent as soon as the answer shows that it will be wanted.
        """
        if not self._owed:
            self.send(request)
        return self.receive(rows, following)

    def send(self, request: pa.Buffer) -> None:
        """Send a request; its answer comes after those of the ones before."""
        self._owed += 1
        with suppress(*_FOREIGN):
            # If the stream is broken, reading from it tells why; the writer does not know.
            self._writer.write_metadata(request)

    def receive(self, rows: int, following: pa.Buffer | None = None) -> Answer:
        """Return the answer to the oldest request that has none, which writes so many rows."""
        answer = self._read(following)
        self._owed -= 1
        self._calls += 1
        self._rows += rows if is_reply(answer.frame) else 0
        self.used_at = time.monotonic()
        return answer

    def _read(self, following: pa.Buffer | None) -> Answer:
        batches: list[pa.RecordBatch] = []
        sent = False
        while len(batches) <= BODIES_MAX:
            chunk = self._reader.read_chunk()
            if chunk.data is not None:
                batches.append(chunk.data)
            if is_last(chunk.app_metadata):
                if batches and not self._knows_schema:
                    check_schema(batches[0].schema, REPLY_LIMITS)
                    self._knows_schema = True
                return Answer(chunk.app_metadata, batches)
            if chunk.data is None:
                raise StopIteration
            if following is not None and not sent and goes_on(chunk.app_metadata):
                self.send(following)
                sent = True
        raise InvalidError("the server sent more batches than belong to any answer", most=BODIES_MAX)

    def end(self) -> None:
        """Tell the server how much was sent, and that this was all."""
        with suppress(*_FOREIGN):
            self._writer.write_metadata(encode_frame(FrameKind.END, {"calls": self._calls, "rows": self._rows}))
            self._writer.done_writing()
            self._reader.read_chunk()
        self.close()

    def spoil(self) -> None:
        """Have the stream count as one that owes an answer: it was broken off after it had given its last."""
        self._owed += 1

    def cancel(self) -> None:
        """Break the stream off, from any thread; a call on it fails at once."""
        with suppress(*_FOREIGN):
            self._reader.cancel()

    def close(self) -> None:
        """Let go of a stream that is at its end, or broken."""
        with suppress(*_FOREIGN):
            self._writer.close()


class CallStreams:
    """The streams of one connection. Thread-safe.

    Once the id of the server's database is known, each new stream names it: at the same address there may be another.
    """

    def __init__(
        self,
        connect: Callable[[], flight.FlightClient],
        options: flight.FlightCallOptions,
        database: str | None = None,
    ) -> None:
        self.database = database
        self._connect = connect
        self._options = options
        self._lock = threading.Lock()
        self._client: flight.FlightClient | None = None
        self._idle: list[CallStream] = []
        self._deadlines = Deadlines()
        self._closed = False

    def ask(self, request: pa.Buffer, *, rows: int, timeout_ms: int, subject: Hashable = None) -> Answer:
        """Return the answer to a request; its rows, if it has any, are of the schema that `subject` stands for.

        Raises:
            ClosedError: the connection was closed.
            TimedOutError: no reply in time; the call may have been done.
            UnavailableError: the server cannot be reached, or the stream broke; the call may have been done.
            PermissionDeniedError: the server does not let this caller in.
        """
        stream = self._take(subject)
        try:
            answer = self._ask(stream, request, rows, timeout_ms)
        except BaseException:
            # The answer may still be to come, and nobody waits for it.
            self._drop(stream)
            raise
        self._give_back(stream)
        return answer

    def ask_in_pieces(self, pieces: Pieces, *, rows: int, timeout_ms: int, subject: Hashable = None) -> Answer:
        """Return the answer to a request in pieces, or to the first of them that is refused.

        Raises:
            PenstockError: as `ask` has it.
        """
        stream = self._take(subject)
        try:
            for piece, last in pieces:
                answer = self._ask(stream, piece, rows if last else 0, timeout_ms)
                if last or not is_reply(answer.frame):
                    break
        except BaseException:
            # The server keeps the pieces it has for as long as the stream lasts.
            self._drop(stream)
            raise
        self._give_back(stream)
        return answer

    def ask_each(
        self, requests: Iterator[pa.Buffer], *, timeout_ms: int, subject: Hashable
    ) -> Generator[Answer, None, None]:
        """Yield the answers to requests over one stream, each sent as soon as the answer before shows that it goes on.

        To be closed after the last answer that is wanted.

        Raises:
            PenstockError: as `ask` has it.
        """
        stream = self._take(subject)
        try:
            for request, following in pairwise(requests):
                yield self._ask(stream, request, 0, timeout_ms, following)
        finally:
            self._give_back(stream)

    def converse(self) -> Conversation:
        """Lend a stream for several calls.

        Raises:
            PenstockError: as `ask` has it.
        """
        return Conversation(self, self._take(None))

    def _ask(
        self, stream: CallStream, request: pa.Buffer, rows: int, timeout_ms: int, following: pa.Buffer | None = None
    ) -> Answer:
        return self._timed(stream, timeout_ms, lambda: stream.ask(request, rows, following))

    def _timed(self, stream: CallStream, timeout_ms: int, act: Callable[[], T]) -> T:
        self._deadlines.begin(stream, timeout_ms / 1000)
        try:
            done = act()
        except _FOREIGN as error:
            raise self._failure(error, not self._deadlines.end(stream), timeout_ms) from error
        except BaseException:
            self._deadlines.end(stream)
            raise
        if not self._deadlines.end(stream):
            stream.spoil()
        return done

    def close(self) -> None:
        """End every stream; calls under way fail."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
            client, self._client = self._client, None
        self._deadlines.cancel_all()
        self._end(idle)
        if client is not None:
            client.close()

    def _failure(self, error: BaseException, late: bool, timeout_ms: int) -> PenstockError:
        if self._closed:
            return ClosedError("the connection was closed during the call; the call may have been done")
        if late:
            return TimedOutError(
                "the server did not answer in time; the call may have been done", timeout_ms=timeout_ms
            )
        return from_flight(error)

    def _take(self, subject: Hashable) -> CallStream:
        stale: list[CallStream] = []
        try:
            with self._lock:
                if self._closed:
                    raise ClosedError("the connection is closed; connect again")
                if self._idle and self._idle[0].used_at < time.monotonic() - IDLE_SECONDS_MAX:
                    stale = self._take_stale()
                stream = self._take_idle(subject)
                if stream is not None:
                    return stream
                if self._client is None:
                    self._client = self._connect()
                client = self._client
            try:
                stream = CallStream(client, self._options, self.database)
            except _FOREIGN as error:
                raise from_flight(error) from error
            stream.subject = subject
            return stream
        finally:
            self._end(stale)

    def _take_idle(self, subject: Hashable) -> CallStream | None:
        """Return the stream used last of those that serve the subject, or none yet; for no subject any will do."""
        unbound = -1
        for place in range(len(self._idle) - 1, -1, -1):
            serves = self._idle[place].subject
            if subject is None or serves == subject:
                return self._idle.pop(place)
            if serves is None and unbound < 0:
                unbound = place
        if unbound < 0:
            return None
        self._idle[unbound].subject = subject
        return self._idle.pop(unbound)

    def _take_stale(self) -> list[CallStream]:
        fresh_since = time.monotonic() - IDLE_SECONDS_MAX
        stale = [stream for stream in self._idle if stream.used_at < fresh_since]
        self._idle = [stream for stream in self._idle if stream.used_at >= fresh_since]
        return stale

    def _give_back(self, stream: CallStream) -> None:
        if stream.owed:
            self._drop(stream)
            return
        ended = [stream]
        with self._lock:
            if not self._closed and stream.client is self._client:
                # In the order of use: the one that was not used for longest is the first.
                self._idle.append(stream)
                ended = [self._idle.pop(0)] if len(self._idle) > IDLE_STREAMS_MAX else []
        if ended:
            self._end(ended)

    def _end(self, streams: list[CallStream]) -> None:
        for stream in streams:
            self._deadlines.begin(stream, END_SECONDS_MAX)
            stream.end()
            self._deadlines.end(stream)

    def _drop(self, stream: CallStream) -> None:
        # What broke one stream has mostly broken its connection: the next call starts afresh.
        with self._lock:
            broken = [stream]
            if stream.client is self._client:
                self._client = None
                broken += self._idle
                self._idle = []
        for other in broken:
            other.cancel()
            other.close()


class Conversation:
    """One stream, lent for several calls: the next may be sent before the answer to one has come."""

    def __init__(self, streams: CallStreams, stream: CallStream) -> None:
        self._streams = streams
        self._stream: CallStream | None = stream

    def send(self, request: pa.Buffer, timeout_ms: int) -> None:
        """Send a request.

        Raises:
            PenstockError: as `CallStreams.ask` has it.
        """
        stream = self._open_stream()
        self._streams._timed(stream, timeout_ms, lambda: stream.send(request))

    def receive(self, rows: int, timeout_ms: int) -> Answer:
        """Return the answer to the oldest request that has none, which writes so many rows.

        Raises:
            PenstockError: as `CallStreams.ask` has it.
        """
        stream = self._open_stream()
        return self._streams._timed(stream, timeout_ms, lambda: stream.receive(rows))

    def close(self) -> None:
        """Give the stream back; one that owes answers is broken off. Idempotent."""
        stream, self._stream = self._stream, None
        if stream is not None:
            self._streams._give_back(stream)

    def _open_stream(self) -> CallStream:
        assert self._stream is not None, "a conversation that was closed is over"
        return self._stream
