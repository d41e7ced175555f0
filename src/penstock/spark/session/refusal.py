"""Errors on their way through Spark: to the driver at the first try, and with our own line in front.

Spark tries a failed task again, whatever it failed of, and shows what a task raised at the end of its trace. So an
error that every try would meet is no failure of the task but its result, and the driver raises it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import wraps
from typing import Final, ParamSpec, TypeVar

from penstock.errors import (
    DatabaseNotFoundError,
    InvalidError,
    PenstockError,
    PermissionDeniedError,
    TableNotFoundError,
)

P = ParamSpec("P")
T = TypeVar("T")

REFUSALS: Final = (InvalidError, PermissionDeniedError, TableNotFoundError, DatabaseNotFoundError)
"""What the next try would meet again. Not conflicts: of two tries of a task one fences the other."""

_LINE: Final = re.compile(r"^.*?(penstock\.errors\.\w+: .*)$", re.MULTILINE)


def line_in(message: str) -> str | None:
    """Return the line of a message in which an error of ours stands; None without one."""
    found = _LINE.search(message)
    return None if found is None else found[1]


def tells_first(function: Callable[P, T]) -> Callable[P, T]:
    """Let a trace of what a function raises begin with the error's own line: a trace begins with the cause."""

    @wraps(function)
    def told(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return function(*args, **kwargs)
        except PenstockError as error:
            raise error from type(error)(error.message, **error.facts)

    return told
