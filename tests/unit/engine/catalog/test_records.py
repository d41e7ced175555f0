from __future__ import annotations

import random
from datetime import date, timedelta

import pytest

from penstock.engine.catalog.catalog import Catalog
from penstock.engine.catalog.records import CatalogRecords
from penstock.engine.metadata.memory_store import MemoryMetadataStore
from penstock.engine.metadata.store import ABSENT, Put
from penstock.errors import CorruptionError, PenstockError
from penstock.model.table.spec import make_spec
from penstock.testing.manual_clock import ManualClock

SPEC = make_spec("day DATE, id BIGINT, v STRING, PRIMARY KEY (day, id)", partitioned_by="day", buckets=2)
DAYS = [date(2024, 1, 1) + timedelta(days=number) for number in range(4)]


def facts(records: CatalogRecords) -> tuple[object, ...]:
    """Return all that the records say."""
    tables = sorted(records.tables)
    return (
        set(records.databases),
        dict(records.tables),
        dict(records.ids),
        dict(records.creators),
        {table: dict(known) for table, known in records.schemas.items()},
        {table: dict(known) for table, known in records.partitions.items()},
        set(records.dropped_tables),
        dict(records.dropped_partitions),
        {table: dict(known) for table, known in records.gone.items()},
        records.next_table,
        [records.next_partition(table) for table in tables],
        [records.partition(table, partition) for table in tables for partition in range(1, 20)],
    )


def change(catalog: Catalog, choice: random.Random) -> None:
    """Make one change of the catalog, of any kind; one that is refused changes nothing."""
    database, table = choice.choice(["default", "shop"]), choice.choice(["orders", "returns"])
    path, day = f"{database}.{table}", {"day": choice.choice(DAYS)}
    try:
        match choice.randrange(10):
            case 0:
                catalog.create_database("shop", if_not_exists=True)
            case 1 | 2:
                catalog.create_table(path, SPEC, creator=choice.choice(["ada", "local"]))
            case 3:
                catalog.add_column(catalog.table(path).table_id, f"c{choice.randrange(9)}", "BIGINT")
            case 4 | 5 | 6:
                catalog.partitions.create(catalog.table(path).table_id, day)
            case 7:
                partition = catalog.partitions.present(catalog.table(path).table_id, day)
                assert partition is not None
                catalog.partitions.drop(partition, [3, 4])
            case 8:
                for table_id, partition_id in catalog.partitions.dropped():
                    catalog.partitions.forget(table_id, partition_id)
                for table_id in catalog.dropped():
                    catalog.forget(table_id)
            case 9 if choice.random() < 0.3:
                catalog.drop_database("shop", cascade=True)
            case 9:
                catalog.drop_table(path)
    except PenstockError:
        pass


@pytest.mark.parametrize("seed", range(8))
def test_records_that_applied_their_commits_are_those_that_a_start_reads(seed: int) -> None:
    print("seed", seed)
    store, choice = MemoryMetadataStore(), random.Random(seed)
    catalog = Catalog(store, ManualClock())
    for _ in range(120):
        change(catalog, choice)

        assert facts(catalog._records) == facts(CatalogRecords(store))


def test_a_table_that_was_altered_is_the_one_that_is_known() -> None:
    catalog = Catalog(MemoryMetadataStore(), ManualClock())
    made = catalog.create_table("orders", SPEC, creator="local")
    altered = catalog.add_column(made.table_id, "n", "BIGINT")

    assert catalog.table("orders") is altered
    assert catalog.add_column(made.table_id, "m", "BIGINT").schema_id == 2


def test_a_key_of_the_wrong_shape_is_refused() -> None:
    store = MemoryMetadataStore()
    store.commit([Put("catalog/schema/1", b"{}", ABSENT)])

    with pytest.raises(CorruptionError, match="metadata cannot be read"):
        CatalogRecords(store)


def test_a_kind_that_is_not_known_is_left_alone() -> None:
    store = MemoryMetadataStore()
    store.commit([Put("catalog/wish/1", b"{}", ABSENT)])

    assert CatalogRecords(store).next_table == 1
