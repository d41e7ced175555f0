"""The calls that were refused last because the rows that they met were not those that they expect."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, Final

from penstock.errors import ConflictError
from penstock.model.place.facts import NO_ID

CALLS_KEPT: Final = 10_000
VALUES_KEPT: Final = 1_000_000
"""How many calls are remembered, and how many values their errors name altogether."""


class RefusedCalls:
    """A call that comes again after it was refused is told the same. Committer only.

    A call that a client sent twice may be refused at the second, and arrive late at the first. By then the caller has
    been told that nothing was written, so nothing may be.
    """

    def __init__(self) -> None:
        self._errors: OrderedDict[bytes, tuple[int, ConflictError]] = OrderedDict()
        self._values = 0

    def check(self, writer_id: bytes, sequence: int) -> None:
        """Refuse a call again.

        Raises:
            ConflictError: it was refused before.
        """
        refused, error = self._errors.get(writer_id, (-1, None))
        if error is not None and refused == sequence:
            raise ConflictError(error.message, **error.facts)

    def add(self, writer_id: bytes, sequence: int, error: ConflictError) -> None:
        """Remember a call that was refused."""
        if writer_id == NO_ID:
            return
        _, before = self._errors.pop(writer_id, (-1, None))
        self._errors[writer_id] = sequence, error
        self._values += _values(error) - (0 if before is None else _values(before))
        while len(self._errors) > 1 and (len(self._errors) > CALLS_KEPT or self._values > VALUES_KEPT):
            _, (_, oldest) = self._errors.popitem(last=False)
            self._values -= _values(oldest)


def _values(error: ConflictError) -> int:
    keys: Sequence[Any] = error.facts["keys"]
    return 1 + len(keys) * len(keys[0])
