"""A query that writes, as its starter holds it: Spark's own, which tells first what we have to say of it."""

from __future__ import annotations

from typing import Any

from pyspark.errors import StreamingQueryException
from pyspark.sql.streaming.query import StreamingQuery

from penstock.spark.session.lock_wait import waits_for
from penstock.spark.session.refusal import line_in


class WriteQuery(StreamingQuery):
    """A streaming query whose errors begin with our line, and whose status says what it waits for."""

    def __init__(self, query: StreamingQuery) -> None:
        super().__init__(query._jsq)

    @property
    def status(self) -> dict[str, Any]:
        """Return the query's status; a lock that is waited for is its message."""
        found = dict(super().status)
        waiting = waits_for(str(self.id))
        return found if waiting is None else found | {"message": waiting}

    def exception(self) -> StreamingQueryException | None:
        """Return what ended the query, our own line first; None if it runs, or ended well."""
        found = super().exception()
        return None if found is None else _told(found)

    def awaitTermination(self, timeout: int | None = None) -> bool | None:  # noqa: N802 - Spark's name
        """Wait until the query ends.

        Raises:
            StreamingQueryException: it failed; our own line stands first.
        """
        try:
            return super().awaitTermination(timeout)
        except StreamingQueryException as error:
            raise _told(error) from None

    def processAllAvailable(self) -> None:  # noqa: N802 - Spark's name
        """Wait until all that is there now is processed.

        Raises:
            StreamingQueryException: the query failed; our own line stands first.
        """
        try:
            super().processAllAvailable()
        except StreamingQueryException as error:
            raise _told(error) from None


def _told(error: StreamingQueryException) -> StreamingQueryException:
    said: str = getattr(error, "_desc", "")
    line = line_in(said)
    if line is not None and not said.startswith(line):
        error._desc = f"{line}\n\n{said}"  # type: ignore[attr-defined]
    return error
