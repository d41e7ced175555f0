"""Answers to calls that must not be done twice: whoever asks again, because the answer got lost, gets it again.

Kept in memory, the newest of each caller, for a while: a client asks again within half a minute. A server that is
started anew knows none; the client then says that the call may have been done.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from itertools import islice
from typing import Any, Final

from penstock.errors import InvalidError, PenstockError, UnavailableError
from penstock.model.node.principal import current
from penstock.runtime.clock import Clock

ANSWERS_MAX: Final = 4_096
KEPT_MS: Final = 600_000
WAIT_SECONDS_MAX: Final = 30.0
REQUEST_ID_LENGTH_MAX: Final = 64


class _Answer:
    """What came of a request, once it is `done`; neither result nor error if it may be tried again."""

    __slots__ = ("begun_ms", "call", "done", "error", "result")

    def __init__(self, call: str, begun_ms: int) -> None:
        self.call = call
        self.begun_ms = begun_ms
        self.done = threading.Event()
        self.error: PenstockError | None = None
        self.result: tuple[Any] | None = None


class Answers:
    """The answers of one server, by who asked and the request's id. Thread-safe."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        # Apart for each caller: none of them makes the answers of another go.
        self._callers: dict[str, OrderedDict[str, _Answer]] = {}

    def once(self, request_id: object, call: str, perform: Callable[[], Any]) -> Any:
        """Return what `perform` returns, or what it returned when the same request came before.

        Raises:
            InvalidError: the id is none, or that of another call.
            UnavailableError: the same request is still being done.
            PenstockError: as `perform` raises it, or raised it before.
        """
        if type(request_id) is not str or not 0 < len(request_id) <= REQUEST_ID_LENGTH_MAX:
            raise InvalidError("malformed message: a request has an id of a few letters")
        who = current()
        while True:
            answer, mine = self._find(who, request_id, call)
            if mine:
                return self._perform(who, request_id, answer, perform)
            if answer.call != call:
                raise InvalidError("the request's id is that of another call", call=call)
            if not answer.done.wait(WAIT_SECONDS_MAX):
                raise UnavailableError("the same request is still being done; ask again", call=call)
            if answer.result is not None:
                return answer.result[0]
            if answer.error is not None:
                raise answer.error

    def _find(self, who: str, request_id: str, call: str) -> tuple[_Answer, bool]:
        now_ms = self._clock.monotonic_ms()
        with self._lock:
            answers = self._callers.setdefault(who, OrderedDict())
            known = answers.get(request_id)
            if known is not None:
                return known, False
            # In the order in which they were begun: the oldest stand first.
            for old, answer in list(islice(answers.items(), max(0, len(answers) - ANSWERS_MAX + 1))):
                if answer.done.is_set():
                    del answers[old]
            while answers:
                old, answer = next(iter(answers.items()))
                if now_ms - answer.begun_ms < KEPT_MS or not answer.done.is_set():
                    break
                del answers[old]
            answers[request_id] = found = _Answer(call, now_ms)
            return found, True

    def _perform(self, who: str, request_id: str, answer: _Answer, perform: Callable[[], Any]) -> Any:
        try:
            answer.result = (perform(),)
            return answer.result[0]
        except PenstockError as error:
            # What may succeed in a moment is done then, by the same request.
            answer.error = None if error.retriable else error
            raise
        finally:
            if answer.result is None and answer.error is None:
                with self._lock:
                    del self._callers[who][request_id]
            answer.done.set()
