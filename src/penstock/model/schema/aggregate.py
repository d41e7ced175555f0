"""The functions by which an aggregating table folds the values of a column."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Final

import pyarrow as pa
from pyarrow import types as arrow

from penstock.errors import InvalidError


class AggFunction(StrEnum):
    """How a column of an aggregating table takes a new value in."""

    SUM = "sum"
    PRODUCT = "product"
    MIN = "min"
    MAX = "max"
    COUNT = "count"
    LAST_VALUE = "last_value"
    LAST_VALUE_IGNORE_NULLS = "last_value_ignore_nulls"
    FIRST_VALUE = "first_value"
    FIRST_VALUE_IGNORE_NULLS = "first_value_ignore_nulls"
    LISTAGG = "listagg"
    STRING_AGG = "listagg"
    ARRAY_AGG = "array_agg"
    BOOL_AND = "bool_and"
    BOOL_OR = "bool_or"
    RBM32 = "rbm32"
    RBM64 = "rbm64"

    @classmethod
    def parse(cls, word: str | AggFunction) -> AggFunction:
        """Return the function that a word names, whatever its case.

        Raises:
            InvalidError: no function has that name; the message lists them.
        """
        function = _BY_WORD.get(word.lower()) if isinstance(word, str) else None
        if function is None:
            raise InvalidError(f"no such aggregate function; choose one of {CHOICES}", function=repr(word))
        return function


_BY_WORD: Final = {**{function.value: function for function in AggFunction}, "string_agg": AggFunction.LISTAGG}
CHOICES: Final = ", ".join(sorted(_BY_WORD))
"""Every word that names a function, for messages."""

DELIMITER: Final = "delimiter"
DEFAULT_DELIMITER: Final = ","


def _is_number(type_: pa.DataType) -> bool:
    return bool(arrow.is_integer(type_) or arrow.is_floating(type_) or arrow.is_decimal(type_))


def _is_text(type_: pa.DataType) -> bool:
    return bool(arrow.is_string(type_) or arrow.is_large_string(type_))


def _is_bytes(type_: pa.DataType) -> bool:
    return bool(arrow.is_binary(type_) or arrow.is_large_binary(type_))


def _is_ordered(type_: pa.DataType) -> bool:
    return _is_number(type_) or _is_text(type_) or bool(arrow.is_date(type_) or arrow.is_timestamp(type_))


def _is_list(type_: pa.DataType) -> bool:
    return bool(arrow.is_list(type_) or arrow.is_large_list(type_))


def _is_counter(type_: pa.DataType) -> bool:
    return bool(arrow.is_int32(type_) or arrow.is_int64(type_))


_NUMBERS: Final = ("an integer, float or decimal", _is_number)
_ORDERED: Final = ("a number, string, date or timestamp", _is_ordered)
_ANY: Final[tuple[str, Callable[[pa.DataType], bool]]] = ("any type", lambda _: True)
_BOOLEAN: Final = ("boolean", lambda type_: bool(arrow.is_boolean(type_)))
_BYTES: Final = ("binary", _is_bytes)
_TAKES: Final[dict[AggFunction, tuple[str, Callable[[pa.DataType], bool]]]] = {
    AggFunction.SUM: _NUMBERS,
    AggFunction.PRODUCT: _NUMBERS,
    AggFunction.MIN: _ORDERED,
    AggFunction.MAX: _ORDERED,
    AggFunction.COUNT: ("bigint or int", _is_counter),
    AggFunction.LAST_VALUE: _ANY,
    AggFunction.LAST_VALUE_IGNORE_NULLS: _ANY,
    AggFunction.FIRST_VALUE: _ANY,
    AggFunction.FIRST_VALUE_IGNORE_NULLS: _ANY,
    AggFunction.LISTAGG: ("string", _is_text),
    AggFunction.ARRAY_AGG: ("an array", _is_list),
    AggFunction.BOOL_AND: _BOOLEAN,
    AggFunction.BOOL_OR: _BOOLEAN,
    AggFunction.RBM32: _BYTES,
    AggFunction.RBM64: _BYTES,
}


def types_taken(function: AggFunction) -> str:
    """Return, in words, which column types the function takes."""
    return _TAKES[function][0]


def check_takes(function: AggFunction, column: str, type_: pa.DataType) -> None:
    """Refuse a column type that the function cannot fold.

    Raises:
        InvalidError: the message says which types the function takes.
    """
    words, takes = _TAKES[function]
    if not takes(type_):
        raise InvalidError(f"{function} takes {words}", column=column, type=str(type_))
