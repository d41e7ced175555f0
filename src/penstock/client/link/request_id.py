"""The id of a request that is sent again under the same id until it is answered.

It travels beside a call, not in it: the node's interface knows nothing of it, and an engine in this
process, whose answers cannot be lost, needs none.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_request_id: ContextVar[str | None] = ContextVar("penstock.request_id", default=None)


@contextmanager
def one_request() -> Iterator[None]:
    """Have every try of a call inside be known to the server as the same request."""
    token = _request_id.set(uuid.uuid4().hex)
    try:
        yield
    finally:
        _request_id.reset(token)


def current_request_id() -> str | None:
    """Return the id of the request that is being made, None for one that may be done twice."""
    return _request_id.get()
