"""Small lookups of many threads, sent together.

What a lookup of one key costs over the wire is the call, not the key. So one call is under way at a
time; threads that come meanwhile wait for its end, and all that wait then go in one call. One of them
leads: it asks for the keys of all, and hands out the rows. A thread that is alone never waits.

- A call that ends lets the waiting threads go, or frees its place: no thread waits while a place is free.
- A thread that gives up, or whose shared call fails, leaves no other behind: a thread that was not answered
  asks for itself. Only an error that would come again, the server being away, is told to all.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final

import pyarrow as pa

from penstock.errors import PenstockError
from penstock.model.node.calls import LookupCall, LookupResult

CALLS_MAX: Final = 1
KEYS_EACH_MAX: Final = 16
GROUP_MAX: Final = 64

Ask = Callable[[LookupCall], LookupResult]


@dataclass(eq=False, slots=True)
class _WaitingLookup:
    """The lookup of one thread. The leader is given the `others` once it may go; these get an answer or an error."""

    call: LookupCall
    ready: threading.Event = field(default_factory=threading.Event)
    others: list[_WaitingLookup] | None = None
    answer: LookupResult | None = None
    failure: PenstockError | None = None


class SharedLookups:
    """The lookups of one table, by one way of asking. Thread-safe."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._lock = threading.Lock()
        self._under_way = 0
        self._waiting: list[_WaitingLookup] = []

    @property
    def waiting(self) -> int:
        """Return how many threads wait for a call to end."""
        return len(self._waiting)

    def lookup(self, call: LookupCall) -> LookupResult:
        """Return the rows of the keys, asked for alone or together with others'.

        Raises:
            PenstockError: as the node answered.
        """
        if call.keys.num_rows > KEYS_EACH_MAX:
            return self._ask(call)
        with self._lock:
            turn = None if self._under_way < CALLS_MAX else _WaitingLookup(call)
            if turn is None:
                self._under_way += 1
            else:
                self._waiting.append(turn)
        if turn is not None:
            return self._wait(turn)
        try:
            return self._ask(call)
        finally:
            self._let_go()

    def _let_go(self) -> None:
        """Let the threads that wait for the same columns go together; if none waits, the place is free."""
        with self._lock:
            if not self._waiting:
                self._under_way -= 1
                return
            first = self._waiting[0].call
            leader, *others = [turn for turn in self._waiting if _is_alike(turn.call, first)][:GROUP_MAX]
            self._waiting = [turn for turn in self._waiting if turn is not leader and turn not in others]
            leader.others = others
        leader.ready.set()

    def _wait(self, turn: _WaitingLookup) -> LookupResult:
        try:
            turn.ready.wait()
            if turn.others is not None:
                return self._lead(turn, turn.others)
            if turn.failure is not None:
                raise type(turn.failure)(turn.failure.message, **turn.failure.facts) from turn.failure
            return self._ask(turn.call) if turn.answer is None else turn.answer
        finally:
            self._leave(turn)

    def _lead(self, turn: _WaitingLookup, others: list[_WaitingLookup]) -> LookupResult:
        if not others:
            return self._ask(turn.call)
        keys = pa.concat_batches([turn.call.keys, *(other.call.keys for other in others)])
        try:
            found = self._ask(replace(turn.call, keys=keys))
        except PenstockError as error:
            if not error.retriable:
                # The keys of one thread may be at fault: each asks for its own.
                return self._ask(turn.call)
            for other in others:
                other.failure = error
            raise
        start = turn.call.keys.num_rows
        for other in others:
            count = other.call.keys.num_rows
            other.answer = replace(found, batch=found.batch.slice(start, count))
            other.ready.set()
            start += count
        return replace(found, batch=found.batch.slice(0, turn.call.keys.num_rows))

    def _leave(self, turn: _WaitingLookup) -> None:
        with self._lock:
            if turn in self._waiting:
                # Interrupted before it was its turn.
                self._waiting.remove(turn)
            others = turn.others
        if others is not None:
            for other in others:
                other.ready.set()
            self._let_go()


def _is_alike(call: LookupCall, other: LookupCall) -> bool:
    """Tell whether two lookups differ in their keys alone."""
    return (call.schema_id, call.columns, call.offsets) == (other.schema_id, other.columns, other.offsets)
