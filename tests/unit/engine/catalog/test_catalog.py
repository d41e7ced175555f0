from __future__ import annotations

import json
import threading
from collections.abc import Callable, Sequence
from datetime import date
from typing import Any

import pyarrow as pa
import pytest

from penstock.engine.catalog.catalog import Catalog
from penstock.engine.metadata.memory_store import MemoryMetadataStore
from penstock.engine.metadata.store import Entry, Put, Write
from penstock.errors import (
    AlreadyExistsError,
    ConflictError,
    CorruptionError,
    DatabaseNotFoundError,
    DiskFullError,
    InvalidError,
    LimitError,
    NotFoundError,
    PartitionNotFoundError,
    TableNotFoundError,
    UnsupportedError,
)
from penstock.model.node.principal import LOCAL
from penstock.model.place.bucket import LIFE_OFFSETS
from penstock.model.place.change import OFFSET_MAX
from penstock.model.table.partition import PartitionInfo
from penstock.model.table.spec import make_spec
from penstock.testing.manual_clock import ManualClock

ORDERS = make_spec("id BIGINT PRIMARY KEY, v STRING", buckets=2)
BY_DAY = make_spec("day DATE, id BIGINT, PRIMARY KEY (day, id)", partitioned_by="day", properties={"partition.max": 3})
TOTALS = make_spec("id BIGINT PRIMARY KEY, n BIGINT SUM")
NEW_YEAR = {"day": date(2024, 1, 1)}


class FullStore(MemoryMetadataStore):
    """A store whose disk can be full."""

    full = False

    def commit(self, writes: Sequence[Write]) -> int:
        if self.full:
            raise DiskFullError("no space left for metadata")
        return super().commit(writes)


@pytest.fixture
def store() -> FullStore:
    return FullStore()


@pytest.fixture
def reopen(store: FullStore) -> Callable[[], Catalog]:
    return lambda: Catalog(store, ManualClock())


@pytest.fixture
def catalog(reopen: Callable[[], Catalog]) -> Catalog:
    opened = reopen()
    opened.create_database("shop")
    return opened


def test_the_default_database_is_always_there_and_stays(reopen: Callable[[], Catalog]) -> None:
    catalog = reopen()

    assert catalog.list_databases() == ["default"]
    assert catalog.create_table("orders", ORDERS, creator=LOCAL).path == "default.orders"
    with pytest.raises(InvalidError, match="always there"):
        catalog.drop_database("default", cascade=True)


def drop(
    catalog: Catalog, table_id: int, values: dict[str, date] | PartitionInfo, *, if_exists: bool = False
) -> PartitionInfo | None:
    """Drop a partition whose one bucket ends with its 7th change."""
    found = catalog.partitions.present(table_id, values, if_exists=if_exists)
    if found is not None:
        catalog.partitions.drop(found, [found.first_offset + 7])
    return found


def test_databases_are_created_listed_and_dropped(catalog: Catalog, reopen: Callable[[], Catalog]) -> None:
    catalog.create_database("shop", if_not_exists=True)
    assert reopen().list_databases() == ["default", "shop"]

    for name in ("shop", "SHOP"):
        with pytest.raises(AlreadyExistsError, match="database=shop"):
            catalog.create_database(name)
    catalog.drop_database("shop")
    catalog.drop_database("shop", if_exists=True)
    with pytest.raises(DatabaseNotFoundError, match="create it with create_database"):
        catalog.drop_database("shop")
    assert reopen().list_databases() == ["default"]


def test_a_database_with_tables_goes_only_with_cascade(catalog: Catalog, reopen: Callable[[], Catalog]) -> None:
    first, second = (
        catalog.create_table("shop.a", ORDERS, creator=LOCAL),
        catalog.create_table("shop.b", ORDERS, creator=LOCAL),
    )

    with pytest.raises(InvalidError, match=r"cascade .*tables=2"):
        catalog.drop_database("shop")
    assert catalog.drop_database("shop", cascade=True) == [first, second]
    assert reopen().dropped() == [first.table_id, second.table_id]


def test_a_created_table_is_found_by_path_and_id_after_reopening(
    catalog: Catalog, reopen: Callable[[], Catalog]
) -> None:
    info = catalog.create_table("shop.orders", ORDERS, creator=LOCAL)

    for opened in (catalog, reopen()):
        assert opened.table("shop.orders") == info
        assert opened.table_by_id(info.table_id) == info
        assert opened.list_tables("shop") == ["orders"]
        assert opened.tables() == [info]
    assert info.schema == ORDERS.schema
    assert info.created_ms == ManualClock().wall_ms()


def test_a_name_is_taken_once_in_any_case(catalog: Catalog) -> None:
    info = catalog.create_table("shop.orders", ORDERS, creator=LOCAL)

    assert catalog.create_table("shop.orders", TOTALS, if_not_exists=True, creator=LOCAL) == info
    for path, told in (("shop.orders", "pass if_not_exists=True"), ("shop.Orders", "differs only in case")):
        with pytest.raises(AlreadyExistsError, match=rf"{told}.* table=shop\.orders"):
            catalog.create_table(path, ORDERS, creator=LOCAL)


@pytest.mark.parametrize("path", ["", "a.b.c", "shop.", "shop.../x", "../shop.x"])
def test_a_table_with_an_invalid_path_is_refused(catalog: Catalog, path: str) -> None:
    with pytest.raises(InvalidError):
        catalog.create_table(path, ORDERS, creator=LOCAL)


def test_what_is_not_there_is_named_with_what_to_do(catalog: Catalog) -> None:
    with pytest.raises(DatabaseNotFoundError, match="create_database database='nope'"):
        catalog.create_table("nope.orders", ORDERS, creator=LOCAL)
    with pytest.raises(DatabaseNotFoundError):
        catalog.list_tables("nope")
    with pytest.raises(TableNotFoundError, match=r"create it, or look at list_tables table=shop\.orders"):
        catalog.table("shop.orders")
    with pytest.raises(TableNotFoundError, match="open it again by its path table_id=7"):
        catalog.table_by_id(7)
    with pytest.raises(TableNotFoundError):
        catalog.drop_table("shop.orders")
    assert catalog.drop_table("shop.orders", if_exists=True) is None


def test_a_dropped_table_is_dropping_until_forgotten(catalog: Catalog, reopen: Callable[[], Catalog]) -> None:
    info = catalog.create_table("shop.orders", ORDERS, creator=LOCAL)
    catalog.drop_table("shop.orders")

    for opened in (catalog, reopen()):
        assert opened.dropped() == [info.table_id]
        assert opened.list_tables("shop") == []
        assert opened.schema(info.table_id, 0) == ORDERS.schema
        assert opened.table_by_id(info.table_id, dropped=True) == info
        with pytest.raises(TableNotFoundError):
            opened.table_by_id(info.table_id)
    catalog.forget(info.table_id)
    catalog.forget(info.table_id)
    for opened in (catalog, reopen()):
        assert opened.dropped() == []
        with pytest.raises(TableNotFoundError):
            opened.schema(info.table_id, 0)


def test_ids_are_never_used_again(catalog: Catalog, reopen: Callable[[], Catalog]) -> None:
    ids = []
    for _ in range(3):
        ids.append(catalog.create_table("shop.orders", ORDERS, creator=LOCAL).table_id)
        catalog.drop_table("shop.orders")
        catalog.forget(ids[-1])
        catalog = reopen()

    assert ids == [1, 2, 3]


def test_nothing_is_left_of_a_forgotten_table(catalog: Catalog, store: FullStore) -> None:
    before = {entry.key for entry in store.list("")}
    info = catalog.create_table("shop.orders", BY_DAY, creator=LOCAL)
    catalog.add_column(info.table_id, "note", "string")
    catalog.partitions.create(info.table_id, NEW_YEAR)
    catalog.partitions.create(info.table_id, {"day": date(2024, 1, 2)})
    drop(catalog, info.table_id, NEW_YEAR)

    catalog.drop_table("shop.orders")
    catalog.forget(info.table_id)

    assert {entry.key for entry in store.list("")} - before == {"catalog/counter"}
    assert catalog.partitions.dropped() == []


def test_an_added_column_makes_a_new_schema_and_keeps_the_old(catalog: Catalog, reopen: Callable[[], Catalog]) -> None:
    info = catalog.create_table("shop.orders", ORDERS, creator=LOCAL)

    grown = catalog.add_column(info.table_id, "note", pa.string())

    assert grown.schema_id == 1
    assert grown.schema.column("note").id == 2
    for opened in (catalog, reopen()):
        assert opened.table("shop.orders") == grown
        assert opened.schema(info.table_id, 0) == ORDERS.schema
        assert opened.schema(info.table_id, 1) == grown.schema
    with pytest.raises(NotFoundError, match="never had that schema"):
        catalog.schema(info.table_id, 2)


@pytest.mark.parametrize(
    ("spec", "column", "message"),
    [
        (ORDERS, ("_op", "string"), "reserved"),
        (ORDERS, ("n", pa.uint64()), "decimal"),
        (ORDERS, ("n", "bigint", "sum"), "only columns of aggregate tables"),
        (TOTALS, ("m", "bigint"), "choose one of array_agg"),
        (TOTALS, ("m", "string", "sum"), "sum takes"),
    ],
)
def test_a_column_that_does_not_fit_is_refused(
    catalog: Catalog, spec: Any, column: tuple[Any, ...], message: str
) -> None:
    info = catalog.create_table("shop.t", spec, creator=LOCAL)

    with pytest.raises(InvalidError, match=message):
        catalog.add_column(info.table_id, *column)
    assert catalog.table("shop.t") == info


def test_a_column_that_differs_in_case_alone_is_there_already(catalog: Catalog) -> None:
    info = catalog.create_table("shop.t", ORDERS, creator=LOCAL)

    with pytest.raises(AlreadyExistsError, match="there is a column of that name"):
        catalog.add_column(info.table_id, "V", "string")
    assert catalog.table("shop.t") == info


def test_an_aggregate_table_takes_a_column_with_its_function(catalog: Catalog) -> None:
    info = catalog.create_table("shop.t", TOTALS, creator=LOCAL)

    grown = catalog.add_column(info.table_id, "names", "string", "listagg", delimiter=";")

    assert grown.schema.column("names").agg_params == {"delimiter": ";"}


def test_properties_are_changed_and_set_back(catalog: Catalog, reopen: Callable[[], Catalog]) -> None:
    info = catalog.create_table("shop.orders", ORDERS, creator=LOCAL)

    changed = catalog.set_properties(info.table_id, {"log.retention": "1h", "delete.behavior": "disable"})
    assert changed.options.log_retention_ms == 3_600_000
    assert catalog.set_properties(info.table_id, {"log.retention": None}).properties == {"delete.behavior": "disable"}
    assert reopen().table("shop.orders").properties == {"delete.behavior": "disable"}
    with pytest.raises(InvalidError, match="no such table property"):
        catalog.set_properties(info.table_id, {"nope": 1})
    with pytest.raises(InvalidError, match="no such table property"):
        catalog.set_properties(info.table_id, {"nope": None})
    with pytest.raises(InvalidError, match="only an aggregate table"):
        catalog.set_properties(info.table_id, {"aggregate.retract": "ignore"})


def test_partitions_are_created_listed_and_dropped(catalog: Catalog, reopen: Callable[[], Catalog]) -> None:
    table_id = catalog.create_table("shop.days", BY_DAY, creator=LOCAL).table_id

    created = catalog.partitions.create(table_id, NEW_YEAR)
    assert (created.partition_id, created.name) == (1, "day=2024-01-01")
    assert catalog.partitions.create(table_id, NEW_YEAR, if_not_exists=True) == created
    with pytest.raises(AlreadyExistsError, match="partition=day=2024-01-01"):
        catalog.partitions.create(table_id, NEW_YEAR)
    assert reopen().partitions.of(table_id) == [created]
    assert reopen().partitions.get(table_id, "day=2024-01-01") == created

    assert drop(catalog, table_id, NEW_YEAR) == created
    assert drop(catalog, table_id, NEW_YEAR, if_exists=True) is None
    with pytest.raises(PartitionNotFoundError, match="list_partitions"):
        drop(catalog, table_id, NEW_YEAR)
    for opened in (catalog, reopen()):
        assert opened.partitions.of(table_id) == []
        assert opened.partitions.dropped() == [(table_id, 1)]
    assert catalog.partitions.create(table_id, NEW_YEAR).partition_id == 2
    catalog.partitions.forget(table_id, 1)
    catalog.partitions.forget(table_id, 1)
    assert reopen().partitions.dropped() == []
    assert [partition.partition_id for partition in reopen().partitions.of(table_id)] == [2]


def test_missing_partitions_are_made_in_one_step_up_to_the_limit(catalog: Catalog, store: FullStore) -> None:
    table_id = catalog.create_table("shop.days", BY_DAY, creator=LOCAL).table_id
    names = ["day=2024-01-02", "day=2024-01-01", "day=2024-01-02"]

    made = catalog.partitions.ensure(table_id, names)

    assert [partition.name for partition in made] == names
    assert len({entry.version for entry in store.list(f"catalog/partition/{table_id}/")}) == 1
    with pytest.raises(LimitError, match=r"partition\.max .* partitions=4 max=3"):
        catalog.partitions.ensure(table_id, ["day=2024-01-03", "day=2024-01-04"])
    assert len(catalog.partitions.of(table_id)) == 2


def test_partitions_need_a_partitioned_table_and_fitting_values(catalog: Catalog) -> None:
    plain = catalog.create_table("shop.orders", ORDERS, creator=LOCAL).table_id
    table_id = catalog.create_table("shop.days", BY_DAY, creator=LOCAL).table_id

    with pytest.raises(UnsupportedError, match="not partitioned"):
        catalog.partitions.create(plain, NEW_YEAR)
    assert catalog.partitions.of(plain) == []
    with pytest.raises(InvalidError, match="one value for each"):
        catalog.partitions.create(table_id, {"id": 1})
    with pytest.raises(InvalidError):
        catalog.partitions.ensure(table_id, ["day=../../x"])
    with pytest.raises(TableNotFoundError):
        catalog.partitions.of(99)


def test_a_failed_commit_changes_nothing_in_memory(
    catalog: Catalog, store: FullStore, reopen: Callable[[], Catalog]
) -> None:
    info = catalog.create_table("shop.days", BY_DAY, creator=LOCAL)
    partition = catalog.partitions.create(info.table_id, NEW_YEAR)
    store.full = True

    for change in (
        lambda: catalog.create_database("more"),
        lambda: catalog.create_table("shop.more", ORDERS, creator=LOCAL),
        lambda: catalog.drop_table("shop.days"),
        lambda: catalog.drop_database("shop", cascade=True),
        lambda: catalog.add_column(info.table_id, "note", "string"),
        lambda: catalog.set_properties(info.table_id, {"log.retention": "1h"}),
        lambda: catalog.partitions.create(info.table_id, {"day": date(2024, 1, 2)}),
        lambda: drop(catalog, info.table_id, NEW_YEAR),
    ):
        with pytest.raises(DiskFullError):
            change()
    store.full = False

    for opened in (catalog, reopen()):
        assert opened.list_databases() == ["default", "shop"]
        assert opened.tables() == [info]
        assert opened.partitions.of(info.table_id) == [partition]
        assert opened.dropped() == []
    assert catalog.create_table("shop.more", ORDERS, creator=LOCAL).table_id == info.table_id + 1


def test_a_second_writer_of_the_store_is_noticed(catalog: Catalog, reopen: Callable[[], Catalog]) -> None:
    other = reopen()
    other.create_table("shop.theirs", ORDERS, creator=LOCAL)

    with pytest.raises(ConflictError):
        catalog.create_table("shop.ours", ORDERS, creator=LOCAL)


@pytest.mark.parametrize(
    ("key", "value"),
    [("catalog/table/1", b"{"), ("catalog/table/1", b"{}"), ("catalog/schema/1/0", b"\xff"), ("catalog/counter", b"x")],
)
def test_an_entry_that_cannot_be_read_is_corruption(
    catalog: Catalog, store: FullStore, reopen: Callable[[], Catalog], key: str, value: bytes
) -> None:
    catalog.create_table("shop.orders", ORDERS, creator=LOCAL)
    store.commit([Put(key, value)])

    with pytest.raises(CorruptionError, match=f"key={key}"):
        reopen()


def test_threads_that_create_tables_get_distinct_ids(catalog: Catalog) -> None:
    found: list[int] = []

    def create(worker: int) -> None:
        for number in range(10):
            found.append(catalog.create_table(f"shop.t{worker}_{number}", ORDERS, creator=LOCAL).table_id)

    threads = [threading.Thread(target=create, args=(worker,)) for worker in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(found) == list(range(1, 41))


def test_no_name_of_a_user_stands_in_a_key_unescaped(catalog: Catalog, store: FullStore) -> None:
    spec = make_spec("c STRING, id BIGINT, PRIMARY KEY (c, id)", partitioned_by="c")
    table_id = catalog.create_table("shop.odd", spec, creator=LOCAL).table_id
    catalog.partitions.create(table_id, {"c": "../../\n\x00ü"})

    def printable(entry: Entry) -> bool:
        return entry.key.isascii() and entry.key.isprintable() and ".." not in entry.key

    assert all(printable(entry) for entry in store.list(""))


def test_a_partition_begins_in_a_life_that_none_of_its_name_had(
    catalog: Catalog, reopen: Callable[[], Catalog]
) -> None:
    table_id = catalog.create_table("shop.days", BY_DAY, creator=LOCAL).table_id
    begun = [catalog.partitions.create(table_id, NEW_YEAR).first_offset]
    for turn in range(6):
        drop(catalog, table_id, NEW_YEAR)
        if turn % 2:
            # Nothing of it is left but its number.
            catalog.partitions.forget(table_id, turn + 1)
        # The process may die between the drop and the next birth.
        catalog = reopen() if turn % 3 else catalog
        begun.append(catalog.partitions.create(table_id, NEW_YEAR).first_offset)

    assert begun == [life * LIFE_OFFSETS for life in range(7)]
    assert reopen().partitions.get(table_id, "day=2024-01-01").first_offset == begun[-1]


def test_partitions_that_are_created_together_begin_together(catalog: Catalog) -> None:
    table_id = catalog.create_table("shop.days", BY_DAY, creator=LOCAL).table_id
    catalog.partitions.ensure(table_id, ["day=2024-01-01", "day=2024-01-02"])
    drop(catalog, table_id, NEW_YEAR)

    made = catalog.partitions.ensure(table_id, ["day=2024-01-01", "day=2024-01-02", "day=2024-01-03"])

    assert [partition.first_offset for partition in made] == [LIFE_OFFSETS, 0, LIFE_OFFSETS]


def test_a_partition_stored_before_lives_were_began_at_0(
    catalog: Catalog, store: FullStore, reopen: Callable[[], Catalog]
) -> None:
    table_id = catalog.create_table("shop.days", BY_DAY, creator=LOCAL).table_id
    for _ in range(2):
        catalog.partitions.create(table_id, NEW_YEAR)
        drop(catalog, table_id, NEW_YEAR)
    catalog.partitions.create(table_id, NEW_YEAR)
    (entry,) = store.list(f"catalog/partition/{table_id}/3")
    facts = json.loads(entry.value)
    del facts["first_offset"]
    store.commit([Put(entry.key, json.dumps(facts).encode())])

    older = reopen()

    assert older.partitions.get(table_id, "day=2024-01-01").first_offset == 0
    # What was dropped in those days counts, too.
    assert older.partitions.create(table_id, {"day": date(2024, 1, 2)}).first_offset == 2 * LIFE_OFFSETS


def test_a_table_whose_offsets_are_used_up_takes_no_more_partitions(
    catalog: Catalog, store: FullStore, reopen: Callable[[], Catalog]
) -> None:
    table_id = catalog.create_table("shop.days", BY_DAY, creator=LOCAL).table_id
    catalog.partitions.create(table_id, NEW_YEAR)
    lives = (OFFSET_MAX + 1) // LIFE_OFFSETS
    store.commit([Put(f"catalog/counter/{table_id}", str(lives).encode())])
    catalog = reopen()

    last = catalog.partitions.create(table_id, {"day": date(2024, 1, 2)})
    drop(catalog, table_id, NEW_YEAR)

    assert last.first_offset == (lives - 2) * LIFE_OFFSETS
    with pytest.raises(LimitError, match="go on in a new table"):
        catalog.partitions.create(table_id, NEW_YEAR)
    assert reopen().partitions.of(table_id) == [last]


def test_a_partition_that_was_dropped_already_is_not_taken_for_the_next_of_its_name(catalog: Catalog) -> None:
    table_id = catalog.create_table("shop.days", BY_DAY, creator=LOCAL).table_id
    old = catalog.partitions.create(table_id, NEW_YEAR)
    assert drop(catalog, table_id, old) == old
    new = catalog.partitions.create(table_id, NEW_YEAR)

    assert drop(catalog, table_id, old) is None
    assert catalog.partitions.of(table_id) == [new]


def test_where_a_partition_ended_is_known_until_it_is_forgotten(
    catalog: Catalog, reopen: Callable[[], Catalog]
) -> None:
    table_id = catalog.create_table("shop.days", BY_DAY, creator=LOCAL).table_id
    for turn in range(3):
        catalog.partitions.create(table_id, NEW_YEAR)
        drop(catalog, table_id, NEW_YEAR)
        if turn < 2:
            catalog.partitions.forget(table_id, turn + 1)

    for opened in (catalog, reopen()):
        assert [(gone.partition_id, gone.name, gone.ends) for gone in opened.partitions.gone(table_id)] == [
            (life + 1, "day=2024-01-01", (life * LIFE_OFFSETS + 7,)) for life in range(3)
        ]
        assert [gone.partition_id for gone in opened.partitions.gone(table_id, since=3)] == [3]
        assert opened.partitions.births(table_id) == 4
    gone = catalog.partitions.gone(table_id)
    catalog.partitions.forget_gone(table_id, gone[0].dropped_ms)
    assert catalog.partitions.gone(table_id) == gone
    catalog.partitions.forget_gone(table_id, gone[-1].dropped_ms + 1)

    # One whose files are still there is read by somebody.
    for opened in (catalog, reopen()):
        assert [gone.partition_id for gone in opened.partitions.gone(table_id)] == [3]
