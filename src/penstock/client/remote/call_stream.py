"""One stream of calls to a server, used by one call at a time.

A stream answers in order, so a call has one to itself. Its states:

| state | whose it is | what comes next |
|---|---|---|
| idle | `IdleStreams` | `CallStreams.lend`: lent. Unused for long, too many of them, connection closed: ended |
| lent | the call that borrowed it | a request is sent: asking. `give_back`: idle |
| asking | the same call; `Deadlines` may cancel it | the last answer owed has come: lent. It fails, runs out of time, is given back, or its call ends by an error: broken |
| broken | no call | it is cancelled, and the idle streams of its connection with it: what broke one has mostly broken all |
| ended | no call | the server was told how many calls and rows there were, and that was all |

A broken stream is never used again: which call its next answer belongs to cannot be told.

Rows come the short way if they are of the schema of the first rows that came on their stream. So calls that return
rows have an affinity, the same for the same schema, and each stream serves one.
"""  # noqa: E501 - a table's rows cannot be wrapped

from __future__ import annotations

from collections.abc import Callable, Hashable
from contextlib import suppress
from types import TracebackType
from typing import Final, TypeVar

import pyarrow as pa
from pyarrow import flight

from penstock.client.link.deadlines import Deadlines
from penstock.client.remote.raw_reply import RawReply
from penstock.errors import ClosedError, InvalidError, TimedOutError
from penstock.wire.body import check_schema
from penstock.wire.call import REPLY_LIMITS
from penstock.wire.fault import from_flight
from penstock.wire.frame import BODIES_MAX, FrameKind, call_stream, encode_frame, is_reply
from penstock.wire.reply import goes_on, is_last

T = TypeVar("T")

END_SECONDS_MAX: Final = 2.0
_FOREIGN: Final = (pa.ArrowException, OSError, StopIteration)


class CallStream:
    """A stream as the call that borrowed it sees it; a context manager that gives it back. For one thread."""

    def __init__(
        self,
        client: flight.FlightClient,
        options: flight.FlightCallOptions,
        database: str | None,
        deadlines: Deadlines,
        take_back: Callable[[CallStream], None],
    ) -> None:
        """Open a stream.

        Raises:
            PenstockError: as `ask` has it.
        """
        descriptor = flight.FlightDescriptor.for_command(call_stream(database))
        try:
            self._writer, self._reader = client.do_exchange(descriptor, options)
        except _FOREIGN as error:
            raise from_flight(error) from error
        self._deadlines = deadlines
        self._take_back = take_back
        self._calls = 0
        self._rows = 0
        self._owed = 0
        self._spoilt = False
        self._knows_schema = False
        self.client = client
        self.affinity: Hashable = None

    @property
    def owed(self) -> int:
        """Return how many answers are still to come."""
        return self._owed

    @property
    def broken(self) -> bool:
        """Tell whether it owes an answer, was cancelled just after the last one, or its call ended by an error."""
        return self._owed > 0 or self._spoilt

    def ask(
        self, request: pa.Buffer, *, timeout_ms: int, rows: int = 0, following: pa.Buffer | None = None
    ) -> RawReply:
        """Send a request that writes so many rows, unless it was sent as the one to follow; return its answer.

        `following` is sent as soon as the answer shows that it goes on.

        Raises:
            ClosedError: the connection was closed.
            TimedOutError: no reply in time; the call may have been done.
            UnavailableError: the server cannot be reached, or the stream broke; the call may have been done.
            PermissionDeniedError: the server does not let this caller in.
        """

        def act() -> RawReply:
            if not self._owed:
                self._send(request)
            return self._receive(rows, following)

        return self._timed(timeout_ms, act)

    def send(self, request: pa.Buffer, *, timeout_ms: int) -> None:
        """Send a request; its answer comes after those of the ones before.

        Raises:
            PenstockError: as `ask` has it.
        """
        self._timed(timeout_ms, lambda: self._send(request))

    def receive(self, *, timeout_ms: int, rows: int = 0) -> RawReply:
        """Return the answer to the oldest request that has none, which writes so many rows.

        Raises:
            PenstockError: as `ask` has it.
        """
        return self._timed(timeout_ms, lambda: self._receive(rows, None))

    def give_back(self) -> None:
        """Give the stream back to its connection, which may lend it to another call."""
        self._take_back(self)

    def __enter__(self) -> CallStream:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # A server keeps the pieces of half a request for as long as the stream lasts.
        self._spoilt |= isinstance(error, Exception)
        self._take_back(self)

    def end(self) -> None:
        """Tell the server how many calls and rows were sent, and that this was all."""
        self._deadlines.begin(self, END_SECONDS_MAX)
        with suppress(*_FOREIGN):
            self._writer.write_metadata(encode_frame(FrameKind.END, {"calls": self._calls, "rows": self._rows}))
            self._writer.done_writing()
            self._reader.read_chunk()
        self._close()
        self._deadlines.end(self)

    def cancel(self) -> None:
        """Cancel the stream, from any thread; a call on it fails at once."""
        with suppress(*_FOREIGN):
            self._reader.cancel()

    def break_off(self) -> None:
        """Cancel a stream that no call uses, without a word to the server."""
        self.cancel()
        self._close()

    def _close(self) -> None:
        with suppress(*_FOREIGN):
            self._writer.close()

    def _timed(self, timeout_ms: int, act: Callable[[], T]) -> T:
        self._deadlines.begin(self, timeout_ms / 1000)
        try:
            return act()
        except _FOREIGN as error:
            cause = error
        finally:
            late = not self._deadlines.end(self)
            self._spoilt |= late
        if self._deadlines.closed:
            raise ClosedError("the connection was closed during the call; the call may have been done") from cause
        if late:
            message = "the server did not answer in time; the call may have been done"
            raise TimedOutError(message, timeout_ms=timeout_ms) from cause
        raise from_flight(cause) from cause

    def _send(self, request: pa.Buffer) -> None:
        self._owed += 1
        try:
            self._writer.write_metadata(request)
        except _FOREIGN:
            # The stream is broken: reading from it tells why; the writer does not know.
            return

    def _receive(self, rows: int, following: pa.Buffer | None) -> RawReply:
        answer = self._read(following)
        self._owed -= 1
        self._calls += 1
        self._rows += rows if is_reply(answer.frame) else 0
        return answer

    def _read(self, following: pa.Buffer | None) -> RawReply:
        batches: list[pa.RecordBatch] = []
        while len(batches) <= BODIES_MAX:
            chunk = self._reader.read_chunk()
            if chunk.data is not None:
                batches.append(chunk.data)
            if is_last(chunk.app_metadata):
                if batches and not self._knows_schema:
                    check_schema(batches[0].schema, REPLY_LIMITS)
                    self._knows_schema = True
                return RawReply(chunk.app_metadata, batches)
            if chunk.data is None:
                raise StopIteration
            if following is not None and goes_on(chunk.app_metadata):
                self._send(following)
                following = None
        raise InvalidError("the server sent more batches than belong to any answer", most=BODIES_MAX)
