"""Rows of a server by their keys."""

from __future__ import annotations

from dataclasses import replace

from penstock.client.remote.calls import RemoteCalls
from penstock.model.node.calls import (
    LookupCall,
    LookupResult,
)
from penstock.wire import calls as wire
from penstock.wire.plain import plain_batch


class RemoteLookup:
    """Rows of a server by their keys. Implements `penstock.model.node.facets.lookup.LookupFacet`."""

    def __init__(self, calls: RemoteCalls) -> None:
        self._calls = calls

    def rows(self, call: LookupCall) -> LookupResult:
        """Return one row for each key in the order asked, with `_found`."""
        affinity = ("lookup", call.table_id, call.schema_id, call.columns, call.offsets)
        return self._calls.ask(wire.LOOKUP, affinity=affinity, call=_plain_keys(call))

    def prefix(self, call: LookupCall) -> LookupResult:
        """Return the live rows whose first key columns equal the one row of `keys`."""
        return self._calls.ask(
            wire.PREFIX_LOOKUP, affinity=(call.table_id, call.schema_id, call.columns), call=_plain_keys(call)
        )


def _plain_keys(call: LookupCall) -> LookupCall:
    keys = plain_batch(call.keys)
    return call if keys is call.keys else replace(call, keys=keys)
