"""The buckets of a table, and their names, while partitions come and go."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from tests.kit.open_table import open_tables, write

from penstock.engine.changes.reader import ChangeReader
from penstock.engine.settings import Settings
from penstock.engine.upkeep.statistics import table_stats
from penstock.errors import LimitError, PartitionNotFoundError
from penstock.model.place.bucket import LIFE_OFFSETS
from penstock.model.table.partition import PartitionInfo
from penstock.testing.manual_clock import ManualClock


def test_bucket_keeps_its_name_until_nobody_reads_its_partition() -> None:
    with open_tables() as rig:
        table = rig.create("default.sales", "day INT, id INT, PRIMARY KEY (day, id)", partitioned_by=["day"])
        (name,) = write(table, [{"day": 1, "id": 1}]).offsets
        bucket = table.bucket_id(name)

        table.drop_partition({"day": 1})
        assert table.name(bucket) == name

        table.dropped.remove(bucket.partition_id)
        with pytest.raises(PartitionNotFoundError, match=r"the partition was dropped table=default\.sales"):
            table.name(bucket)


def test_name_stands_for_the_next_partition_while_the_one_before_is_read() -> None:
    with open_tables() as rig:
        table = rig.create("default.sales", "day INT, id INT, PRIMARY KEY (day, id)", partitioned_by=["day"])
        (name,) = write(table, [{"day": 1, "id": 1}]).offsets
        old = table.bucket_id(name)

        table.drop_partition({"day": 1})
        table.create_partition({"day": 1})

        assert table.bucket_id(name).partition_id != old.partition_id
        assert table.name(old) == name
        assert write(table, [{"day": 1, "id": 2}]).offsets == {name: (LIFE_OFFSETS, LIFE_OFFSETS + 1)}


@pytest.mark.parametrize("ddl", ["day INT, id INT, PRIMARY KEY (day, id)", "day INT, id INT"])
def test_bucket_of_a_partition_takes_no_change_beyond_its_life(ddl: str) -> None:
    with open_tables() as rig:
        table = rig.create("default.sales", ddl, partitioned_by=["day"])
        # Nobody has the time to write a whole life; this one begins near its end.
        table._take_up([PartitionInfo(table.info.table_id, 1, "day=1", 0, first_offset=3 * LIFE_OFFSETS - 5)])

        with pytest.raises(LimitError, match="write to another partition"):
            write(table, [{"day": 1, "id": number} for number in range(5)])
        (taken,) = write(table, [{"day": 1, "id": number} for number in range(4)]).offsets.values()
        with pytest.raises(LimitError, match="write to another partition"):
            write(table, [{"day": 1, "id": 9}])

        assert taken == (3 * LIFE_OFFSETS - 5, 3 * LIFE_OFFSETS - 1)


def test_whoever_goes_through_the_buckets_may_do_so_while_partitions_come_and_go() -> None:
    with open_tables() as rig:
        table = rig.create("default.sales", "day INT, id INT, PRIMARY KEY (day, id)", partitioned_by=["day"])
        names = write(table, [{"day": day, "id": 1} for day in range(3)]).offsets
        ids = [table.bucket_id(name) for name in names]
        seen = iter(table.committer.tablets.items())
        assert next(seen)[0] == ids[0]

        table.drop_partition({"day": 1})
        write(table, [{"day": 3, "id": 1}])

        assert [bucket for bucket, _ in seen] == ids[1:]


def test_partition_that_goes_meanwhile_fails_neither_offsets_nor_stats() -> None:
    with open_tables() as rig:
        table = rig.create("default.sales", "day INT, id INT, PRIMARY KEY (day, id)", partitioned_by=["day"])
        gone, dropped = write(table, [{"day": day, "id": 1} for day in range(2)]).offsets
        # What was taken before the drop, as it is for who is in the middle of it.
        before: Any = SimpleNamespace(view=table.view, committer=SimpleNamespace(tablets=table.committer.tablets))
        before.find_name = table.find_name
        partition_id = table.bucket_id(gone).partition_id
        table.drop_partition({"day": 0})
        table.dropped.remove(partition_id)

        assert ChangeReader(Settings(), ManualClock()).offsets(before) == {dropped: (0, 1)}
        assert [found.bucket for found in table_stats(before, {}).buckets] == [dropped]
