"""Writes that are sent before the writes ahead of them are answered.

A stream's calls are done one after the other, and each of these writes says that it follows the one before: the
server does it only if that one succeeded. So nothing is ever applied behind a write that failed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import replace

from penstock.client.remote.call_stream import CallStream
from penstock.client.remote.requests import Requests
from penstock.errors import LimitError
from penstock.model.node.calls import WriteCall, WriteResult
from penstock.wire.calls import WRITE
from penstock.wire.plain import plain_batch


class WriteStream:
    """Writes under way on one stream, answered in order. For one thread."""

    def __init__(self, stream: CallStream, ids: Iterator[int], timeout_ms: int, requests: Requests) -> None:
        self._stream: CallStream | None = stream
        self._ids = ids
        self._timeout_ms = timeout_ms
        self._requests = requests
        self._sent: deque[tuple[int, int]] = deque()

    def send(self, call: WriteCall) -> None:
        """Send a write.

        Raises:
            LimitError: it needs pieces, so it is to be sent by itself.
            PenstockError: it cannot be sent.
        """
        call_id = next(self._ids)
        request = WRITE.draft_request(call_id, {"call": plain_write(call)}, follows=bool(self._sent))
        if not self._requests.travels_at_once(request):
            raise LimitError("a write in pieces is sent by itself", bytes=request.size)
        self._sent.append((call_id, call.batch.num_rows))
        assert self._stream is not None, "closed"
        self._stream.send(request.encode(), timeout_ms=self._timeout_ms)

    def result(self) -> WriteResult:
        """Wait for the answer to the oldest write that has none.

        Raises:
            PenstockError: as the server answered, or the connection broke; then no later write may be done either.
        """
        call_id, rows = self._sent.popleft()
        assert self._stream is not None, "closed"
        answer = self._stream.receive(timeout_ms=self._timeout_ms, rows=rows)
        return WRITE.decode_reply(call_id, answer.frame, answer.batches)

    def close(self) -> None:
        """Give the stream back; one that owes answers is broken off. Idempotent."""
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.give_back()


def plain_write(call: WriteCall) -> WriteCall:
    """Return the write with every column of its plain type."""
    batch = plain_batch(call.batch)
    return call if batch is call.batch else replace(call, batch=batch)
