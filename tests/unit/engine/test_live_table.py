"""The buckets of a table, and their names, while partitions come and go."""

from __future__ import annotations

import pytest

from penstock.errors import LimitError, PartitionNotFoundError
from penstock.model.bucket import LIFE_OFFSETS
from penstock.model.partition import PartitionInfo
from penstock.testing.live_table import live_tables, write


def test_bucket_keeps_its_name_until_nobody_reads_its_partition() -> None:
    with live_tables() as rig:
        table = rig.create("default.sales", "day INT, id INT, PRIMARY KEY (day, id)", partitioned_by=["day"])
        (name,) = write(table, [{"day": 1, "id": 1}]).offsets
        bucket = table.bucket_id(name)

        table.drop_partition(bucket.partition_id)
        assert table.name(bucket) == name

        table.left.remove(bucket.partition_id)
        with pytest.raises(PartitionNotFoundError, match=r"the partition was dropped table=default\.sales"):
            table.name(bucket)


def test_name_stands_for_the_next_partition_also_if_the_one_before_leaves_late() -> None:
    with live_tables() as rig:
        table = rig.create("default.sales", "day INT, id INT, PRIMARY KEY (day, id)", partitioned_by=["day"])
        (name,) = write(table, [{"day": 1, "id": 1}]).offsets
        old = table.bucket_id(name)

        rig.catalog.partitions.drop(table.info.table_id, {"day": 1})
        table.add_partition(rig.catalog.partitions.create(table.info.table_id, {"day": 1}))
        table.drop_partition(old.partition_id)

        assert table.bucket_id(name).partition_id != old.partition_id
        assert write(table, [{"day": 1, "id": 2}]).offsets == {name: (LIFE_OFFSETS, LIFE_OFFSETS + 1)}


@pytest.mark.parametrize("ddl", ["day INT, id INT, PRIMARY KEY (day, id)", "day INT, id INT"])
def test_bucket_of_a_partition_takes_no_change_beyond_its_life(ddl: str) -> None:
    with live_tables() as rig:
        table = rig.create("default.sales", ddl, partitioned_by=["day"])
        # Nobody has the time to write a whole life; this one begins near its end.
        table.add_partition(PartitionInfo(table.info.table_id, 1, "day=1", 0, first_offset=3 * LIFE_OFFSETS - 5))

        with pytest.raises(LimitError, match="write to another partition"):
            write(table, [{"day": 1, "id": number} for number in range(5)])
        (taken,) = write(table, [{"day": 1, "id": number} for number in range(4)]).offsets.values()
        with pytest.raises(LimitError, match="write to another partition"):
            write(table, [{"day": 1, "id": 9}])

        assert taken == (3 * LIFE_OFFSETS - 5, 3 * LIFE_OFFSETS - 1)
