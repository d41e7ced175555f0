"""Orders as they come in: new ones, corrected ones, cancelled ones. Seeded; it knows what must come out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.cli.demo.shop import CITIES, DAYS

NEW_PER_STEP: Final = 500
UPDATED_PER_NEW: Final = 0.7
MOVED: Final = 0.2
CANCELLED_PER_NEW: Final = 0.15
FIRST_DAY: Final = (date(2026, 1, 1) - date(1970, 1, 1)).days

Ids = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Step:
    """What happens in one moment: orders placed or corrected, and orders cancelled."""

    upserts: pa.Table
    cancelled: pa.Table

    @property
    def changes(self) -> int:
        """Return how many changes the step makes."""
        return int(self.upserts.num_rows + self.cancelled.num_rows)


class OrderStream:
    """A seeded stream of orders, and the state that they must lead to. One thread reads it."""

    def __init__(self, orders: int, seed: int) -> None:
        self._random = np.random.default_rng(seed)
        # A few cities order much and many order little, as in life.
        weights = 1 / np.arange(3, len(CITIES) + 3)
        self._weights = weights / weights.sum()
        self._orders = orders
        self._city = np.zeros(orders, np.int64)
        self._day = np.zeros(orders, np.int64)
        self._cents = np.zeros(orders, np.int64)
        self._live = np.zeros(orders, np.bool_)

    @property
    def steps_count(self) -> int:
        """Return how many steps the stream has."""
        return -(-self._orders // NEW_PER_STEP)

    def steps(self) -> Iterator[Step]:
        """Yield step after step; the truth is up to date with the last one yielded."""
        for start in range(0, self._orders, NEW_PER_STEP):
            old = np.flatnonzero(self._live[:start])
            new = np.arange(start, min(start + NEW_PER_STEP, self._orders))
            touched = self._random.permutation(old)
            updated = touched[: min(len(old) // 2, int(len(new) * UPDATED_PER_NEW))]
            cancelled = touched[len(updated) :][: min(len(old) // 4, int(len(new) * CANCELLED_PER_NEW))]
            moved = updated[: int(len(updated) * MOVED)]
            placed = np.concatenate([new, moved])
            self._city[placed] = self._random.choice(len(CITIES), len(placed), p=self._weights)
            self._day[new] = self._random.integers(0, DAYS, len(new))
            priced = np.concatenate([new, updated])
            self._cents[priced] = self._random.integers(199, 25_000, len(priced))
            self._live[new] = True
            self._live[cancelled] = False
            yield Step(self._rows(priced), pa.table({"id": cancelled}))

    def truth(self) -> pa.Table:
        """Return the orders that must be in the table, by id."""
        return self._rows(np.flatnonzero(self._live))

    def _rows(self, ids: Ids) -> pa.Table:
        days = pa.array((self._day[ids] + FIRST_DAY).astype(np.int32)).cast(pa.date32())
        cities = pa.DictionaryArray.from_arrays(self._city[ids].astype(np.int32), list(CITIES)).cast(pa.string())
        return pa.table({"id": ids, "city": cities, "day": days, "amount": euros(self._cents[ids])})


def euros(cents: Ids) -> Any:
    """Return cents as decimals with two digits behind the point."""
    words = np.stack([cents, cents >> 63], axis=1)
    return pa.Array.from_buffers(pa.decimal128(12, 2), len(cents), [None, pa.py_buffer(words.tobytes())])
