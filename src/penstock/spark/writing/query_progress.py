"""How a streaming query gets on: how far it is behind its table, and what its sink has done."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pyspark.sql.streaming.query import StreamingQuery

from penstock.model.place.bucket import TableBucket
from penstock.spark.session.lock_wait import waits_for

_undone: Final[Counter[str]] = Counter()


@dataclass(frozen=True, slots=True)
class Progress:
    """What a query's last micro-batch left behind: changes unread by bucket, its number, rows its sink took back.

    While the snapshot is read, rows behind count the offsets of the snapshot and the changes since. Rows taken
    back are known to the driver that runs the sink, and count from its start; through Connect they are 0. While the
    query waits for columns, `waiting` says who holds them; before its first micro-batch `epoch` is -1 then.
    """

    query_id: str
    epoch: int
    rows: int
    rows_behind: Mapping[TableBucket, int] = field(default_factory=dict)
    rows_undone: int = 0
    waiting: str | None = None

    @property
    def rows_behind_total(self) -> int:
        """Return how many changes are unread in all."""
        return sum(self.rows_behind.values())


def progress(query: StreamingQuery) -> Progress | None:
    """Return how a query got on with its last micro-batch; None before the first, unless it waits for columns."""
    last: Any = query.lastProgress
    query_id = str(query.id)
    waiting = waits_for(query_id)
    if last is None:
        return None if waiting is None else Progress(query_id, -1, 0, {}, _undone[query_id], waiting)
    facts = json.loads(last.json) if hasattr(last, "json") else last
    behind: dict[TableBucket, int] = {}
    for source in facts["sources"]:
        behind |= _behind(_offset(source.get("endOffset")), _offset(source.get("latestOffset")))
    # Through Connect only the sources say how many rows they gave.
    rows = sum(int(source["numInputRows"]) for source in facts["sources"])
    return Progress(query_id, int(facts["batchId"]), rows, behind, _undone[query_id], waiting)


def note_undone(query_id: str, rows: int) -> None:
    """Count rows that a query's sink took back, on the driver that runs it."""
    _undone[query_id] += rows


def _offset(given: object) -> Mapping[str, Any]:
    """Return an offset of ours, empty for a source of another kind; Spark shows it parsed or as text."""
    try:
        found = json.loads(given) if isinstance(given, str) else given
    except ValueError:
        return {}
    return found if isinstance(found, dict) and {"table", "next"} <= found.keys() else {}


def _behind(end: Mapping[str, Any], latest: Mapping[str, Any]) -> dict[TableBucket, int]:
    if not end or not latest:
        return {}
    behind = {}
    for name, at in latest["next"].items():
        partition, mark, number = name.rpartition("#")
        bucket = TableBucket(latest["table"], partition if mark else None, int(number))
        behind[bucket] = max(0, at - max(end["next"].get(name, 0), bucket.first_offset(at)))
    return behind
