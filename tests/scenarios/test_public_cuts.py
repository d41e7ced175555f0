"""Cuts of several tables: one moment over all of them."""

from __future__ import annotations

import threading

import pytest
from tests.scenarios.conftest import Connect

import penstock
from penstock.errors import InvalidError, TableNotFoundError

ORDERS = "id BIGINT NOT NULL, n BIGINT, PRIMARY KEY (id)"
ITEMS = "id BIGINT NOT NULL, n BIGINT, PRIMARY KEY (id)"


def ids(table: penstock.Table, cut: penstock.Cut) -> set[int]:
    return set(table.scan(columns=["id"], as_of=cut).to_arrow()["id"].to_pylist())


def test_a_cut_of_two_tables_never_shows_the_item_without_its_order(connection: penstock.Connection) -> None:
    # Created in either order, so that the one with the lower id is written first once and last once.
    for first, second in (("orders", "items"), ("late_items", "early_orders")):
        a = connection.create_table(f"shop.{first}", ORDERS, buckets=2)
        b = connection.create_table(f"shop.{second}", ITEMS, buckets=3)
        orders, items = (a, b) if first == "orders" else (b, a)
        stop = threading.Event()

        def write(orders: penstock.Table = orders, items: penstock.Table = items, stop: threading.Event = stop) -> None:
            number = 0
            while not stop.is_set():
                orders.upsert({"id": [number], "n": [number]})
                items.upsert({"id": [number], "n": [number]})
                number += 1

        writer = threading.Thread(target=write)
        writer.start()
        try:
            for _ in range(25):
                cuts = connection.cut([items, orders.path])
                assert list(cuts) == [items.path, orders.path]
                missing = ids(items, cuts[items.path]) - ids(orders, cuts[orders.path])
                assert not missing
        finally:
            stop.set()
            writer.join()


def test_cuts_of_the_same_tables_in_any_order_do_not_stop_each_other(connection: penstock.Connection) -> None:
    tables = [connection.create_table(f"shop.t{number}", ORDERS) for number in range(4)]
    failed: list[BaseException] = []

    def cut(turn: int) -> None:
        try:
            for _ in range(20):
                connection.cut(tables[turn:] + tables[:turn])
                tables[turn].upsert({"id": [turn], "n": [turn]})
        except BaseException as error:  # noqa: BLE001 - shown below
            failed.append(error)

    threads = [threading.Thread(target=cut, args=(turn,)) for turn in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)

    assert not failed
    assert not any(thread.is_alive() for thread in threads)


def test_a_cut_of_several_tables_can_be_leased_stored_and_followed(connection: penstock.Connection) -> None:
    orders = connection.create_table("shop.orders", ORDERS, buckets=2)
    days = connection.create_table("shop.days", "day STRING, n BIGINT, PRIMARY KEY (day, n)", partitioned_by=["day"])
    clicks = connection.create_table("shop.clicks", "n BIGINT")
    orders.upsert({"id": [1, 2], "n": [1, 2]})
    days.upsert({"day": ["mon"], "n": [1]})
    clicks.append({"n": [1]})

    cuts = connection.cut(["shop.orders", "shop.days", "shop.clicks"])
    orders.upsert({"id": [1], "n": [10]})
    days.upsert({"day": ["tue"], "n": [2]})
    clicks.append({"n": [2]})
    lease = connection.acquire_lease("job", [cuts["shop.orders"], cuts["shop.days"].to_json(), cuts["shop.clicks"]])

    assert cuts["shop.orders"] == penstock.Cut.from_json(cuts["shop.orders"].to_json())
    assert orders.scan(as_of=cuts["shop.orders"].to_json()).to_arrow()["n"].to_pylist().count(10) == 0
    assert days.scan(as_of=cuts["shop.days"]).to_arrow()["day"].to_pylist() == ["mon"]
    assert clicks.scan(as_of=cuts["shop.clicks"]).to_arrow()["n"].to_pylist() == [1]
    assert [row["day"] for batch in days.changes(start=cuts["shop.days"]) for row in batch.to_pylist()] == ["tue"]
    assert not lease.unavailable
    connection.drop_table("shop.orders")
    assert sorted(lease.table("shop.orders").scan().to_arrow()["n"].to_pylist()) == [1, 2]


def test_what_cannot_be_cut_together_is_refused(connection: penstock.Connection) -> None:
    connection.create_table("shop.orders", ORDERS)
    gone = connection.create_table("shop.items", ITEMS)
    connection.drop_table("shop.items")

    with pytest.raises(TableNotFoundError):
        connection.cut(["shop.orders", "shop.items"])
    with pytest.raises(TableNotFoundError):
        connection.cut(["shop.orders", gone])
    with pytest.raises(InvalidError, match="name at least one table"):
        connection.cut([])
    assert list(connection.cut(["shop.orders", "shop.orders"])) == ["shop.orders"]


def test_a_table_of_another_database_is_not_cut(connect: Connect) -> None:
    here, there = connect("here"), connect("there")
    table = there.create_table("t", ORDERS)

    with pytest.raises(InvalidError, match="of another database"):
        here.cut([table])
