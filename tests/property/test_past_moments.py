"""The cut at a moment of the past: what was written until then, whole calls, through restarts and clocks that jump.

The oracle keeps the rows after every write, with the timestamp that the write got. Whatever happened since, the cut at
a moment shows the rows of the last write that was not later, or says that it cannot be read any more.
"""

from __future__ import annotations

import random

import pyarrow as pa
import pytest
from tests.kit.open_table import OpenTableRig, delete, open_tables, write

from penstock.engine.scan.past_cut import past_cut
from penstock.engine.table.open_table import OpenTable
from penstock.errors import InvalidError, OffsetOutOfRangeError

SCHEMA = "id BIGINT NOT NULL, n BIGINT, PRIMARY KEY (id)"
KEYS = 12
STEPS = 60
Rows = dict[int, int]


def rows_at(table: OpenTable, timestamp_ms: int) -> Rows:
    found: Rows = {}
    stored = pa.schema([pa.field(str(column.id), column.type) for column in table.info.schema.columns])
    for name, offset in past_cut(table, timestamp_ms).offsets.items():
        view = table.view[table.bucket_id(name)]
        view.check_readable(offset)
        for block in view.scan(offset, stored):
            ids, values = (column.to_pylist() for column in block.batch.columns)
            found |= dict(zip(ids, values, strict=True))
    return found


def reopened(rig: OpenTableRig, table: OpenTable) -> OpenTable:
    table_id = table.info.table_id
    rig.close_tables()
    return rig.table(table_id)


class Life:
    """A table, what it held after every write, and chance."""

    def __init__(self, rig: OpenTableRig, seed: int) -> None:
        self.chance = random.Random(seed)
        self.rig = rig
        self.table = rig.create("default.t", SCHEMA, buckets=3)
        self.rows: Rows = {}
        self.history: list[tuple[int, Rows]] = [(0, {})]

    def step(self, number: int) -> None:
        """Write, or have something else happen."""
        chance, what = self.chance, self.chance.random()
        self.rig.clock.advance(chance.choice([0, 0, 1, 5, 1_000]))
        if what < 0.6:
            self.write({chance.randrange(KEYS): number for _ in range(chance.randrange(1, 6))})
        elif what < 0.75:
            gone = chance.sample(range(KEYS), 3)
            delete(self.table, [{"id": key} for key in gone])
            self.note({key: value for key, value in self.rows.items() if key not in gone})
        elif what < 0.8:
            self.rig.clock.jump_wall(chance.choice([-3_600_000, -2_000, 2_000, 3_600_000]))
        elif what < 0.85:
            self.rig.compact(self.table, chance.randrange(1, 30))
        elif what < 0.9:
            self.rig.seal(self.table)
        elif what < 0.95:
            self.table = reopened(self.rig, self.table)

    def write(self, changed: Rows) -> None:
        write(self.table, [{"id": key, "n": value} for key, value in changed.items()])
        self.note(self.rows | changed)

    def note(self, rows: Rows) -> None:
        stamp = self.table.committer._stamp_ms
        assert stamp >= self.history[-1][0], "timestamps never go back"
        self.rows = rows
        self.history.append((stamp, rows))

    def moment(self) -> int:
        """Return a moment at, or beside, one at which something was written."""
        return self.chance.choice(self.history)[0] + self.chance.choice([-1, 0, 0, 1])

    def check(self, moment: int) -> None:
        """Look at a moment, write, and look again: asked for once, it stays as it was."""
        latest = self.table.committer.run(self.table.committer.stamp_ms)
        expected = [rows for at, rows in self.history if at <= moment]
        try:
            shown = rows_at(self.table, moment)
        except InvalidError:
            assert moment > latest
        except OffsetOutOfRangeError:
            assert moment < self.history[-1][0]
            assert any(view.base for view in self.table.view.values())
        else:
            assert shown == (expected[-1] if expected else {})
            self.write({KEYS: moment})
            assert rows_at(self.table, moment) == shown


@pytest.mark.parametrize("seed", range(12))
def test_a_moment_shows_what_was_written_until_then(seed: int) -> None:
    print("seed", seed)
    with open_tables() as rig:
        life = Life(rig, seed)
        for number in range(STEPS):
            life.step(number)
            life.check(life.moment())


@pytest.mark.parametrize("jump_ms", [-86_400_000, -60_000, 60_000, 86_400_000])
def test_a_call_has_one_timestamp_in_all_of_its_buckets_whatever_the_clock_does(jump_ms: int) -> None:
    with open_tables() as rig:
        table = rig.create("default.t", SCHEMA, buckets=4)
        for call in range(6):
            write(table, [{"id": key, "n": call} for key in range(40)])
            rig.clock.jump_wall(jump_ms if call % 2 else -jump_ms)
            if call == 3:
                table = reopened(rig, table)

        found = [view.directory(view.base, view.visible).timestamp_ms.tolist() for view in table.view.values()]

    assert all(stamps == found[0] for stamps in found)
    assert found[0] == sorted(found[0])


def test_a_moment_between_two_changes_can_be_read_after_the_first_was_compacted_away() -> None:
    with open_tables() as rig:
        table = rig.create("default.t", SCHEMA)
        write(table, [{"id": 1, "n": 1}])
        first = rig.clock.wall_ms()
        rig.clock.advance(10_000)
        write(table, [{"id": 1, "n": 2}])
        rig.compact(table, 1)
        assert table.view[table.bucket_id(table.buckets()[0])].base == 1
        table = reopened(rig, table)

        assert rows_at(table, first) == {1: 1}
        assert rows_at(table, first + 9_999) == {1: 1}
        assert rows_at(table, first + 10_000) == {1: 2}
        with pytest.raises(OffsetOutOfRangeError, match="before the oldest moment") as refused:
            rows_at(table, first - 1)
        assert refused.value.facts["oldest"] is not None


def test_a_table_that_rests_can_be_read_at_moments_after_its_last_change_only() -> None:
    with open_tables() as rig:
        table = rig.create("default.t", SCHEMA)
        write(table, [{"id": 1, "n": 1}])
        last = rig.clock.wall_ms()
        rig.clock.advance(10_000)
        rig.compact(table, 1)

        assert rows_at(table, last) == rows_at(table, last + 5_000) == {1: 1}
        with pytest.raises(OffsetOutOfRangeError):
            rows_at(table, last - 1)
