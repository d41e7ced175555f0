"""Cuts: all buckets at one moment, pinned until nobody needs them."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.kit.open_table import OpenTableRig, bucket, open_tables, pins, write

from penstock.engine.scan.cuts import Cuts
from penstock.engine.table.open_table import OpenTable
from penstock.errors import (
    InvalidError,
    NotLeaderError,
    OffsetOutOfRangeError,
    PartitionNotFoundError,
    UnknownOrExpiredScannerError,
)
from penstock.model.node.principal import LOCAL


@pytest.fixture
def rig() -> Iterator[OpenTableRig]:
    with open_tables() as made:
        yield made


@pytest.fixture
def table(rig: OpenTableRig) -> OpenTable:
    table = rig.create("default.orders", "id BIGINT, PRIMARY KEY (id)", buckets=3)
    write(table, [{"id": i} for i in range(30)])
    return table


@pytest.fixture
def cuts(rig: OpenTableRig) -> Cuts:
    return Cuts(rig.settings, rig.clock)


def all_pins(table: OpenTable) -> list[dict[str, int]]:
    return [pins(table, number) for number in range(table.info.buckets)]


def test_present_cut_pins_every_bucket_at_its_offset(cuts: Cuts, table: OpenTable) -> None:
    cut = cuts.open(table, principal=LOCAL)

    assert sum(cut.offsets.values()) == 30
    assert list(cut.offsets) == table.buckets()
    assert all_pins(table) == [{f"cut-{cut.cut_id}": cut.offsets[bucket(table, number)]} for number in range(3)]


def test_cut_of_some_buckets_pins_only_those(cuts: Cuts, table: OpenTable) -> None:
    cut = cuts.open(table, buckets=[bucket(table, 2)], principal=LOCAL)

    assert list(cut.offsets) == [bucket(table, 2)]
    assert [len(found) for found in all_pins(table)] == [0, 0, 1]


def test_given_cut_is_pinned_as_it_is(cuts: Cuts, table: OpenTable) -> None:
    given = {bucket(table, number): number for number in range(3)}

    cut = cuts.open(table, as_of=given, principal=LOCAL)

    assert cut.offsets == given
    assert [list(found.values()) for found in all_pins(table)] == [[0], [1], [2]]


def test_given_cut_names_every_bucket_asked_for(cuts: Cuts, table: OpenTable) -> None:
    with pytest.raises(InvalidError, match="every bucket"):
        cuts.open(table, as_of={bucket(table, 0): 0}, principal=LOCAL)

    assert cuts.open(table, as_of={bucket(table, 0): 0}, buckets=[bucket(table, 0)], principal=LOCAL).offsets == {
        bucket(table, 0): 0
    }


def test_cut_beyond_the_end_is_refused_and_pins_nothing(cuts: Cuts, table: OpenTable) -> None:
    with pytest.raises(OffsetOutOfRangeError) as refused:
        cuts.open(table, as_of={bucket(table, 0): 0, bucket(table, 1): 99, bucket(table, 2): 0}, principal=LOCAL)

    assert refused.value.facts["bucket"] == bucket(table, 1)
    assert all_pins(table) == [{}, {}, {}]


def test_cut_below_a_base_is_refused_and_pins_nothing(cuts: Cuts, rig: OpenTableRig, table: OpenTable) -> None:
    rig.compact(table, 5)

    with pytest.raises(OffsetOutOfRangeError) as refused:
        cuts.open(table, as_of={bucket(table, 0): 6, bucket(table, 1): 4, bucket(table, 2): 6}, principal=LOCAL)

    assert refused.value.facts["bucket"] == bucket(table, 1)
    assert refused.value.facts["base"] == 5
    assert all_pins(table) == [{}, {}, {}]


def test_unknown_buckets_are_refused(cuts: Cuts, table: OpenTable) -> None:
    with pytest.raises(InvalidError):
        cuts.open(table, buckets=[bucket(table, 3)], principal=LOCAL)


def test_unknown_partition_is_refused(cuts: Cuts, rig: OpenTableRig) -> None:
    days = rig.create("default.days", "day STRING, id BIGINT, PRIMARY KEY (day, id)", partitioned_by=["day"])

    with pytest.raises(PartitionNotFoundError):
        cuts.open(days, buckets=[bucket(days, 0, "day=mon")], principal=LOCAL)
    assert cuts.open(days, principal=LOCAL).offsets == {}


def test_bucket_not_led_here_is_refused(cuts: Cuts, table: OpenTable) -> None:
    table.step_down(table.bucket_id(bucket(table, 1)))

    with pytest.raises(NotLeaderError):
        cuts.open(table, principal=LOCAL)
    with pytest.raises(NotLeaderError):
        cuts.open(table, as_of={bucket(table, number): 0 for number in range(3)}, principal=LOCAL)

    assert pins(table, 0) == {}


def test_cut_never_splits_a_write_over_several_buckets(cuts: Cuts, table: OpenTable) -> None:
    def fill() -> None:
        for round_ in range(40):
            write(table, [{"id": i} for i in range(1_000 * round_, 1_000 * round_ + 30)])

    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(fill)
        totals = []
        while not writing.done():
            cut = cuts.open(table, principal=LOCAL)
            totals.append(sum(cut.offsets.values()))
            cuts.release(cut.cut_id)
        writing.result()

    assert {total % 30 for total in totals} <= {0}


def test_release_is_idempotent(cuts: Cuts, table: OpenTable) -> None:
    cut = cuts.open(table, principal=LOCAL)

    for _ in range(2):
        cuts.release(cut.cut_id)

    assert all_pins(table) == [{}, {}, {}]
    with pytest.raises(UnknownOrExpiredScannerError):
        cuts.touch(cut.cut_id)


def test_cut_expires_when_idle_for_a_ttl(cuts: Cuts, rig: OpenTableRig, table: OpenTable) -> None:
    touched, idle = cuts.open(table, principal=LOCAL), cuts.open(table, principal=LOCAL)
    rig.clock.advance(rig.settings.scanner_ttl_ms)
    cuts.touch(touched.cut_id)
    assert cuts.reap() == 0
    rig.clock.advance(1)

    assert cuts.reap() == 1

    assert [list(found) for found in all_pins(table)] == [[f"cut-{touched.cut_id}"]] * 3
    cuts.touch(touched.cut_id)
    with pytest.raises(UnknownOrExpiredScannerError):
        cuts.touch(idle.cut_id)


def test_expiry_is_seen_on_access_too(cuts: Cuts, rig: OpenTableRig, table: OpenTable) -> None:
    cut = cuts.open(table, principal=LOCAL)
    rig.clock.advance(rig.settings.scanner_ttl_ms + 1)

    with pytest.raises(UnknownOrExpiredScannerError):
        cuts.touch(cut.cut_id)

    assert all_pins(table) == [{}, {}, {}]


def test_cut_is_pinned_again_in_a_bucket_that_was_taken_up_again(cuts: Cuts, table: OpenTable) -> None:
    cut = cuts.open(table, principal=LOCAL)
    bucket_id = table.bucket_id(bucket(table, 1))
    table.step_down(bucket_id)
    table.take_up(bucket_id)

    cuts.touch(cut.cut_id)

    assert pins(table, 1) == {f"cut-{cut.cut_id}": cut.offsets[bucket(table, 1)]}


def test_cut_is_unknown_once_a_bucket_cannot_be_read_at_it(cuts: Cuts, rig: OpenTableRig, table: OpenTable) -> None:
    cut = cuts.open(table, as_of={bucket(table, number): 1 for number in range(3)}, principal=LOCAL)
    bucket_id = table.bucket_id(bucket(table, 1))
    table.step_down(bucket_id)
    table.take_up(bucket_id)
    rig.compact(table, 5)

    with pytest.raises(UnknownOrExpiredScannerError):
        cuts.touch(cut.cut_id)

    assert all_pins(table) == [{}, {}, {}]
