"""A bucket beside its oracle through a random life: writes, background steps, pins, crashes, reopens.

Each case is one seed; its id replays it: `pytest -k "last_row-7"`.
"""

from __future__ import annotations

from random import Random

import pytest
from tests.kit.memory_key_index import MemoryKeyIndex
from tests.kit.tablet_rig import TabletRig
from tests.kit.tablet_writes import RandomWrites

from penstock.errors import OffsetOutOfRangeError
from penstock.index.front.front import FrontedKeyIndex
from penstock.index.front.front_settings import FrontSettings
from penstock.index.key_index import KeyIndex
from penstock.model.place.bucket import LIFE_OFFSETS
from penstock.model.table.merge_engine import MergeEngine
from penstock.tablet.steps.checkpointing import checkpoint
from penstock.tablet.steps.compaction import compact
from penstock.tablet.steps.sealing import seal
from penstock.tablet.view.pins import PinHolder, PinKind
from penstock.testing.faulty_disk import FaultyDisk

STEPS = 120
TINY = FrontSettings(table_bytes_max=2_000, dirty_bytes_max=500, drain_rows_max=3)
FRONTS = (FrontSettings(), TINY, None)
"""Before the index: as it is by default, so small that it is drained and begun anew all the time, and none."""


class Life:
    """Random steps of a bucket and of those who read it."""

    def __init__(self, seed: int, merge_engine: MergeEngine) -> None:
        self.random = Random(seed)
        self.front = FRONTS[seed % len(FRONTS)]
        self.disk, self.below = FaultyDisk(), MemoryKeyIndex(chunk_keys=3)
        self.index = self._index()
        # Every other one is of a partition that came after others were dropped.
        first_offset = seed % 2 * 5 * LIFE_OFFSETS
        self.rig = TabletRig(self.disk, self.index, merge_engine=merge_engine, first_offset=first_offset)
        self.writes = RandomWrites(self.random, merge_engine)
        self.pins: dict[PinHolder, int] = {}

    def step(self) -> None:
        random = self.random
        random.choices(
            [
                self.write,
                self.seal,
                self.checkpoint,
                self.compact,
                self.compact_all,
                self.pin,
                self.unpin,
                self.reopen,
                self.crash,
                self.lose_index,
                self.rig.add_column,
            ],
            weights=[60, 8, 8, 6, 4, 6, 6, 3, 4, 1, 0.5],
        )[0]()
        self.rig.check(random, looks=2)
        for x in self.pins.values():
            self.rig.check_snapshot(x)
            self.rig.check_changes(x, self.rig.oracle.end)

    def write(self) -> None:
        count = self.random.choice((1, 1, 1, 3))
        self.rig.write([self.writes.next(self.rig.oracle.columns) for _ in range(count)])

    def seal(self) -> None:
        seal(self.rig.tablet, active_too=self.random.random() < 0.7)

    def checkpoint(self) -> None:
        assert checkpoint(self.rig.tablet, self.index.flush) == self.rig.oracle.end

    def compact(self) -> None:
        # Whoever holds a view holds its files, so none is held here.
        compact(self.rig.tablet, self.random.randint(self.rig.tablet.view.base, self.rig.oracle.end))
        self.rig.check_compacted()

    def compact_all(self) -> None:
        """Seal, checkpoint and compact with no retention: the base goes as far as the pins let it."""
        tablet = self.rig.tablet
        seal(tablet, active_too=True)
        self.checkpoint()
        compact(tablet, tablet.view.visible)
        assert tablet.view.base == min([*self.pins.values(), tablet.view.visible])
        self.rig.check_compacted()

    def pin(self) -> None:
        view = self.rig.tablet.view
        name, x = (
            PinHolder(PinKind.READER, str(self.random.randrange(4))),
            self.random.randint(max(0, view.base - 3), view.visible),
        )
        if x < view.base:
            with pytest.raises(OffsetOutOfRangeError):
                self.rig.tablet.pins.pin(name, x)
        else:
            self.rig.tablet.pins.pin(name, x)
            self.pins[name] = x

    def unpin(self) -> None:
        if self.pins:
            name = self.random.choice(sorted(self.pins))
            others = [x for other, x in self.pins.items() if other != name]
            assert self.rig.tablet.pins.unpin(name) is (not others or self.pins[name] < min(others))
            del self.pins[name]

    def reopen(self) -> None:
        if self.random.random() < 0.5:
            self.rig.tablet.close()
        self._reopen()

    def crash(self) -> None:
        seed = self.random.randrange(1 << 30)
        self.disk = self.disk.after_power_loss(seed) if seed % 2 else self.disk.after_kill()
        self.below = self.below.after_crash(seed)
        self.index = self._index()
        self._reopen()

    def lose_index(self) -> None:
        self.random.choice((self.below.lose, self.below.roll_back))()
        self.index = self._index()
        self._reopen()

    def _index(self) -> KeyIndex:
        return self.below if self.front is None else FrontedKeyIndex(self.below, self.front)

    def _reopen(self) -> None:
        self.rig.reopen(self.disk, self.index)
        for name, x in self.pins.items():
            self.rig.tablet.pins.pin(name, x)


CASES = [
    *((MergeEngine.LAST_ROW, seed) for seed in range(20)),
    *((MergeEngine.FIRST_ROW, seed) for seed in range(6)),
    *((MergeEngine.VERSIONED, seed) for seed in range(6)),
]


@pytest.mark.parametrize(("merge_engine", "seed"), CASES, ids=[f"{engine}-{seed}" for engine, seed in CASES])
def test_random_life_answers_as_the_oracle_does(merge_engine: MergeEngine, seed: int) -> None:
    life = Life(seed, merge_engine)
    for _ in range(STEPS):
        life.step()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1_000, 1_024))
def test_long_random_life_answers_as_the_oracle_does(seed: int) -> None:
    life = Life(seed, MergeEngine.LAST_ROW)
    for _ in range(400):
        life.step()
