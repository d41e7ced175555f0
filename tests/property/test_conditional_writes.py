"""Random conditional writes beside an oracle: each is made whole, or refused with exactly the keys that differ.

`pytest tests/property/test_conditional_writes.py -k "embedded and 17"` replays a seed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from tests.kit.live_offsets import live_offsets

import penstock
from penstock.errors import ConflictError
from penstock.model.table.merge_engine import MergeEngineLike

SEEDS = 12
STEPS = 60
KEYS = 12
ENGINES: tuple[MergeEngineLike, ...] = ("last_row", "first_row", "versioned", "aggregate")


class Life:
    """A table, and what the oracle knows: the value and the offset of each live row."""

    def __init__(self, random: Random, connection: penstock.Connection) -> None:
        self.random = random
        self.engine = random.choice(ENGINES)
        self.parted = random.random() < 0.4
        self.deletes = self.engine == "last_row"
        n, m = (" SUM", " MAX") if self.engine == "aggregate" else ("", "")
        self.table = connection.create_table(
            "t",
            f"day INT, id BIGINT, n BIGINT{n}, m BIGINT{m}, PRIMARY KEY (day, id)",
            merge_engine=self.engine,
            version_column="n" if self.engine == "versioned" else None,
            buckets=random.randint(1, 4),
            partitioned_by=["day"] if self.parted else None,
        )
        self.rows: dict[tuple[int, int], tuple[int | None, int | None]] = {}
        self.offsets: dict[tuple[int, int], int] = {}

    def step(self) -> None:
        """Write something, conditionally or not, and compare."""
        keys = self.random.sample([(day, id) for day in range(2) for id in range(KEYS)], self.random.randint(1, 8))
        expect = None if self.random.random() < 0.2 else [self._guess(key) for key in keys]
        unmet = [
            key for key, offset in zip(keys, expect or (), strict=expect is not None) if offset != self.offsets.get(key)
        ]
        write, after = self._write(keys)
        given: Any = pa.array(expect, pa.int64()) if expect is not None and self.random.random() < 0.5 else expect
        if unmet:
            with pytest.raises(ConflictError) as caught:
                write(given)
            assert [(key["day"], key["id"]) for key in caught.value.keys] == unmet
            return
        result = write(given)
        assert result.rows == len(keys)
        changed = {key for key in keys if after.get(key) != self.rows.get(key)}
        if self.engine == "last_row":
            assert result.changes >= len(changed)
        else:
            assert (result.changes, result.ignored) == (
                len(changed),
                len(keys) - len(changed),
            ) or self.engine == "versioned"
        self.rows = after
        self.offsets = live_offsets(self.table)

    def _guess(self, key: tuple[int, int]) -> int | None:
        """Return mostly what is there, sometimes what may have been."""
        if self.random.random() < 0.93:
            return self.offsets.get(key)
        return self.random.choice([None, self.random.randint(0, 20), *self.offsets.values()])

    def _write(self, keys: list[tuple[int, int]]) -> tuple[Any, dict[tuple[int, int], Any]]:
        after = dict(self.rows)
        kind = self.random.choice(["upsert", "upsert", "update", "delete"])
        named = [{"day": day, "id": id} for day, id in keys]
        if kind == "delete":
            for key in keys if self.deletes else ():
                after.pop(key, None)
            return lambda expect: self.table.delete(named, expect=expect), after
        values = [(self.random.choice([0, 1, 2, 3]), self.random.choice([0, 1, 5])) for _ in keys]
        if kind == "update" and self.engine in ("last_row", "aggregate"):
            rows = [{**key, "n": n} for key, (n, _) in zip(named, values, strict=True)]
            for key, (n, _) in zip(keys, values, strict=True):
                after[key] = self._merged(self.rows.get(key), n, None, partial=True)
            return lambda expect: self.table.upsert(rows, columns=["n"], expect=expect), after
        rows = [{**key, "n": n, "m": m} for key, (n, m) in zip(named, values, strict=True)]
        for key, (n, m) in zip(keys, values, strict=True):
            after[key] = self._merged(self.rows.get(key), n, m, partial=False)
        return lambda expect: self.table.upsert(rows, expect=expect), after

    def _merged(self, old: tuple[Any, Any] | None, n: int, m: int | None, *, partial: bool) -> tuple[Any, Any]:
        if old is None:
            return n, m
        if self.engine == "first_row":
            return old
        if self.engine == "versioned":
            return (n, m) if n >= old[0] else old
        if self.engine == "aggregate":
            return old[0] + n, max((v for v in (old[1], m) if v is not None), default=None)
        return n, old[1] if partial else m

    def check(self) -> None:
        """Compare all rows."""
        found = {(row["day"], row["id"]): (row["n"], row["m"]) for row in self.table.scan().to_arrow().to_pylist()}
        assert found == self.rows


@pytest.fixture(params=["embedded", "server"])
def house(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    """Return a function that closes what is open and opens it again."""
    with ExitStack() as stack:

        def connect() -> penstock.Connection:
            stack.close()
            if request.param == "embedded":
                return stack.enter_context(penstock.connect(tmp_path / "data"))
            return stack.enter_context(penstock.connect(stack.enter_context(penstock.serve(tmp_path / "data")).url))

        yield connect


@pytest.mark.parametrize("seed", range(SEEDS))
def test_conditions_hold_beside_an_oracle(seed: int, house: Any) -> None:
    print(f"seed={seed}")
    life = Life(Random(seed), house())
    for step in range(STEPS):
        if step == STEPS // 2:
            life.table = house().table("t")
        life.step()
    life.check()
