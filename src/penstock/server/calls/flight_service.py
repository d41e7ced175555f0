"""The node behind Arrow Flight: streams of calls, and exports.

A client opens an exchange whose descriptor is `CALL_STREAM`, sends a frame per message and gets a
frame per message, in order; it may send ahead. It ends the stream with a frame that counts its calls
and rows; a stream that stops without one is torn, and what was not acknowledged on it may not have
happened. A `do_get` is a whole scan in one stream, for clients that speak Flight only.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa
from pyarrow import flight

from penstock.errors import ConflictError, InternalError, InvalidError, LimitError, PenstockError, UnavailableError
from penstock.model.node.calls import Page
from penstock.runtime.metrics import Metrics
from penstock.server.access.authentication import (
    AUTHENTICATION,
    OFFERED_METHODS,
    Authentication,
    OfferedMethods,
    principal_of,
)
from penstock.server.calls.admission import Admission, Stream
from penstock.server.calls.handler import ClientGone, Handler
from penstock.server.calls.reply_writer import ReplyWriter
from penstock.server.settings import ServerSettings
from penstock.wire.fault import to_flight
from penstock.wire.frame import CALL_STREAM
from penstock.wire.reply import Reply

TICKET_BYTES_MAX: Final = 1 << 20
_log = logging.getLogger("penstock")


class FlightServer(flight.FlightServerBase):  # type: ignore[misc]
    """Serves a handler's node. Starts to listen when it is made."""

    def __init__(
        self,
        location: str,
        handler: Handler,
        *,
        admission: Admission,
        settings: ServerSettings,
        metrics: Metrics,
        authentication: Authentication | None = None,
        database: str,
        **tls: Any,
    ) -> None:
        self._database = database
        self._handler = handler
        self._admission = admission
        self._settings = settings
        self._certified = bool(tls.get("verify_client"))
        self._opened = metrics.counter("penstock_streams_opened")
        self._torn = metrics.counter("penstock_streams_torn")
        # Last: calls may come in from here on.
        asked = {} if authentication is None else {AUTHENTICATION: authentication}
        super().__init__(location, middleware={OFFERED_METHODS: OfferedMethods(), **asked}, **tls)

    def do_exchange(
        self,
        context: flight.ServerCallContext,
        descriptor: flight.FlightDescriptor,
        reader: flight.MetadataRecordBatchReader,
        writer: flight.MetadataRecordBatchWriter,
    ) -> None:
        """Answer the calls of one stream until it ends."""
        try:
            self._check_meant(descriptor.command)
            principal = principal_of(context, certified=self._certified)
            with self._admission.stream(context.peer(), principal) as stream:
                self._opened.inc()
                try:
                    self._converse(context, stream, reader, writer)
                finally:
                    self._handler.end(stream)
        except PenstockError as error:
            raise to_flight(self._handler.private.hide(error)) from None
        except Exception:  # noqa: BLE001 - the service edge: no traceback of ours goes to a client
            _log.exception("stream failed on a bug peer=%s", context.peer())
            raise to_flight(InternalError("the server failed on a bug; its log says more")) from None

    def _check_meant(self, command: bytes) -> None:
        name, _, database = command.partition(b"/")
        if name != CALL_STREAM:
            raise InvalidError("the server answers streams of calls only")
        if database and database != self._database.encode():
            raise ConflictError(
                "the server at this address serves another database now; connect again, and open tables and scans anew",
                database=self._database,
                expected=database.decode(errors="replace"),
            )

    def do_get(self, context: flight.ServerCallContext, ticket: flight.Ticket) -> flight.FlightDataStream:
        """Stream a whole scan."""
        try:
            if len(ticket.ticket) > TICKET_BYTES_MAX:
                raise InvalidError("the ticket is too long", bytes=len(ticket.ticket), most=TICKET_BYTES_MAX)
            pages = self._export(context.peer(), ticket.ticket, principal_of(context, certified=self._certified))
            first = next(pages)
        except PenstockError as error:
            raise to_flight(self._handler.private.hide(error)) from None
        except Exception:  # noqa: BLE001 - the service edge: no traceback of ours goes to a client
            _log.exception("export failed on a bug peer=%s", context.peer())
            raise to_flight(InternalError("the server failed on a bug; its log says more")) from None
        return flight.GeneratorStream(first.batches[0].schema, self._batches(first, pages))

    def _converse(
        self,
        context: flight.ServerCallContext,
        stream: Stream,
        reader: flight.MetadataRecordBatchReader,
        writer: flight.MetadataRecordBatchWriter,
    ) -> None:
        admission, replies = self._admission, ReplyWriter(writer, self._settings.reply_bytes_max)
        while (message := _next_message(reader)) is not None:
            admission.begin_call(stream)
            try:
                # Asked again at every call: a token may be taken out of the file while the stream is open.
                principal = principal_of(context, certified=self._certified)
                reply = self._handler.answer(message, stream, context.is_cancelled, principal)
                del message
                self._send(reply, stream, replies, context.is_cancelled)
                del reply
            except flight.FlightError:
                break  # the client went away
            finally:
                admission.end_call(stream)
        if not stream.ended and stream.calls:
            self._torn.inc()

    def _send(self, reply: Reply, stream: Stream, replies: ReplyWriter, gone: ClientGone) -> None:
        try:
            # Of replies as large as no request at once, one connection alone could never hold some.
            if reply.bytes > self._settings.peer_memory_bytes_max // 4:
                self._admission.reserve_large(stream, reply.bytes, gone)
            else:
                self._admission.hold(stream, reply.bytes)
            self._admission.begin_send(stream)
            self._handler.begin_send(reply)
            sent = replies.send(reply)
        except (UnavailableError, LimitError) as error:
            self._admission.begin_send(stream)
            sent = replies.send(self._handler.refuse(error))
        self._handler.count_sent(sent)

    def _export(self, peer: str, ticket: bytes, principal: str) -> Iterator[Page]:
        admission = self._admission
        admission.reserve_slot("exports", self._settings.exports_max, principal)
        try:
            with admission.stream(peer, principal) as stream:
                stream.idle_since_ms = None
                for page in self._handler.export(ticket, principal):
                    admission.begin_send(stream)
                    yield page
                    admission.end_send(stream)
        finally:
            admission.release_slot("exports", principal)

    def _batches(self, first: Page, pages: Iterator[Page]) -> Iterator[pa.RecordBatch]:
        try:
            yield from first.batches
            for page in pages:
                yield from page.batches
        except PenstockError as error:
            raise to_flight(self._handler.private.hide(error)) from None


def _next_message(reader: flight.MetadataRecordBatchReader) -> pa.Buffer | None:
    try:
        chunk = reader.read_chunk()
    except StopIteration:
        return None
    except flight.FlightError:
        return None
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise InvalidError("the message is no frame", cause=type(error).__name__) from error
    if chunk.app_metadata is None or chunk.data is not None:
        raise InvalidError("the message is no frame: frames travel as metadata, without data")
    return chunk.app_metadata
