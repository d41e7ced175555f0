"""Debezium's change events into a table: snapshot rows, inserts, updates, deletes, tombstones, truncations.

    python examples/debezium.py [directory]

An event is a key and a value of a Kafka record, as JSON with or without a schema. Kafka keeps the order of each
key, and may deliver events again: the table then passes through old states again and ends at the newest.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import penstock

Event = tuple[bytes, bytes | None]

UNAVAILABLE = "__debezium_unavailable_value"
"""What PostgreSQL's connector sends for a large value that an update did not change."""


def payload_of(text: bytes) -> dict[str, Any]:
    """Return what is in an event's key or value, without the schema that may come along."""
    said = json.loads(text)
    return said["payload"] if said.keys() == {"schema", "payload"} else said


def source_place(envelope: dict[str, Any]) -> tuple[Any, ...]:
    """Return where an event stands in the log of its source: PostgreSQL's, MySQL's, or only its time."""
    source = envelope.get("source") or {}
    if source.get("lsn") is not None:
        return (int(source["lsn"]),)
    if source.get("pos") is not None:
        return (source.get("file") or "", int(source["pos"]), int(source.get("row") or 0))
    return (int(source.get("ts_ms") or envelope.get("ts_ms") or 0),)


def change_of(key: bytes, envelope: dict[str, Any]) -> dict[str, Any]:
    """Return the row that `apply_changes` takes for an event."""
    operation = envelope["op"]
    if UNAVAILABLE in (envelope.get("after") or {}).values():
        raise ValueError("a value is missing in a change event; set REPLICA IDENTITY FULL at the source")
    if operation in ("c", "r"):
        return {**envelope["after"], "_change_type": "+I"}
    if operation == "u":
        return {**envelope["after"], "_change_type": "+U"}
    if operation == "d":
        # The key is in the record's key, whatever the source keeps of the row.
        return {**(envelope.get("before") or {}), **payload_of(key), "_change_type": "-D"}
    raise ValueError(f"unknown operation {operation!r} in a change event")


def apply_events(table: penstock.Table, events: Iterable[Event]) -> int:
    """Apply a batch of events; return how many changed rows it had."""
    applied = 0
    changes: list[tuple[tuple[Any, ...], dict[str, Any]]] = []

    def write() -> None:
        # Transactions of several partitions arrive interleaved; of one key, the source's order counts.
        changes.sort(key=lambda change: change[0])
        if changes:
            names = table.info.schema.names
            rows = [{**dict.fromkeys(names), **row} for _, row in changes]
            table.apply_changes(rows)
            changes.clear()

    for key, value in events:
        if value is None:
            continue  # a tombstone is for Kafka's compaction; the delete came before it
        envelope = payload_of(value)
        if envelope["op"] == "m":
            continue  # a message in the source's log, about no row
        if envelope["op"] == "t":
            write()
            table.truncate()
            continue
        changes.append((source_place(envelope), change_of(key, envelope)))
        applied += 1
    write()
    return applied


def event(operation: str, id: int, city: str | None, lsn: int, *, schema: bool = False) -> Event:
    """Return an event as Debezium's connector for PostgreSQL makes it."""
    row = {"id": id, "city": city}
    key: dict[str, Any] = {"id": id}
    value: dict[str, Any] = {
        "before": {"id": id} if operation == "d" else None,
        "after": None if operation == "d" else row,
        "source": {"connector": "postgresql", "lsn": lsn, "ts_ms": 1_700_000_000_000 + lsn},
        "op": operation,
        "ts_ms": 1_700_000_000_500 + lsn,
    }
    if schema:
        key, value = {"schema": {}, "payload": key}, {"schema": {}, "payload": value}
    return json.dumps(key).encode(), json.dumps(value).encode()


def main(directory: str) -> None:
    events: list[Event] = [
        *(event("r", id, "Ulm", 1) for id in range(3)),
        event("c", 3, "Bonn", 2, schema=True),
        event("u", 0, "Kiel", 5),
        event("u", 0, "Jena", 4),
        event("d", 1, None, 6),
        (b'{"id": 1}', None),
    ]
    with penstock.connect(Path(directory) / "data") as conn:
        people = conn.create_table("people", "id BIGINT, city STRING, PRIMARY KEY (id)")
        apply_events(people, events)
        apply_events(people, events)  # delivered again
        rows = people.scan().to_arrow().sort_by("id").to_pylist()
    print("the table has", ", ".join(f"{row['id']}: {row['city']}" for row in rows))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(sys.argv[1])
    else:
        with tempfile.TemporaryDirectory() as directory:
            main(directory)
