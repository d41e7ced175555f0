"""Durations and sizes as people write them: `"10min"`, `"4MB"`. Kept as integer milliseconds and bytes."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Final

from penstock.errors import InvalidError

_DURATION_MS: Final = {
    "ms": 1,
    "s": 1_000,
    "sec": 1_000,
    "m": 60_000,
    "min": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
}
_SIZE_BYTES: Final = {
    "": 1,
    "b": 1,
    "kb": 1 << 10,
    "kib": 1 << 10,
    "mb": 1 << 20,
    "mib": 1 << 20,
    "gb": 1 << 30,
    "gib": 1 << 30,
    "tb": 1 << 40,
    "tib": 1 << 40,
}
_QUANTITY: Final = re.compile(r"\s*(\d{1,15})\s*([A-Za-z]*)\s*", re.ASCII)
QUANTITY_MAX: Final = (1 << 62) - 1
"""Nothing that is counted in milliseconds or bytes is larger."""


def parse_duration_ms(value: str | timedelta) -> int:
    """Return a duration in milliseconds, from `"300ms"`, `"60s"`, `"10min"`, `"1h"`, `"7d"` or a timedelta.

    Raises:
        InvalidError: not a duration, negative, or finer than a millisecond.
    """
    if isinstance(value, timedelta):
        if value < timedelta(0) or value % timedelta(milliseconds=1):
            raise InvalidError("a duration is a whole number of milliseconds, not negative", duration=repr(value))
        return value // timedelta(milliseconds=1)
    return _parse(value, _DURATION_MS, "a duration is a number with a unit: 300ms, 60s, 10min, 1h, 7d", "duration")


def parse_bytes(value: str | int) -> int:
    """Return a size in bytes, from `"4MB"` (1 MB is 1,048,576 bytes) or a number of bytes.

    Raises:
        InvalidError: not a size, or negative.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        if not 0 <= value <= QUANTITY_MAX:
            raise InvalidError("a size is a number of bytes, not negative", size=value)
        return value
    return _parse(value, _SIZE_BYTES, "a size is a number of bytes, or has a unit: 512KB, 4MB, 1GB", "size")


def _parse(value: object, units: dict[str, int], hint: str, fact: str) -> int:
    match = _QUANTITY.fullmatch(value) if isinstance(value, str) else None
    unit = None if match is None else units.get(match[2].lower())
    if match is None or unit is None:
        raise InvalidError(hint, **{fact: repr(value)})
    amount = int(match[1]) * unit
    if amount > QUANTITY_MAX:
        raise InvalidError(f"the {fact} is too large", **{fact: repr(value)})
    return amount


def format_duration_ms(duration_ms: int) -> str:
    """Return the shortest exact way to write a duration."""
    for unit in ("d", "h", "min", "s"):
        if duration_ms and duration_ms % _DURATION_MS[unit] == 0:
            return f"{duration_ms // _DURATION_MS[unit]}{unit}"
    return f"{duration_ms}ms"


def format_bytes(size: int) -> str:
    """Return the shortest exact way to write a size."""
    for unit in ("tb", "gb", "mb", "kb"):
        if size and size % _SIZE_BYTES[unit] == 0:
            return f"{size // _SIZE_BYTES[unit]}{unit.upper()}"
    return f"{size}B"
