"""The names of a table's buckets, while their partitions come and go."""

from __future__ import annotations

import pytest

from penstock.errors import PartitionNotFoundError
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
