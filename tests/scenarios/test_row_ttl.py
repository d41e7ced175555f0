"""Rows that go some time after their last write, as users see it; the time is real, and short."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import penstock
from penstock.errors import InvalidError

Connect = Callable[..., penstock.Connection]
DDL = "id BIGINT, n BIGINT, PRIMARY KEY (id)"


def deleted(table: penstock.Table, count: int) -> list[int]:
    """Return the keys that a follower sees go, once there are so many."""
    found: list[int] = []
    with table.changes(follow=True, timeout="30s") as changes:
        for batch in changes:
            found += [row["id"] for row in batch.to_pylist() if row["_change_type"] == "-D"]
            if len(found) >= count:
                break
    return sorted(found)


def test_rows_go_after_their_time_and_the_changelog_says_so(connection: penstock.Connection) -> None:
    table = connection.create_table("shop.sessions", DDL, buckets=2, properties={"row.ttl": "1s"})
    table.upsert([{"id": number, "n": 0} for number in range(20)])

    assert deleted(table, 20) == list(range(20))
    assert table.scan().to_arrow().num_rows == 0
    assert table.stats().background["rows_expired"] > 0
    assert table.info.properties == {"row.ttl": "1s"}


def test_rows_go_also_when_the_node_was_off_meanwhile(tmp_path: Path) -> None:
    ddl = "day STRING, id BIGINT, n BIGINT SUM, PRIMARY KEY (day, id)"
    with penstock.connect(tmp_path / "data") as connection:
        table = connection.create_table("t", ddl, partitioned_by=["day"], properties={"row.ttl": "1s"})
        table.upsert([{"day": "mon", "id": 1, "n": 1}, {"day": "tue", "id": 2, "n": 1}])
    with penstock.serve(tmp_path / "data") as server, penstock.connect(server.url) as connection:
        assert deleted(connection.table("t"), 2) == [1, 2]


def test_a_log_table_has_no_ttl_of_rows(connection: penstock.Connection) -> None:
    with pytest.raises(InvalidError, match="log table"):
        connection.create_table("shop.log", "id BIGINT", properties={"row.ttl": "1s"})
    with pytest.raises(InvalidError, match=r"row\.ttl"):
        connection.create_table("shop.bad", DDL, properties={"row.ttl": "soon"})
