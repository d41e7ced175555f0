"""Properties change later, at once for everybody, and are there after a restart."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock.errors import (
    DeleteDisabledError,
    InvalidError,
    LockedError,
    PartitionNotFoundError,
    UnsupportedError,
)
from penstock.model.table.properties import PROPERTIES

DDL = "id BIGINT, n INT, PRIMARY KEY (id)"


@pytest.fixture
def table(connection: penstock.Connection) -> penstock.Table:
    table = connection.create_table("shop.t", DDL, properties={"log.retention": "48h"})
    table.upsert([{"id": 1, "n": 1}])
    return table


def test_values_are_shown_as_given_and_none_gives_the_default_back(
    connection: penstock.Connection, table: penstock.Table
) -> None:
    assert table.info.properties == {"log.retention": "48h"}

    table.set_properties({"log.retention": timedelta(hours=36), "log.retention-bytes": "2048MB", "partition.max": 7})
    assert table.info.properties == {"log.retention": "36h", "log.retention-bytes": "2048MB", "partition.max": "7"}
    table.set_properties({"log.retention": None, "partition.max": None})

    assert table.info.properties == connection.table("shop.t").info.properties == {"log.retention-bytes": "2048MB"}
    assert table.info.options.log_retention_ms == 7 * 86_400_000


def test_open_handles_meet_the_new_delete_behavior_at_once(
    connection: penstock.Connection, table: penstock.Table
) -> None:
    older = connection.table("shop.t")
    table.set_properties({"delete.behavior": "ignore"})
    assert older.delete([1]).ignored == 1
    table.set_properties({"delete.behavior": "disable"})
    with pytest.raises(DeleteDisabledError):
        older.delete([1])
    table.set_properties({"delete.behavior": None})
    assert older.delete([1]).changes == 1


def test_every_property_but_those_that_say_why_not_can_change(connection: penstock.Connection) -> None:
    table = connection.create_table(
        "shop.s", "k INT, n BIGINT COUNT, PRIMARY KEY (k)", properties={"aggregate.delete-at-zero": "n"}
    )
    values: dict[str, Any] = {
        "delete.behavior": "allow",
        "log.retention": "1d",
        "log.retention-bytes": "2GB",
        "kv.snapshot.interval": "5min",
        "kv.snapshot.num-retained": 3,
        "column-lock.enabled": False,
        "partition.auto-create": False,
        "partition.retention": "30d",
        "partition.max": 5,
        "aggregate.retract": "ignore",
        "aggregate.max-value-bytes": "2MB",
    }
    for name, known in PROPERTIES.items():
        if known.fixed is not None:
            with pytest.raises(InvalidError, match="cannot change later"):
                table.set_properties({name: None})
        elif name in values:
            table.set_properties({name: values[name]})
            assert name in table.info.properties
            table.set_properties({name: None})
    assert table.info.properties == {"aggregate.delete-at-zero": "n"}


def test_what_is_wrong_changes_nothing(table: penstock.Table) -> None:
    wrong: list[Any] = [
        {"log.retention": "soon"},
        {"log.retentoin": "1d"},
        {"log.retention": "1d", "partition.max": -1},
        {"aggregate.retract": "ignore"},
        "log.retention=1d",
        ["log.retention"],
    ]
    for properties in wrong:
        with pytest.raises(InvalidError):
            table.set_properties(properties)
    assert table.info.properties == {"log.retention": "48h"}


def test_partition_properties_hold_for_the_next_write(connection: penstock.Connection) -> None:
    table = connection.create_table("shop.p", "day STRING, id BIGINT, PRIMARY KEY (day, id)", partitioned_by=["day"])
    table.upsert([{"day": "mon", "id": 1}])
    table.set_properties({"partition.auto-create": "false"})
    with pytest.raises(PartitionNotFoundError):
        table.upsert([{"day": "tue", "id": 1}])
    table.set_properties({"partition.auto-create": None, "partition.max": 1})
    with pytest.raises(InvalidError, match=r"partition\.max"):
        table.upsert([{"day": "tue", "id": 1}])
    table.set_properties({"partition.max": 2})
    table.upsert([{"day": "tue", "id": 1}])
    assert table.list_partitions() == ["day=mon", "day=tue"]


def test_locks_are_not_turned_on_or_off_under_owners(table: penstock.Table) -> None:
    with table.acquire_owner("job"):
        for value in ("true", "false"):
            with pytest.raises(LockedError, match="holder=job"):
                table.set_properties({"column-lock.enabled": value})
        table.set_properties({"log.retention": "1d"})
    table.set_properties({"column-lock.enabled": False})
    with pytest.raises(UnsupportedError):
        table.acquire_owner("job")


def test_retention_that_was_set_later_lets_the_base_move(tmp_path: Path) -> None:
    with penstock.connect(tmp_path / "data") as connection:
        connection.create_database("shop")
        table = connection.create_table("shop.t", DDL, properties={"log.retention": "none"})
        for turn in range(5):
            table.upsert([{"id": 1, "n": turn}])
        engine: Any = connection._link.node
        engine.maintenance.compact_now(engine._table(table.info.table_id))
        assert next(iter(table.offsets().values())).base == 0
        table.set_properties({"log.retention": "1ms"})
        table.upsert([{"id": 1, "n": 9}])
        engine.maintenance.compact_now(engine._table(table.info.table_id))
        assert next(iter(table.offsets().values())).base > 0
    with penstock.connect(tmp_path / "data") as connection:
        assert connection.table("shop.t").info.properties == {"log.retention": "1ms"}
