"""The tables of the demo, and the cities that order."""

from __future__ import annotations

from typing import Final

from penstock.client.connection import Connection
from penstock.client.table import Table

ORDERS: Final = "shop.orders"
REVENUE: Final = "shop.revenue_by_city"
DAYS: Final = 150
CITIES: Final = (
    "Berlin",
    "Hamburg",
    "München",
    "Köln",
    "Frankfurt",
    "Stuttgart",
    "Düsseldorf",
    "Leipzig",
    "Dortmund",
    "Essen",
    "Bremen",
    "Dresden",
    "Hannover",
    "Nürnberg",
    "Bonn",
    "Münster",
    "Augsburg",
    "Kiel",
    "Freiburg",
    "Erfurt",
    "Rostock",
    "Kassel",
    "Ulm",
    "Jena",
)


def create_orders(connection: Connection) -> Table:
    """Create the table that takes the orders."""
    connection.create_database("shop", if_not_exists=True)
    return connection.create_table(
        ORDERS, "id BIGINT, city STRING, day DATE, amount DECIMAL(12,2), PRIMARY KEY (id)", buckets=4
    )


def create_revenue(connection: Connection) -> Table:
    """Create the aggregating table that the job fills: a row for each city and day."""
    return connection.create_table(
        REVENUE,
        "city STRING, day DATE, revenue DECIMAL(18,2) SUM, orders BIGINT COUNT, PRIMARY KEY (city, day)",
        merge_engine="aggregate",
        buckets=4,
    )
