"""Loose values as JSON: facts of errors, partition values, counters. Everything else has a field of its own.

JSON's own kinds stand for themselves; the rest is an object with one key that starts with `$`. A
value that has no form here is sent as its text when it may be (`loose`), else refused.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, Final

from penstock.errors import InvalidError, LimitError
from penstock.model.place.bucket import BucketId, TableBucket

DEPTH_MAX: Final = 16
TEXT_LENGTH_MAX: Final = 1 << 16
PAIRS_MAX: Final = 1_000
"""How many pairs a mapping whose keys are no texts may have: a sender can choose numbers that all hash alike."""

_READERS: Final[dict[str, Callable[[Any], object]]] = {
    "$bytes": lambda text: base64.b64decode(text, validate=True),
    "$float": float,
    "$decimal": Decimal,
    "$date": date.fromisoformat,
    "$datetime": datetime.fromisoformat,
    "$ms": lambda amount: timedelta(milliseconds=amount),
}


def write_value(value: object, *, loose: bool = False, depth: int = 0) -> Any:
    """Return a value as JSON.

    Raises:
        InvalidError: the value has no form on the wire and `loose` is not set, or is nested too deeply.
    """
    if depth > DEPTH_MAX:
        raise InvalidError("a value is nested too deeply", most=DEPTH_MAX)
    # A NamedTuple is a tuple and an enum a string: the narrower kinds come first.
    if isinstance(value, TableBucket):
        return {"$bucket": [value.table, value.partition, value.bucket]}
    if isinstance(value, BucketId):
        return _write_scalar(value, loose)
    if isinstance(value, Mapping):
        pairs = [[write_value(part, loose=loose, depth=depth + 1) for part in pair] for pair in value.items()]
        if all(type(key) is str and not key.startswith("$") for key in value):
            return dict(pairs)
        return {"$map": pairs}
    if isinstance(value, (list, tuple, set, frozenset)):
        items = sorted(value, key=repr) if isinstance(value, (set, frozenset)) else value
        return [write_value(item, loose=loose, depth=depth + 1) for item in items]
    return _write_scalar(value, loose)


def read_value(value: Any, *, depth: int = 0) -> Any:
    """Return the value that JSON says.

    Raises:
        InvalidError: the JSON names a kind that does not exist, or says it wrongly.
    """
    if depth > DEPTH_MAX:
        raise InvalidError("a value is nested too deeply", most=DEPTH_MAX)
    if isinstance(value, list):
        return [read_value(item, depth=depth + 1) for item in value]
    if not isinstance(value, dict):
        return value
    if len(value) == 1:
        kind, inner = next(iter(value.items()))
        if kind.startswith("$"):
            return _read_kind(kind, inner, depth)
    return {key: read_value(item, depth=depth + 1) for key, item in value.items()}


def _write_scalar(value: object, loose: bool) -> Any:
    if value is None or isinstance(value, (bool, str)):
        return value if not isinstance(value, str) else str(value)[:TEXT_LENGTH_MAX]
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else {"$float": str(value)}
    if isinstance(value, (bytes, bytearray, memoryview)):
        return {"$bytes": base64.b64encode(value).decode()}
    if isinstance(value, Decimal):
        return {"$decimal": str(value)}
    if isinstance(value, datetime):
        return {"$datetime": (value if value.tzinfo is None else value.astimezone(UTC)).isoformat()}
    if isinstance(value, date):
        return {"$date": value.isoformat()}
    if isinstance(value, timedelta):
        return {"$ms": value // timedelta(milliseconds=1)}
    if loose:
        return str(value)[:TEXT_LENGTH_MAX]
    raise InvalidError("a value of this type is not sent", type=type(value).__name__)


def _read_kind(kind: str, inner: Any, depth: int) -> object:
    if kind == "$map" and isinstance(inner, list) and len(inner) > PAIRS_MAX:
        raise LimitError("a mapping in the message has too many pairs", pairs=len(inner), most=PAIRS_MAX)
    try:
        if kind == "$map":
            return {read_value(key, depth=depth + 1): read_value(item, depth=depth + 1) for key, item in inner}
        if kind == "$bucket":
            table, partition, bucket = inner
            return TableBucket(str(table), None if partition is None else str(partition), int(bucket))
        return _READERS[kind](inner)
    except (KeyError, TypeError, ValueError, ArithmeticError) as error:
        raise InvalidError("a value is malformed", kind=kind[:80]) from error
