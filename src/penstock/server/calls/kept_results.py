"""Kept results of calls that must not be done twice: a client whose reply was lost asks again, and gets the first.

They are kept in memory, the newest of each caller, for ten minutes: a client asks again within half a minute. A
server that is started anew has none; the client then says that the call may have been done.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from itertools import islice
from typing import Any, Final

from penstock.errors import InvalidError, PenstockError, UnavailableError
from penstock.runtime.clock import Clock

RESULTS_MAX: Final = 4_096
KEPT_MS: Final = 600_000
WAIT_SECONDS_MAX: Final = 30.0
REQUEST_ID_LENGTH_MAX: Final = 64


class _KeptResult:
    """The result or error of a request, once it is `done`; neither of them if the request may be done again."""

    __slots__ = ("begun_ms", "call", "done", "error", "result")

    def __init__(self, call: str, begun_ms: int) -> None:
        self.call = call
        self.begun_ms = begun_ms
        self.done = threading.Event()
        self.error: PenstockError | None = None
        self.result: tuple[Any] | None = None


class KeptResults:
    """The kept results of one server, by caller and request id. Thread-safe by one lock."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        # Apart for each caller: one with many requests does not push out the results of another.
        self._callers: dict[str, OrderedDict[str, _KeptResult]] = {}

    def once(self, caller: str, request_id: object, call: str, perform: Callable[[], Any]) -> Any:
        """Return what `perform` returns, or what it returned when the same request of the caller came before.

        Raises:
            InvalidError: the id is none, or that of another call.
            UnavailableError: the same request is still being done.
            PenstockError: as `perform` raises it, or raised it before.
        """
        if type(request_id) is not str or not 0 < len(request_id) <= REQUEST_ID_LENGTH_MAX:
            raise InvalidError("malformed message: a request has an id of a few letters")
        while True:
            kept, mine = self._find(caller, request_id, call)
            if mine:
                return self._perform(caller, request_id, kept, perform)
            if kept.call != call:
                raise InvalidError("the request's id is that of another call", call=call)
            if not kept.done.wait(WAIT_SECONDS_MAX):
                raise UnavailableError("the same request is still being done; ask again", call=call)
            if kept.result is not None:
                return kept.result[0]
            if kept.error is not None:
                raise kept.error

    def _find(self, caller: str, request_id: str, call: str) -> tuple[_KeptResult, bool]:
        now_ms = self._clock.monotonic_ms()
        with self._lock:
            results = self._callers.setdefault(caller, OrderedDict())
            known = results.get(request_id)
            if known is not None:
                return known, False
            # In the order in which they were begun: the oldest stand first.
            for old, kept in list(islice(results.items(), max(0, len(results) - RESULTS_MAX + 1))):
                if kept.done.is_set():
                    del results[old]
            while results:
                old, kept = next(iter(results.items()))
                if now_ms - kept.begun_ms < KEPT_MS or not kept.done.is_set():
                    break
                del results[old]
            results[request_id] = found = _KeptResult(call, now_ms)
            return found, True

    def _perform(self, caller: str, request_id: str, kept: _KeptResult, perform: Callable[[], Any]) -> Any:
        try:
            kept.result = (perform(),)
            return kept.result[0]
        except PenstockError as error:
            # What may succeed in a moment is done then, by the same request.
            kept.error = None if error.retriable else error
            raise
        finally:
            if kept.result is None and kept.error is None:
                with self._lock:
                    del self._callers[caller][request_id]
            kept.done.set()
