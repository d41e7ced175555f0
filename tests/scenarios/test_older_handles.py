"""Handles that were opened before a column was added: what they write leaves the column as it is."""

from __future__ import annotations

import uuid

import penstock


def test_changes_with_deletes_leave_a_column_that_their_handle_does_not_know(connection: penstock.Connection) -> None:
    older = connection.create_table("shop.t", "id BIGINT, v STRING, PRIMARY KEY (id)", buckets=2)
    newer = older.add_column("note", "STRING")
    newer.upsert([{"id": number, "v": "a", "note": "kept"} for number in range(3)])

    older.apply_changes(
        [
            {"id": 0, "v": "b", "_change_type": "+U"},
            {"id": 1, "v": "a", "_change_type": "-D"},
            {"id": 2, "v": "a", "_change_type": "-D"},
            {"id": 2, "v": "c", "_change_type": "+I"},
        ]
    )

    assert newer.get(id=0) == {"id": 0, "v": "b", "note": "kept"}
    assert newer.get(id=1) is None
    assert newer.get(id=2) == {"id": 2, "v": "c", "note": None}


def test_version_that_wins_leaves_a_column_that_its_handle_does_not_know(connection: penstock.Connection) -> None:
    older = connection.create_table(
        "shop.t", "id BIGINT, n INT, PRIMARY KEY (id)", merge_engine="versioned", version_column="n"
    )
    newer = older.add_column("note", "STRING")
    newer.upsert([{"id": number, "n": 5, "note": "kept"} for number in range(2)])

    older.upsert([{"id": 0, "n": 6}, {"id": 0, "n": 7}, {"id": 1, "n": 4}, {"id": 2, "n": 1}])

    assert newer.get(id=0) == {"id": 0, "n": 7, "note": "kept"}
    assert newer.get(id=1) == {"id": 1, "n": 5, "note": "kept"}
    assert newer.get(id=2) == {"id": 2, "n": 1, "note": None}


def test_log_table_takes_rows_of_a_handle_that_does_not_know_a_column(connection: penstock.Connection) -> None:
    older = connection.create_table("shop.log", "id BIGINT, v STRING", buckets=2)
    newer = older.add_column("note", "STRING")
    attempt = uuid.uuid4()

    older.append([{"id": 1, "v": "a"}])
    older.apply_changes([{"id": 2, "v": "b", "_change_type": "+A"}])
    with older.writer() as writer:
        writer.append([{"id": 3, "v": "c"}])
    with older.acquire_owner("job") as owner:
        owner.begin(1)
        older.stage([{"id": 4, "v": "d"}], owner=owner, attempt=attempt)
        owner.commit(1, attempts={attempt: 1})
    newer.append([{"id": 5, "v": "e", "note": "new"}])

    rows = sorted((row["id"], row["v"], row["note"]) for row in newer.scan().to_arrow().to_pylist())
    assert rows == [(1, "a", None), (2, "b", None), (3, "c", None), (4, "d", None), (5, "e", "new")]
