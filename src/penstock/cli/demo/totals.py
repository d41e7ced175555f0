"""What the revenue table says, as numbers to compare: cents and orders of each city and day."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from decimal import Decimal
from typing import NamedTuple

import pyarrow as pa


class Total(NamedTuple):
    """The revenue and the number of orders of one city, or of one city and day."""

    revenue: Decimal
    orders: int

    def plus(self, other: Total) -> Total:
        """Return both together."""
        return Total(self.revenue + other.revenue, self.orders + other.orders)

    def minus(self, other: Total) -> Total:
        """Return how much more this is."""
        return Total(self.revenue - other.revenue, self.orders - other.orders)


NOTHING = Total(Decimal("0.00"), 0)
Day = tuple[str, date]
ByDay = dict[Day, Total]
ByCity = dict[str, Total]


def stored(revenue: pa.Table) -> ByDay:
    """Return the totals in rows of the revenue table; a day without orders and revenue is none."""
    keys = zip(revenue["city"].to_pylist(), revenue["day"].to_pylist(), strict=True)
    values = zip(revenue["revenue"].to_pylist(), revenue["orders"].to_pylist(), strict=True)
    totals = {key: Total(*value) for key, value in zip(keys, values, strict=True)}
    return {key: total for key, total in totals.items() if total != NOTHING}


def recomputed(orders: pa.Table) -> ByDay:
    """Return the totals that rows of the orders table make."""
    folded = orders.group_by(["city", "day"]).aggregate([("amount", "sum"), ("id", "count")])
    return stored(folded.rename_columns(["city", "day", "revenue", "orders"]))


def by_city(days: Mapping[Day, Total]) -> ByCity:
    """Return the totals of each city."""
    cities: ByCity = {}
    for (city, _), total in days.items():
        cities[city] = cities.get(city, NOTHING).plus(total)
    return cities


def differences(one: Mapping[Day, Total], other: Mapping[Day, Total]) -> ByDay:
    """Return by how much one is more than the other, where they differ."""
    keys = one.keys() | other.keys()
    found = {key: one.get(key, NOTHING).minus(other.get(key, NOTHING)) for key in keys}
    return {key: total for key, total in found.items() if total != NOTHING}
