"""A stdout that keeps bytes, and rows of every type."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from decimal import Decimal

import pyarrow as pa
import pytest


@pytest.fixture
def stdout(capsysbinary: pytest.CaptureFixture[bytes]) -> Callable[[], bytes]:
    """Return a function that returns what was written to stdout so far."""
    kept = bytearray()

    def written() -> bytes:
        kept.extend(capsysbinary.readouterr().out)
        return bytes(kept)

    return written


@pytest.fixture
def rows() -> pa.Table:
    """Return rows of every kind of type: values, an empty one, a null."""
    noon = datetime.datetime(2026, 7, 1, 12, 0, 0, 5, tzinfo=datetime.UTC)
    return pa.table(
        {
            "id": pa.array([1, 2, 3], pa.int64()),
            "flag": pa.array([True, False, None]),
            "ratio": pa.array([1.5, -2e300, None], pa.float64()),
            "price": pa.array([Decimal("12.50"), Decimal("-0.01"), None], pa.decimal128(18, 2)),
            "city": pa.array(['Ulm, "old"\n\ttown\\', "", None]),
            "day": pa.array([datetime.date(2026, 7, 1), datetime.date(1969, 12, 31), None]),
            "at": pa.array([noon, noon, None], pa.timestamp("us", "UTC")),
            "local": pa.array([noon.replace(tzinfo=None)] * 2 + [None], pa.timestamp("us")),
            "blob": pa.array([b"\x00\xff", b"", None]),
            "tags": pa.array([["a", None], [], None], pa.list_(pa.string())),
            "days": pa.array([[datetime.date(2026, 7, 1)], [], None], pa.list_(pa.date32())),
            "point": pa.array(
                [{"x": 1, "n": "p"}, {"x": None, "n": ""}, None], pa.struct([("x", pa.int64()), ("n", pa.string())])
            ),
            "counts": pa.array([[("k", 1)], [], None], pa.map_(pa.string(), pa.int64())),
        }
    )
