"""Named cuts: the first to ask fixes the cut, whoever asks after that gets the same."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.kit.open_table import OpenTableRig, bucket, open_tables, pins, write

from penstock.engine.metadata.memory_store import MemoryMetadataStore
from penstock.engine.scan.named_cuts import PREFIX, NamedCuts
from penstock.errors import InvalidError
from penstock.model.node.principal import LOCAL

HOUR_MS = 3_600_000


@pytest.fixture
def rig() -> Iterator[OpenTableRig]:
    with open_tables() as made:
        yield made


def rows(start: int, end: int) -> list[dict[str, object]]:
    return [{"id": number} for number in range(start, end)]


def test_everybody_gets_the_cut_that_the_first_to_ask_fixed(rig: OpenTableRig) -> None:
    table = rig.create("default.t", "id BIGINT, PRIMARY KEY (id)")
    cuts = NamedCuts(MemoryMetadataStore(), rig.clock)
    write(table, rows(0, 10))

    first = cuts.take(table, "job-1", HOUR_MS, principal=LOCAL)
    write(table, rows(10, 20))

    assert cuts.take(table, "job-1", HOUR_MS, principal=LOCAL) == first
    assert cuts.take(table, "job-2", HOUR_MS, principal=LOCAL).offsets == {bucket(table): 20}
    assert first.offsets == {bucket(table): 10}


def test_cut_is_pinned_until_nobody_used_it_for_its_time(rig: OpenTableRig) -> None:
    table = rig.create("default.t", "id BIGINT, PRIMARY KEY (id)")
    metadata = MemoryMetadataStore()
    cuts = NamedCuts(metadata, rig.clock)
    write(table, rows(0, 10))
    cuts.take(table, "job-1", HOUR_MS, principal=LOCAL)

    rig.clock.advance(HOUR_MS - 1)
    cuts.take(table, "job-1", HOUR_MS, principal=LOCAL)
    rig.clock.advance(HOUR_MS)
    kept = cuts.reap()
    pinned = dict(pins(table))
    rig.clock.advance(1)
    gone = cuts.reap()

    assert (kept, gone) == (0, 1)
    assert 10 in pinned.values()
    assert not pins(table)
    assert metadata.list(PREFIX) == []


def test_cut_keeps_its_offsets_over_a_restart(rig: OpenTableRig) -> None:
    table = rig.create("default.t", "id BIGINT, PRIMARY KEY (id)")
    metadata = MemoryMetadataStore()
    write(table, rows(0, 10))
    first = NamedCuts(metadata, rig.clock).take(table, "job-1", HOUR_MS, principal=LOCAL)
    write(table, rows(10, 20))

    again = NamedCuts(metadata, rig.clock).take(table, "job-1", HOUR_MS, principal=LOCAL)
    rig.clock.advance(2 * HOUR_MS)
    late = NamedCuts(metadata, rig.clock).take(table, "job-1", HOUR_MS, principal=LOCAL)

    assert again == first
    assert late.offsets == {bucket(table): 20}


@pytest.mark.parametrize(("name", "ttl_ms"), [("", 1), ("a\nb", 1), ("x" * 500, 1), ("job", 0), ("job", 10**12)])
def test_names_and_times_out_of_range_are_refused(rig: OpenTableRig, name: str, ttl_ms: int) -> None:
    table = rig.create("default.t", "id BIGINT, PRIMARY KEY (id)")

    with pytest.raises(InvalidError):
        NamedCuts(MemoryMetadataStore(), rig.clock).take(table, name, ttl_ms, principal=LOCAL)
