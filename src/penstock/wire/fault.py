"""Errors on the wire: one table, both ways.

A server says every error as its code, message and facts; the other end raises the same class again.
Whatever is not ours becomes `InternalError` at the server's edge, without a word about our code, and
whatever Flight itself reports (a refused connection, a broken stream) is mapped by `FOREIGN`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa
from pyarrow import flight

from penstock.errors import (
    InternalError,
    LimitError,
    PenstockError,
    PermissionDeniedError,
    TimedOutError,
    UnavailableError,
    UnsupportedError,
)
from penstock.wire.value import read_value, write_value

FAULT_BYTES_MAX: Final = 1 << 20
MESSAGE_LENGTH_MAX: Final = 4_096
# Beyond this the facts travel in the metadata of a refused call, which gRPC limits to 8 KiB.
EXTRA_BYTES_MAX: Final = 4_096

FOREIGN: Final[tuple[tuple[type[BaseException], type[PenstockError], str], ...]] = (
    (flight.FlightTimedOutError, TimedOutError, "the server did not answer in time; it may have done the work"),
    (flight.FlightUnavailableError, UnavailableError, "the connection broke; the call may have been done"),
    (flight.FlightCancelledError, UnavailableError, "the call was cut off; it may have been done"),
    (flight.FlightUnauthenticatedError, PermissionDeniedError, "the server does not know this caller; pass token="),
    (flight.FlightUnauthorizedError, PermissionDeniedError, "the server does not allow this call"),
    (flight.FlightWriteSizeExceededError, LimitError, "the message is too large; send smaller batches"),
    (flight.FlightServerError, UnavailableError, "the server broke the stream off"),
    (flight.FlightInternalError, UnavailableError, "the connection broke; the call may have been done"),
    (pa.ArrowNotImplementedError, UnsupportedError, "whatever answers there is no penstock server"),
    (StopIteration, UnavailableError, "the server ended the stream before it answered"),
    (OSError, UnavailableError, "the connection broke; the call may have been done"),
    (pa.ArrowException, InternalError, "flight reported an error that it should not"),
)
"""What an exception of Flight means to the caller; the first that fits counts."""

HANGS_UP: Final = ("socket closed", "connection reset by peer")
"""How the cause ends if the server that was connected to went away without a word."""

_UNREACHED: Final = ("failed to connect to all addresses", "errors resolving")
_TELLING: Final[tuple[tuple[str, type[PenstockError], str], ...]] = (
    ("failed parsing http/2", UnsupportedError, "whatever answers there is no penstock server; is this its http port?"),
    ("missing selected alpn", UnsupportedError, "whatever answers there is no penstock server; is this its http port?"),
    ("wrong version number", UnsupportedError, "the server does not speak tls; use penstock://"),
    (
        "certificate verify failed",
        PermissionDeniedError,
        "the server's certificate is not trusted; pass its ca by tls=",
    ),
    (
        "connection refused",
        UnavailableError,
        "no server answers; check that it runs, host and port: nothing listens there",
    ),
    ("hostname lookup", UnavailableError, "no server answers; check the host: its name is not known"),
    ("", UnavailableError, "no server answers; check that it runs, host, port and tls"),
)
"""What it means that a connection was not made; the first whose words are in the cause counts."""
_PREAMBLE: Final = re.compile(
    r"Flight returned [a-z ]+, with message: |failed to connect to all addresses; last error: |"
    r"errors resolving |(UNKNOWN|UNAVAILABLE|INTERNAL): "
)


def write_fault(error: PenstockError) -> dict[str, Any]:
    """Return an error as JSON."""
    facts = {name: write_value(value, loose=True) for name, value in error.facts.items()}
    return {"code": error.code, "message": error.message[:MESSAGE_LENGTH_MAX], "facts": facts}


def read_fault(fault: object) -> PenstockError:
    """Return the error that the JSON says; one of a code unknown here keeps its words, as InternalError."""
    if not isinstance(fault, Mapping) or not isinstance(fault.get("facts"), Mapping):
        return InternalError("the server sent an error that cannot be read; upgrade the older end")
    facts = {str(name): read_value(value) for name, value in fault["facts"].items()}
    # A fact must not hide what the error itself is made of.
    facts = {name: value for name, value in facts.items() if name not in ("message", "self") and name.isidentifier()}
    kind = PenstockError.by_code.get(str(fault.get("code")), InternalError)
    return kind(str(fault.get("message")), **facts)


def to_flight(error: PenstockError) -> flight.FlightError:
    """Return what a server raises to refuse a whole stream: the error is in its extra info."""
    fault = write_fault(error)
    extra = json.dumps(fault).encode()
    if len(extra) > EXTRA_BYTES_MAX:
        extra = json.dumps({**fault, "message": error.message[:200], "facts": {}}).encode()
    kind = flight.FlightUnauthenticatedError if isinstance(error, PermissionDeniedError) else flight.FlightServerError
    return kind(f"{error.code}: {error.message[:200]}", extra_info=extra)


def from_flight(error: BaseException) -> PenstockError:
    """Return the error of ours that an exception of Flight stands for."""
    extra = getattr(error, "extra_info", None)
    if extra and len(extra) <= FAULT_BYTES_MAX:
        try:
            return read_fault(json.loads(extra))
        except (ValueError, RecursionError, PenstockError):
            return InternalError("the server sent an error that cannot be read; upgrade the older end")
    cause = _PREAMBLE.sub("", str(error).partition("\n")[0].partition(". gRPC")[0])[:300]
    if any(words in str(error) for words in _UNREACHED):
        return _unreached(cause)
    for foreign, kind, message in FOREIGN:
        if isinstance(error, foreign):
            return kind(message, cause=cause)
    return InternalError("an unexpected error at the connection", cause=type(error).__name__)


def _unreached(cause: str) -> PenstockError:
    said = cause.lower().replace("_", " ")
    kind, message = next((kind, message) for words, kind, message in _TELLING if words in said)
    error = kind(message, cause=cause)
    error.reached = False
    return error
