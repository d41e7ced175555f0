"""The requests that a server answered: a line for each, and a warning for those that took long.

A line says who called what on which table, how long it took, how many bytes came and went, and how it ended. It
says no value that a caller sent, and no message of an error: keys, filters and tokens are in neither.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from typing import Any, Final

from penstock.errors import PenstockError
from penstock.model.node.node import SharedNode
from penstock.model.node.principal import UNNAMED
from penstock.wire.call_tables import TableName

LOGGER: Final = "penstock.requests"
OK: Final = "ok"
# What waits by design is not slow: a call for changes that are still to come.
_WAITS: Final = ("pull",)
_NAMES_MAX: Final = 10_000
_PRINCIPAL: Final = "local"
_log = logging.getLogger(LOGGER)


class RequestLog:
    """Writes about requests. Thread-safe: a table's name is put into the map whole, and never changes."""

    def __init__(self, node: SharedNode, *, access_log: bool = False, slow_call_ms: int | None = None) -> None:
        assert _PRINCIPAL in UNNAMED, "names are looked up as nobody who calls"
        self._node = node
        self._access_log = access_log
        self._slow_call_ms = slow_call_ms
        self._names: dict[int, str] = {}

    @property
    def on(self) -> bool:
        """Tell whether a request may have to be written about; asked for each, so that it costs nothing when off."""
        return self._access_log or self._slow_call_ms is not None or _log.isEnabledFor(logging.DEBUG)

    def write(
        self,
        principal: str,
        call: str,
        tables: Sequence[TableName],
        *,
        ms: float,
        bytes_in: int,
        bytes_out: int,
        result: str,
    ) -> None:
        """Write about a request that was answered."""
        slow = self._slow_call_ms is not None and ms >= self._slow_call_ms and call not in _WAITS
        level = logging.WARNING if slow else logging.INFO if self._access_log else logging.DEBUG
        if not _log.isEnabledFor(level) or not (slow or self._access_log or level == logging.DEBUG):
            return
        facts: dict[str, Any] = {
            "principal": principal,
            "call": call,
            "tables": ",".join(map(self._name, tables)),
            "ms": round(ms, 3),
            "bytes_in": bytes_in,
            "bytes_out": bytes_out,
            "result": result,
        }
        said = " ".join(f"{name}={_word(value)}" for name, value in facts.items())
        _log.log(level, "%s %s", "slow call" if slow else "call", said, extra={"facts": facts})

    def _name(self, table: TableName) -> str:
        if isinstance(table, str):
            return table
        known = self._names.get(table)
        if known is not None:
            return known
        try:
            path = self._node.acting_as(_PRINCIPAL).catalog.table_by_id(table).path
        except PenstockError:
            # Dropped meanwhile, or never there.
            return f"#{table}"
        if len(self._names) >= _NAMES_MAX:
            self._names.clear()
        self._names[table] = path
        return path


def _word(value: object) -> str:
    """Return a value as one word of a line, whatever a caller put into it."""
    text = str(value)
    return text if text.isprintable() and not any(c in text for c in ' "=') and text else json.dumps(text)
