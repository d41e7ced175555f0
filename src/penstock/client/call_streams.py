"""Open streams to a server, lent to one call at a time.

A stream answers in order, so a call has one to itself and as many are open as calls were ever under
way at once; a few stay open for the next. A stream that failed, or whose call ran out of time, is
never used again: nobody could tell which call its next answer belongs to.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import pyarrow as pa
from pyarrow import flight

from penstock.errors import ClosedError, PenstockError, TimedOutError
from penstock.wire.fault import from_flight
from penstock.wire.frame import CALL_STREAM, FrameKind, encode_frame, is_reply

IDLE_STREAMS_MAX: Final = 16
IDLE_SECONDS_MAX: Final = 60.0
END_SECONDS_MAX: Final = 2.0
_FOREIGN: Final = (pa.ArrowException, OSError, StopIteration)


class CallStream:
    """One stream of calls. Used by one thread at a time, except for `cancel`."""

    def __init__(self, client: flight.FlightClient, options: flight.FlightCallOptions) -> None:
        self._writer, self._reader = client.do_exchange(flight.FlightDescriptor.for_command(CALL_STREAM), options)
        self._calls = 0
        self._rows = 0
        self.client = client
        self.used_at = time.monotonic()

    def ask(self, request: pa.Buffer, rows: int) -> pa.Buffer:
        """Send a request that writes so many rows; return the reply."""
        with suppress(*_FOREIGN):
            # If the stream is broken, reading from it tells why; the writer does not know.
            self._writer.write_metadata(request)
        reply: pa.Buffer | None = self._reader.read_chunk().app_metadata
        if reply is None:
            raise StopIteration
        self._calls += 1
        self._rows += rows if is_reply(reply) else 0
        self.used_at = time.monotonic()
        return reply

    def end(self) -> None:
        """Tell the server how much was sent, and that this was all."""
        with suppress(*_FOREIGN):
            self._writer.write_metadata(encode_frame(FrameKind.END, {"calls": self._calls, "rows": self._rows}))
            self._writer.done_writing()
            self._reader.read_chunk()
        self.close()

    def cancel(self) -> None:
        """Break the stream off, from any thread; a call on it fails at once."""
        with suppress(*_FOREIGN):
            self._reader.cancel()

    def close(self) -> None:
        """Let go of a stream that is at its end, or broken."""
        with suppress(*_FOREIGN):
            self._writer.close()


class Deadlines:
    """Breaks streams off whose call takes too long: Flight's own timeouts are for a stream's whole life."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._due: dict[CallStream, float] = {}
        self._wake_at = float("inf")
        self._thread: threading.Thread | None = None

    def begin(self, stream: CallStream, seconds: float) -> None:
        """Cancel the stream after so long, unless `end` comes first."""
        due = time.monotonic() + seconds
        with self._lock:
            self._due[stream] = due
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="penstock-deadlines", daemon=True)
                self._thread.start()
            elif due < self._wake_at:
                self._changed.notify()

    def end(self, stream: CallStream) -> bool:
        """Watch the stream no more; tell whether it was in time."""
        with self._lock:
            return self._due.pop(stream, None) is not None

    def cancel_all(self) -> None:
        """Break every watched stream off."""
        with self._lock:
            streams = list(self._due)
        for stream in streams:
            stream.cancel()

    def _run(self) -> None:
        while True:
            with self._changed:
                now = time.monotonic()
                late = [stream for stream, due in self._due.items() if due <= now]
                for stream in late:
                    del self._due[stream]
                if not late:
                    # Woken rarely: most calls end long before, and a later deadline needs no wake-up.
                    self._wake_at = min(self._due.values(), default=now + IDLE_SECONDS_MAX)
                    self._changed.wait(self._wake_at - now)
                    if not self._due and time.monotonic() >= self._wake_at:
                        self._thread = None
                        return
            for stream in late:
                stream.cancel()


class CallStreams:
    """The streams of one connection. Thread-safe."""

    def __init__(self, connect: Callable[[], flight.FlightClient], options: flight.FlightCallOptions) -> None:
        self._connect = connect
        self._options = options
        self._lock = threading.Lock()
        self._client: flight.FlightClient | None = None
        self._idle: list[CallStream] = []
        self._deadlines = Deadlines()
        self._closed = False

    def ask(self, request: pa.Buffer, *, rows: int, timeout_ms: int) -> pa.Buffer:
        """Return the reply to a request.

        Raises:
            ClosedError: the connection was closed.
            TimedOutError: no reply in time; the call may have been done.
            UnavailableError: the server cannot be reached, or the stream broke; the call may have been done.
            PermissionDeniedError: the server does not let this caller in.
        """
        stream = self._take()
        self._deadlines.begin(stream, timeout_ms / 1000)
        try:
            reply = stream.ask(request, rows)
        except _FOREIGN as error:
            in_time = self._deadlines.end(stream)
            self._drop(stream)
            raise self._failure(error, not in_time, timeout_ms) from error
        except BaseException:
            # Interrupted: the answer is still to come, and nobody waits for it.
            self._deadlines.end(stream)
            self._drop(stream)
            raise
        if self._deadlines.end(stream):
            self._give_back(stream)
        else:
            self._drop(stream)
        return reply

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

    def _take(self) -> CallStream:
        stale: list[CallStream] = []
        try:
            with self._lock:
                if self._closed:
                    raise ClosedError("the connection is closed; connect again")
                fresh_since = time.monotonic() - IDLE_SECONDS_MAX
                while self._idle:
                    stream = self._idle.pop()
                    if stream.used_at >= fresh_since:
                        return stream
                    stale.append(stream)
                if self._client is None:
                    self._client = self._connect()
                client = self._client
            try:
                return CallStream(client, self._options)
            except _FOREIGN as error:
                raise from_flight(error) from error
        finally:
            self._end(stale)

    def _give_back(self, stream: CallStream) -> None:
        with self._lock:
            if not self._closed and stream.client is self._client and len(self._idle) < IDLE_STREAMS_MAX:
                self._idle.append(stream)
                return
        self._end([stream])

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
