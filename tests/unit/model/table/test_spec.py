from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest

from penstock.errors import InvalidError
from penstock.model.schema.schema import Schema
from penstock.model.table.merge_engine import DeleteBehavior, MergeEngine
from penstock.model.table.properties import PROPERTIES
from penstock.model.table.spec import make_spec, spec_from_json
from penstock.model.table.table import TableInfo

ORDERS = pa.schema([("id", pa.int64()), ("day", pa.date32()), ("v", pa.int64()), ("s", pa.string())])


def test_a_schema_ddl_and_arrow_give_the_same_spec() -> None:
    built = Schema.builder().column("id", "bigint").column("s", "string").primary_key("id").build()

    from_schema = make_spec(built)
    from_ddl = make_spec("id BIGINT, s STRING, PRIMARY KEY (id)")
    from_arrow = make_spec(pa.schema([("id", pa.int64()), ("s", pa.string())]), primary_key=["id"])

    assert from_schema == from_ddl == from_arrow
    assert from_schema.merge_engine is MergeEngine.LAST_ROW
    assert from_schema.bucket_key == ("id",)
    assert from_schema.buckets == 1
    assert from_schema.options.delete_behavior is DeleteBehavior.ALLOW


def test_a_table_without_a_key_is_a_log() -> None:
    spec = make_spec(ORDERS, buckets=4)

    assert not spec.keyed
    assert spec.merge_engine is None
    assert spec.bucket_key == ()


def test_functions_imply_an_aggregate_table() -> None:
    by_ddl = make_spec("id BIGINT, v BIGINT SUM, PRIMARY KEY (id)")
    by_name = make_spec("id BIGINT, v BIGINT, PRIMARY KEY (id)", aggregates={"v": "SUM"})

    assert by_ddl == by_name
    assert by_ddl.merge_engine is MergeEngine.AGGREGATE
    assert by_ddl.options.column_lock_enabled
    assert by_ddl.options.delete_behavior is DeleteBehavior.IGNORE


def test_a_version_column_implies_a_versioned_table() -> None:
    spec = make_spec(ORDERS, primary_key="id", version_column="v")

    assert spec.merge_engine is MergeEngine.VERSIONED
    assert not spec.takes_partial


def test_partition_columns_stay_out_of_the_bucket_key() -> None:
    spec = make_spec(ORDERS, primary_key=["id", "day"], partitioned_by=["day"])

    assert spec.bucket_key == ("id",)
    assert spec.partitioned


def test_partition_columns_of_a_log_table_are_never_null() -> None:
    spec = make_spec(ORDERS, partitioned_by=["day"])

    assert not spec.schema.column("day").nullable


def test_columns_are_numbered_afresh() -> None:
    grown = make_spec(ORDERS, primary_key="id").schema.add_column("note", "string")
    fewer = Schema(grown.columns[1:], ())

    assert [column.id for column in make_spec(fewer).schema.columns] == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"merge_engine": "latest"}, "choose one of last_row, first_row, versioned, aggregate"),
        ({"buckets": 0}, "1 to 1024 buckets"),
        ({"buckets": 1025}, "1 to 1024 buckets"),
        ({"buckets": True}, "1 to 1024 buckets"),
        ({"buckets": "4"}, "1 to 1024 buckets"),
        ({"bucket_key": ["v"]}, "part of the primary key"),
        ({"bucket_key": ["nope"]}, "no such column"),
        ({"bucket_key": ["id", "id"]}, "named twice"),
        ({"partitioned_by": ["v"]}, "add it there"),
        ({"partitioned_by": ["id", "day"]}, "partition by fewer"),
        ({"merge_engine": "versioned"}, "go together"),
        ({"merge_engine": "first_row", "version_column": "v"}, "go together"),
        ({"version_column": "s"}, "a version is an integer"),
        ({"version_column": "day"}, "not part of the primary key"),
        ({"merge_engine": "aggregate"}, "choose one of .* columns=v, s"),
        ({"aggregates": {"v": "sum"}}, "columns=s"),
        ({"aggregates": {"v": "sum", "s": "sum"}}, "sum takes an integer"),
        ({"aggregates": {"v": "sum", "s": "max"}, "merge_engine": "last_row"}, "drop the functions"),
        ({"aggregates": {"nope": "sum"}}, "no such column"),
        ({"aggregates": {"id": "sum"}}, "key column has no aggregate"),
        ({"properties": {"ttl": "1d"}}, "no such table property; there are delete.behavior, log.retention"),
        ({"properties": {"log.retention": "soon"}}, "property=log.retention"),
        ({"properties": {"log.retention": "0s"}}, "longer than zero"),
        ({"properties": {"partition.max": 0}}, "whole number"),
        ({"properties": {"delete.behavior": "maybe"}}, "allow, ignore, disable"),
        ({"properties": {"column-lock.enabled": "perhaps"}}, "true or false"),
        ({"properties": {"delete.behavior": "allow"}, "merge_engine": "first_row"}, "use ignore or disable"),
        ({"properties": {"delete.behavior": "allow"}, "version_column": "v"}, "use ignore or disable"),
        ({"properties": {"aggregate.retract": "ignore"}}, "only an aggregate table"),
        ({"primary_key": ["v", "nope"]}, "no such column"),
    ],
)
def test_what_does_not_go_together_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidError, match=message):
        make_spec(ORDERS, **({"primary_key": ["id", "day"]} | options))


@pytest.mark.parametrize(
    "options",
    [{"bucket_key": ["id"]}, {"merge_engine": "last_row"}, {"version_column": "v"}, {"aggregates": {"v": "sum"}}],
)
def test_a_log_table_has_nothing_of_a_key(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidError):
        make_spec(ORDERS, **options)
    with pytest.raises(InvalidError, match="no deletes"):
        make_spec(ORDERS, properties={"delete.behavior": "ignore"})


def test_another_key_than_the_schemas_is_refused() -> None:
    with pytest.raises(InvalidError, match="another primary key"):
        make_spec("id BIGINT PRIMARY KEY, v INT", primary_key=["v"])


def test_delete_at_zero_names_a_count() -> None:
    ddl = "id BIGINT PRIMARY KEY, n BIGINT COUNT, m BIGINT MAX, s BIGINT SUM"

    assert make_spec(ddl, properties={"aggregate.delete-at-zero": "n"}).options.aggregate_delete_at_zero == "n"
    for column in ("m", "s"):
        with pytest.raises(InvalidError, match="not a count"):
            make_spec(ddl, properties={"aggregate.delete-at-zero": column})
    with pytest.raises(InvalidError, match="no such column"):
        make_spec(ddl, properties={"aggregate.delete-at-zero": "x"})


def test_properties_are_kept_as_given_and_read_typed() -> None:
    spec = make_spec(
        ORDERS,
        primary_key="id",
        properties={
            "log.retention": timedelta(hours=48),
            "log.retention-bytes": 1 << 31,
            "kv.snapshot.interval": "120s",
            "kv.snapshot.num-retained": 5,
            "column-lock.enabled": True,
            "partition.auto-create": "False",
            "partition.retention": None,
        },
    )

    assert spec.properties == {
        "log.retention": "2d",
        "log.retention-bytes": "2GB",
        "kv.snapshot.interval": "120s",
        "kv.snapshot.num-retained": "5",
        "column-lock.enabled": "true",
        "partition.auto-create": "False",
        "partition.retention": "none",
    }
    assert spec.options.log_retention_ms == 172_800_000
    assert spec.options.log_bytes_max(live_bytes=1 << 40) == 1 << 31
    assert spec.options.kv_snapshot_interval_ms == 120_000
    assert spec.options.column_lock_enabled
    assert not spec.options.partition_auto_create
    assert spec.options.partition_retention_ms is None


def test_defaults_are_those_of_the_guide() -> None:
    options = make_spec(ORDERS, primary_key="id").options

    assert options.log_retention_ms == 7 * 86_400_000
    assert options.log_bytes_max(live_bytes=0) == 1 << 30
    assert options.log_bytes_max(live_bytes=1 << 30) == 4 << 30
    assert options.kv_snapshot_interval_ms is None
    assert options.partition_max == 1000
    assert options.aggregate_max_value_bytes == 1 << 20
    assert not options.column_lock_enabled
    assert len(PROPERTIES) == 13


def test_a_spec_reads_back_from_json_and_is_checked_again() -> None:
    spec = make_spec(
        ORDERS, primary_key=["id", "day"], partitioned_by="day", properties={"partition.max": 3}, buckets=2
    )
    stored = json.loads(json.dumps(spec.to_json()))

    assert spec_from_json(stored) == spec
    for broken in (
        {},
        {**stored, "buckets": 0},
        {**stored, "schema": {"columns": [], "primary_key": []}},
        {"schema": 3},
    ):
        with pytest.raises(InvalidError):
            spec_from_json(broken)


def test_a_table_shows_what_it_is_and_reads_back_from_json() -> None:
    spec = make_spec(ORDERS, primary_key=["id"], buckets=4)
    info = TableInfo(
        path="shop.orders", table_id=7, **{name: getattr(spec, name) for name in spec.__dataclass_fields__}
    )

    assert (
        repr(info)
        == "TableInfo(shop.orders: table_id=7, primary_key=['id'], merge_engine=last_row, buckets=4, columns=4)"
    )
    assert TableInfo.from_json(json.loads(json.dumps(info.to_json()))) == info
    assert (info.database, info.name) == ("shop", "orders")
