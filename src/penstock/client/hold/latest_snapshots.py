"""What `t.latest_snapshots` returns: a request for the newest snapshots of a table."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LatestSnapshots:
    """The newest snapshots of a table, whichever they are when a lease is acquired."""

    table_id: int
    path: str
    database: str
