"""The offset that a bucket's log must reach, as its index, owners and leases know it: callers were told of it."""

from __future__ import annotations

from typing import Final, NamedTuple


class Durable(NamedTuple):
    """Offsets that a log reaches: `always`, and `with_syncs` if every write to it was synced."""

    always: int
    with_syncs: int


NOTHING_DURABLE: Final = Durable(0, 0)
