"""Delete by filter, while partitions go."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator

import pytest
from tests.kit.open_table import OpenTableRig, bucket, open_tables, write

from penstock.engine.commit.group import QueuedWrite
from penstock.engine.table.deletion import delete_matching
from penstock.engine.table.open_table import OpenTable
from penstock.errors import DiskFullError


@pytest.fixture
def rig() -> Iterator[OpenTableRig]:
    with open_tables() as made:
        yield made


@pytest.fixture
def table(rig: OpenTableRig, monkeypatch: pytest.MonkeyPatch) -> OpenTable:
    """Return a table of two partitions, the first of which goes as soon as a delete is made or refused."""
    made = rig.create("default.sales", "day INT, id INT, PRIMARY KEY (day, id)", partitioned_by=["day"])
    write(made, [{"day": day, "id": 1} for day in (1, 2)])
    gone, write_found = made.bucket_id(bucket(made, 0, "day=1")).partition_id, made.committer.write_found

    def write_and_drop(find: Callable[[], QueuedWrite]) -> QueuedWrite:
        try:
            return write_found(find)
        finally:
            made.drop_partition({"day": 1})
            made.dropped.remove(gone)

    monkeypatch.setattr(made.committer, "write_found", write_and_drop)
    return made


def test_deletes_are_told_also_of_a_partition_that_goes_right_after(table: OpenTable) -> None:
    result = delete_matching(table, None)

    assert (result.rows, result.changes) == (2, 2)
    assert result.offsets == {bucket(table, 0, f"day={day}"): (1, 2) for day in (1, 2)}


def test_refusal_names_its_bucket_also_if_the_partition_goes_right_after(rig: OpenTableRig, table: OpenTable) -> None:
    rig.disk.fail_when(lambda operation: operation.kind == "append", errno.ENOSPC, times=1)

    with pytest.raises(DiskFullError, match=r"bucket=default\.sales/day=1#0"):
        delete_matching(table, None)
