"""The short way of one key gives what the long way gives, or leaves the key to it."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.client.ingest.ingest import ingest_keys
from penstock.client.lookup.single_key import SingleKey
from penstock.model.table.spec import make_spec

VALUES: list[Any] = [
    *(0, 7, -1, 2**31 - 1, 2**31, -(2**63), 2**63 - 1, 2**63, 10**30),
    *("", "ulm", "ü\0\U0001f600", "7", "\ud800"),
    *(None, True, 1.0, 1.5, float("nan"), b"x", Decimal(7), np.int64(7), np.str_("x"), [1], {"a": 1}),
    datetime.date(2026, 11, 16),
]
TYPES = ["TINYINT", "INT", "BIGINT", "STRING", "BINARY", "DATE", "DECIMAL(18,2)"]


@pytest.mark.parametrize("kind", TYPES)
def test_one_column_is_the_same_by_the_short_way_or_left_alone(kind: str) -> None:
    schema = make_spec(f"k {kind}, v STRING, PRIMARY KEY (k)").schema
    single = SingleKey(schema)

    for value in VALUES:
        batch = single.batch([value])

        if batch is not None:
            assert type(value) in (int, str)
            assert batch.equals(ingest_keys([{"k": value}], schema), check_metadata=True), value


def test_several_columns_come_in_the_order_of_the_key() -> None:
    schema = make_spec("v STRING, day INT, city STRING, PRIMARY KEY (city, day)").schema

    batch = SingleKey(schema).batch(["ulm", 7])

    assert batch is not None
    assert batch.equals(ingest_keys([{"city": "ulm", "day": 7}], schema), check_metadata=True)
    assert SingleKey(schema).batch([7, "ulm"]) is None
    assert SingleKey(schema).batch(["ulm"]) is None


def test_common_keys_take_the_short_way() -> None:
    for kind, value in (("BIGINT", 7), ("INT", -7), ("STRING", "ulm")):
        batch = SingleKey(make_spec(f"k {kind}, PRIMARY KEY (k)").schema).batch([value])
        assert batch is not None
        assert batch.to_pylist() == [{"k": value}]
        assert isinstance(batch, pa.RecordBatch)
