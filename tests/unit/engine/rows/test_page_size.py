"""Pages are cut by the bytes of their rows."""

from __future__ import annotations

import pyarrow as pa
import pytest

from penstock.engine.rows.page_size import SLACK_PARTS, BatchSize, fitting


def test_slices_count_their_own_bytes_only() -> None:
    batch = pa.record_batch({"a": pa.array(range(10_000), pa.int64())}).slice(5_000)

    assert BatchSize(batch)(8) == 64 + 1


@pytest.mark.parametrize(
    "sizes",
    [[10] * 500, [1] * 499 + [100_000], [100_000] + [1] * 499, list(range(500)), [0] * 250 + [7] * 250, [1, 3_000, 1]],
)
@pytest.mark.parametrize("room", [1, 99, 1_000, 2_500, 10**9])
@pytest.mark.parametrize("least", [0, 1])
def test_as_much_fits_as_there_is_room_for(sizes: list[int], room: int, least: int) -> None:
    steps: list[int] = []

    def size_at(count: int) -> int:
        steps.append(count)
        return sum(sizes[:count])

    count, size = fitting(size_at, len(sizes), room, least=least)

    assert size == sum(sizes[:count])
    assert size <= room or count == least
    full = count == len(sizes) or sum(sizes[: count + 1]) > room
    assert full or room - size <= room / SLACK_PARTS
    assert len(steps) < 25
