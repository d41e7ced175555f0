"""What a server does with one request: decode, check, cap, dispatch to the node, map the error.

Knows nothing of Flight: bytes come in, bytes go out, and nothing but bytes ever does.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from time import perf_counter
from typing import Any, Final

import pyarrow as pa

from penstock.errors import InternalError, InvalidError, LimitError, PenstockError, UnavailableError
from penstock.model.node.calls import ChangePage, Page, PullChanges, WriteCall, check_call_bytes
from penstock.runtime.clock import Clock
from penstock.runtime.metrics import Metrics
from penstock.server.access.private_paths import PrivatePaths
from penstock.server.calls.admission import Admission, Stream
from penstock.server.calls.dispatch import Dispatch
from penstock.server.calls.kept_results import KeptResults
from penstock.server.calls.request_log import OK, RequestLog
from penstock.server.settings import ServerSettings
from penstock.wire.body import BodyLimits
from penstock.wire.call import Call, read_batches
from penstock.wire.calls import CALLS, CLOSE_SCANNER, NEXT_PAGE, OPEN_SCANNER, OPEN_SCANNERS, PULL
from penstock.wire.fault import write_fault
from penstock.wire.frame import HEADER_BYTES_MAX, Frame, FrameKind, decode_frame
from penstock.wire.piece import Assembly
from penstock.wire.reply import Reply

_log = logging.getLogger("penstock")
_OPENING: Final = (OPEN_SCANNER, OPEN_SCANNERS)
ClientGone = Callable[[], bool]
"""Tells whether the client of a call has gone away: then nobody waits for its answer."""

OnPage = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class AskedCall:
    """A request: which principal asks for which call, in which frame, and how large its batches may be."""

    principal: str
    call: Call[Any]
    frame: Frame
    limits: BodyLimits


class Handler:
    """Answers requests from one node. Thread-safe."""

    def __init__(
        self,
        dispatch: Dispatch,
        settings: ServerSettings,
        admission: Admission,
        clock: Clock,
        metrics: Metrics,
        *,
        on_page: OnPage | None = None,
        on_gone: OnPage | None = None,
        private: PrivatePaths | None = None,
        requests: RequestLog | None = None,
    ) -> None:
        self._dispatch = dispatch
        self._requests = requests
        self.private = private or PrivatePaths(None)
        self._on_page = on_page
        self._on_gone = on_gone
        self._settings = settings
        self._admission = admission
        self._clock = clock
        self._kept_results = KeptResults(clock)
        self._limits = BodyLimits(bytes_max=2 * settings.request_bytes_max)
        self._limits_whole = BodyLimits(bytes_max=2 * settings.call_bytes_max)
        self._bytes_in = metrics.counter("penstock_wire_bytes_in")
        self._bytes_out = metrics.counter("penstock_wire_bytes_out")
        self._duration = {
            name: metrics.histogram("penstock_call_milliseconds", call=name) for name in [*CALLS, "malformed"]
        }
        self._failed = {
            code: metrics.counter("penstock_call_errors", code=code) for code in sorted(PenstockError.by_code)
        }

    def answer(self, message: pa.Buffer, stream: Stream, gone: ClientGone, principal: str) -> Reply:
        """Return the reply to a message of a principal, which is an error's where there is one; never raises."""
        self._bytes_in.inc(message.size)
        # Most calls take less than the clock's millisecond.
        start = perf_counter()
        called, call_id = "malformed", -1
        stream.tables = ()
        try:
            self._admission.hold(stream, message.size)
            frame = self._decode(message)
            if frame.kind is FrameKind.END:
                return _check_end(frame, stream)
            limits = self._limits
            if frame.kind is FrameKind.PIECE:
                whole = self._put_together(frame, stream, gone)
                if whole is None:
                    return Reply(FrameKind.REPLY, {"id": frame.header.get("id"), "result": None})
                frame, limits = whole, self._limits_whole
            call, call_id = _call_of(frame)
            called = call.name
            _check_follows(frame, stream)
            asked = AskedCall(principal, call, frame, limits)
            result = self._perform(asked, stream, gone)
            reply = call.encode_reply(call_id, result)
            reply.scanner_id = _scanner_of(result)
            if call in _OPENING and reply.scanner_id is not None:
                stream.opened.append(reply.scanner_id)
        except PenstockError as error:
            reply = self.refuse(error, call_id)
        except Exception:  # noqa: BLE001 - the service edge: a bug is logged here, and answered as one
            _log.exception("call failed on a bug call=%s principal=%s", called, principal)
            reply = self.refuse(InternalError("the server failed on a bug; its log says more", call=called), call_id)
        # Whatever was answered, or came in between, ended the request that was coming in pieces.
        stream.assembly = None
        stream.failed = reply.kind is FrameKind.ERROR
        ms = 1_000 * (perf_counter() - start)
        self._duration[called].observe(ms)
        if self._requests is not None and self._requests.on:
            result = str(reply.header["error"]["code"]) if stream.failed else OK
            self._requests.write(
                principal, called, stream.tables, ms=ms, bytes_in=message.size, bytes_out=reply.bytes, result=result
            )
        return reply

    def end(self, stream: Stream) -> None:
        """Let go of the sessions that were opened on a stream which broke, and that were not called again."""
        if self._on_gone is not None and not stream.ended:
            for scanner_id in stream.opened:
                self._on_gone(scanner_id)

    def begin_send(self, reply: Reply) -> None:
        """Have the page after the one that is sent now read meanwhile."""
        if self._on_page is not None and reply.scanner_id is not None:
            self._on_page(reply.scanner_id)

    def count_sent(self, size: int) -> None:
        """Count the bytes of a reply that was sent."""
        self._bytes_out.inc(size)

    def export(self, ticket: bytes, principal: str) -> Iterator[Page]:
        """Return the pages of a whole scan, opened as the ticket, a request to open a scanner, says.

        Raises:
            PenstockError: the ticket is no such request, or the scan fails.
        """
        frame = self._decode(pa.py_buffer(ticket))
        call, _ = _call_of(frame)
        if call is not OPEN_SCANNER:
            raise InvalidError("a ticket is a request to open a scanner", call=call.name)
        arguments = call.decode_arguments(frame.header.get("args"), [])
        first: Page = self._dispatch.method(principal, call, arguments)()
        return self._follow(first, principal)

    def _follow(self, page: Page, principal: str) -> Iterator[Page]:
        scanner_id = page.scanner_id
        number = 0
        try:
            yield page
            while page.has_more and scanner_id is not None:
                number += 1
                arguments = {"scanner_id": scanner_id, "call_seq_id": number}
                page = self._dispatch.method(principal, NEXT_PAGE, arguments)()
                self._bytes_out.inc(page.bytes)
                yield page
        finally:
            if scanner_id is not None:
                self._dispatch.method(principal, CLOSE_SCANNER, {"scanner_id": scanner_id})()

    def _decode(self, message: pa.Buffer) -> Frame:
        if message.size > self._settings.request_bytes_max:
            most = self._settings.request_bytes_max
            raise LimitError("the request is too large; send it in pieces", bytes=message.size, request_bytes_max=most)
        return decode_frame(message)

    def _put_together(self, piece: Frame, stream: Stream, gone: ClientGone) -> Frame | None:
        """Take a piece of a request; return the request if it was the last."""
        if stream.assembly is None or "total" in piece.header:
            assembly = Assembly(piece)
            check_call_bytes(assembly.total - HEADER_BYTES_MAX, self._settings.call_bytes_max)
            self._admission.reserve_large(stream, assembly.total, gone)
            stream.assembly = assembly
            return None
        if self._admission.closed:
            raise UnavailableError("the server is stopping; try again later")
        return decode_frame(stream.assembly.request) if stream.assembly.add(piece) else None

    def _perform(self, asked: AskedCall, stream: Stream, gone: ClientGone) -> Any:
        frame, call = asked.frame, asked.call
        if len(frame.bodies) > 1:
            raise InvalidError("a request carries one batch at most", bodies=len(frame.bodies))
        arguments = call.decode_arguments(frame.header.get("args"), read_batches(frame, asked.limits))
        if self._requests is not None and self._requests.on:
            stream.tables = call.tables(arguments)
        if call is PULL:
            return self._pull(asked.principal, arguments["call"], gone)
        method = self._dispatch.method(asked.principal, call, arguments)
        request_id = frame.header.get("request")
        if request_id is None or not call.once:
            result = self._call(method, asked.principal)
        else:
            perform = partial(self._call, method, asked.principal)
            result = self._kept_results.once(asked.principal, request_id, call.name, perform)
        written = arguments.get("call")
        if isinstance(written, WriteCall):
            stream.rows += written.batch.num_rows
        return result

    def _call(self, method: Callable[[], Any], principal: str) -> Any:
        self._admission.reserve_slot("calls", self._settings.calls_max, principal)
        try:
            return method()
        finally:
            self._admission.release_slot("calls", principal)

    def _pull(self, principal: str, asked: PullChanges, gone: ClientGone) -> list[ChangePage]:
        # In slices, so that neither a client that went away nor a server that stops is waited for.
        settings = self._settings
        end_ms = self._clock.monotonic_ms() + min(asked.wait_ms, settings.wait_ms_max)
        capped = min(asked.max_bytes, settings.request_bytes_max)
        self._admission.reserve_slot("waits", settings.waits_max, principal)
        try:
            while True:
                left_ms = max(0, end_ms - self._clock.monotonic_ms())
                wait_ms = min(left_ms, settings.wait_slice_ms)
                call = replace(asked, wait_ms=wait_ms, max_bytes=capped)
                pages = self._dispatch.method(principal, PULL, {"call": call})()
                if pages or left_ms <= wait_ms or gone() or self._admission.closed:
                    return pages
        finally:
            self._admission.release_slot("waits", principal)

    def refuse(self, error: PenstockError, call_id: int = -1) -> Reply:
        """Return the reply that says an error."""
        self._failed[error.code].inc()
        return Reply(FrameKind.ERROR, {"id": call_id, "error": write_fault(self.private.hide(error))})


def _scanner_of(result: object) -> str | None:
    page = result[-1] if isinstance(result, list) and result else result
    return page.scanner_id if isinstance(page, Page) and page.has_more else None


def _call_of(frame: Frame) -> tuple[Call[Any], int]:
    name, call_id = frame.header.get("call"), frame.header.get("id")
    if frame.kind is not FrameKind.REQUEST or not isinstance(name, str) or type(call_id) is not int:
        raise InvalidError("the message is no request")
    call = CALLS.get(name)
    if call is None:
        raise InvalidError("there is no such call; upgrade the older end", call=name[:80])
    return call, call_id


def _check_follows(frame: Frame, stream: Stream) -> None:
    follows = frame.header.get("follows", False)
    if type(follows) is not bool:
        raise InvalidError("malformed message: a call follows the one before, or does not")
    if follows and stream.failed:
        raise UnavailableError("the call before it failed, so this one was not done")


def _check_end(frame: Frame, stream: Stream) -> Reply:
    counted = {"calls": stream.calls - 1, "rows": stream.rows}
    if frame.header != counted:
        raise InvalidError("the stream's end names other counts: part of it was lost", **counted)
    stream.ended = True
    return Reply(FrameKind.END, counted)
