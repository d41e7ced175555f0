from dataclasses import asdict

import pytest

from penstock.engine.home.memory_budget import MemoryBudget
from penstock.engine.settings import Settings
from penstock.errors import InvalidError
from penstock.runtime.open_files import share_open_files

MB = 1 << 20
GB = 1 << 30


@pytest.mark.parametrize("total", [64 * MB, 256 * MB, GB, 16 * GB])
def test_parts_together_are_no_more_than_the_bound(total: int) -> None:
    parts = asdict(MemoryBudget.of(Settings(memory_bytes_max=total)))

    # A small server takes what one client needs all the same.
    served = {"requests": 128 * MB, "uploads": 64 * MB}
    assert sum(size for name, size in parts.items() if size != served.get(name)) <= total


def test_without_a_bound_it_is_half_of_the_machine() -> None:
    assert MemoryBudget.of(Settings(), 2 * GB) == MemoryBudget.of(Settings(memory_bytes_max=GB))


def test_large_machine_has_every_part_at_its_most() -> None:
    assert MemoryBudget.of(Settings(), 64 * GB) == MemoryBudget()


def test_what_was_set_by_hand_for_a_part_is_taken_from_the_others() -> None:
    given = MemoryBudget.of(Settings(memory_bytes_max=256 * MB, index_front_bytes=128 * MB))
    shared = MemoryBudget.of(Settings(memory_bytes_max=256 * MB))

    assert given.front == 128 * MB
    assert sum(asdict(given).values()) <= (256 + 128 + 64) * MB
    assert 0 < given.tails < shared.tails


def test_part_that_is_larger_than_the_bound_leaves_something_to_the_others() -> None:
    budget = MemoryBudget.of(Settings(memory_bytes_max=64 * MB, index_front_bytes=GB))

    assert budget.front == GB
    assert min(asdict(budget).values()) > 0


def test_smallest_bound_gives_sizes_that_every_room_takes() -> None:
    budget, files = MemoryBudget.of(Settings(memory_bytes_max=64 * MB)), share_open_files(256)

    budget.front_settings()
    budget.index_settings(files)
    budget.log_settings(files)
    assert budget.segment_bytes(64 * MB) >= MB
    assert budget.pages_ahead(4 * MB) == 0
    with pytest.raises(InvalidError, match=r"memory\.max"):
        Settings.load(overrides={"memory.max": "63MB"}, environment={})


def test_no_index_front_is_a_choice() -> None:
    assert MemoryBudget.of(Settings(index_front_bytes=0)).front_settings().table_bytes_max == 0
