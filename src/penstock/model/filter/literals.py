"""Values inside texts: dates, timestamps, numbers. As Spark reads them; UTC is the zone where none is named."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Final

from penstock.errors import InvalidError
from penstock.model.filter.predicate import Value

DIGITS_MAX: Final = 38
_DATE: Final = r"(\d{4})-(\d{1,2})-(\d{1,2})"
_TIME: Final = r"(?:[ T](\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.(\d{1,6}))?)?)?"
_ZONE: Final = r"\s*(Z|UTC|[+-]\d{1,2}:\d{2}(?::\d{2})?)?"
_DATE_TEXT: Final = re.compile(_DATE, re.ASCII)
_TIMESTAMP_TEXT: Final = re.compile(_DATE + _TIME + _ZONE, re.ASCII)
_INTEGER_TEXT: Final = re.compile(r"[+-]?\d{1,38}", re.ASCII)


def read_number(text: str) -> int | Decimal | float:
    """Return the number that digits stand for: whole, decimal, or with an exponent a double.

    Raises:
        InvalidError: more digits than a decimal holds.
    """
    if "e" in text.lower():
        return float(text)
    if sum(character.isdigit() for character in text.lstrip("0")) > DIGITS_MAX:
        raise InvalidError(f"a number has at most {DIGITS_MAX} digits; give it an exponent", number=text[:60])
    return Decimal(text) if "." in text else int(text)


def read_date(text: str) -> date:
    """Return the date in a text such as `2024-01-31`.

    Raises:
        InvalidError: it is none.
    """
    match = _DATE_TEXT.fullmatch(text.strip())
    try:
        if match is not None:
            return date(int(match[1]), int(match[2]), int(match[3]))
    except ValueError:
        pass
    raise InvalidError("expected a date such as '2024-01-31'", value=repr(text))


def read_timestamp(text: str) -> datetime:
    """Return the timestamp in a text such as `2024-01-31 12:00:00.5+01:00`; naive if it names no zone.

    Raises:
        InvalidError: it is none, or finer than a microsecond.
    """
    match = _TIMESTAMP_TEXT.fullmatch(text.strip())
    try:
        if match is not None:
            year, month, day, hour, minute, second = (int(match[group] or 0) for group in range(1, 7))
            micros = int((match[7] or "").ljust(6, "0"))
            return datetime(year, month, day, hour, minute, second, micros, tzinfo=_read_zone(match[8]))
    except ValueError:
        pass
    raise InvalidError("expected a timestamp such as '2024-01-31 12:00:00.000001+01:00'", value=repr(text))


def read_integer(text: str) -> int:
    """Return the whole number in a text.

    Raises:
        InvalidError: it is none.
    """
    if _INTEGER_TEXT.fullmatch(text.strip()) is None:
        raise InvalidError("expected a whole number", value=repr(text))
    return int(text)


def read_double(text: str) -> float:
    """Return the double in a text; `NaN` and `Infinity` are doubles.

    Raises:
        InvalidError: it is none.
    """
    try:
        return float(text)
    except ValueError as cause:
        raise InvalidError("expected a number", value=repr(text)) from cause


def read_typed(word: str, text: str) -> Value:
    """Return the literal that a word and a quoted text make: `DATE '2024-01-31'`, `X'CAFE'`.

    Raises:
        InvalidError: the text is not of that type.
    """
    if word == "X":
        try:
            return bytes.fromhex(text)
        except ValueError as cause:
            raise InvalidError("expected hexadecimal digits", value=repr(text)) from cause
    if word == "DATE":
        return read_date(text)
    return read_double(text) if word == "DOUBLE" else read_timestamp(text)


TYPED_WORDS: Final = frozenset(("DATE", "TIMESTAMP", "TIMESTAMP_LTZ", "TIMESTAMP_NTZ", "DOUBLE", "X"))


def _read_zone(zone: str | None) -> timezone | None:
    if zone is None:
        return None
    if zone in ("Z", "UTC"):
        return UTC
    hours, minutes, *seconds = (int(part) for part in zone[1:].split(":"))
    offset = timedelta(hours=hours, minutes=minutes, seconds=sum(seconds))
    return timezone(-offset if zone[0] == "-" else offset)
