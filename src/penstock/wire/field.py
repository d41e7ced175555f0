"""Fields: how one kind of value is said in a frame's header, and how it is checked when it is heard.

Loops stand here in place of comprehensions, each of which is a call more for every field of every small request.

Fields are put together into records; a record refuses what it does not know, for an argument that is
ignored would be a promise broken. Batches leave the header: a field says only which body they are.
"""

from __future__ import annotations

import binascii
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from enum import StrEnum
from operator import index
from typing import Any, Final, Generic, TypeVar

import pyarrow as pa

from penstock.errors import InvalidError, LimitError
from penstock.model.place.bucket import TableBucket
from penstock.model.place.change import OFFSET_MAX
from penstock.wire.value import read_value, write_value

T = TypeVar("T")
E = TypeVar("E", bound=StrEnum)

TEXT_LENGTH_MAX: Final = 1 << 20
ITEMS_MAX: Final = 1 << 20
NAME_LENGTH_MAX: Final = 4_096
"""Of names of buckets, readers and the like: servers keep them, and name them in errors."""


@dataclass(frozen=True, slots=True)
class Field(Generic[T]):
    """How values of a type are written as JSON, beside the batches of the frame, and read back."""

    write: Callable[[T, list[pa.RecordBatch]], Any]
    read: Callable[[Any, Sequence[pa.RecordBatch]], T]


def _refuse(expected: str, value: object) -> InvalidError:
    return InvalidError(f"malformed message: expected {expected}", found=type(value).__name__)


def _plain(kind: type[T], expected: str) -> Field[T]:
    def read(value: Any, _: Sequence[pa.RecordBatch]) -> T:
        # By identity: to Python a bool is an int, to us it is not.
        if type(value) is not kind:
            raise _refuse(expected, value)
        return value

    return Field(lambda value, _: kind(value), read)  # type: ignore[call-arg]


def _read_text(value: Any, _: Sequence[pa.RecordBatch]) -> str:
    if type(value) is not str:
        raise _refuse("a text", value)
    if len(value) > TEXT_LENGTH_MAX:
        raise LimitError("a text or token in the message is too long", length=len(value), most=TEXT_LENGTH_MAX)
    return value


def _read_name(value: Any, _: Sequence[pa.RecordBatch]) -> str:
    if type(value) is not str:
        raise _refuse("a text", value)
    return _check_name(value)


def _check_name(name: str) -> str:
    if len(name) > NAME_LENGTH_MAX:
        raise LimitError("a name in the message is too long", length=len(name), most=NAME_LENGTH_MAX)
    return name


def _read_number(value: Any, _: Sequence[pa.RecordBatch]) -> int:
    if type(value) is not int or not -OFFSET_MAX <= value <= OFFSET_MAX:
        raise _refuse("a 64-bit number", value)
    return value


def _read_bytes(value: Any, batches: Sequence[pa.RecordBatch]) -> bytes:
    text = _read_text(value, batches)
    try:
        return binascii.a2b_base64(text, strict_mode=True)
    except (binascii.Error, ValueError) as error:
        raise _refuse("bytes in base64", value) from error


def _write_number(value: Any, _: list[pa.RecordBatch]) -> int:
    try:
        number = index(value)
    except TypeError as error:
        raise InvalidError("a whole number was expected", found=type(value).__name__) from error
    if not -OFFSET_MAX <= number <= OFFSET_MAX:
        raise InvalidError("a number has at most 64 bits", found=number)
    return number


def _write_text(value: Any, _: list[pa.RecordBatch]) -> str:
    # What is no text is not made one: a database called None would be a surprise.
    if not isinstance(value, str):
        raise InvalidError("a text was expected", found=type(value).__name__)
    return str(value)


def _write_batch(batch: pa.RecordBatch, batches: list[pa.RecordBatch]) -> int:
    batches.append(batch)
    return len(batches) - 1


def _read_batch(value: Any, batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    if type(value) is not int or not 0 <= value < len(batches):
        raise _refuse("the number of a body", value)
    return batches[value]


def _read_bucket(value: Any, _: Sequence[pa.RecordBatch]) -> TableBucket:
    if isinstance(value, list) and len(value) == 3:
        table, partition, bucket = value
        if type(table) is str and (partition is None or type(partition) is str) and type(bucket) is int:
            return TableBucket(_check_name(table), partition and _check_name(partition), bucket)
    raise _refuse("a bucket", value)


NOTHING: Final[Field[None]] = Field(lambda _value, _batches: None, lambda _value, _batches: None)
BOOL: Final[Field[bool]] = _plain(bool, "true or false")
INT: Final[Field[int]] = Field(_write_number, _read_number)
TEXT: Final[Field[str]] = Field(_write_text, _read_text)
NAME: Final[Field[str]] = Field(_write_text, _read_name)
BYTES: Final[Field[bytes]] = Field(lambda value, _: binascii.b2a_base64(value, newline=False).decode(), _read_bytes)
BATCH: Final[Field[pa.RecordBatch]] = Field(_write_batch, _read_batch)
BUCKET: Final[Field[TableBucket]] = Field(lambda value, _: list(value), _read_bucket)
VALUE: Final[Field[Any]] = Field(lambda value, _: write_value(value), lambda value, _: read_value(value))
LOOSE: Final[Field[Any]] = Field(lambda value, _: write_value(value, loose=True), lambda value, _: read_value(value))


def choice(kind: type[E]) -> Field[E]:
    """Return the field of an enum, whose members are texts."""
    # Looked up here: to call the class for one, or to ask a member for its value, takes three calls.
    members = {str(member): member for member in kind}

    def read(value: Any, _: Sequence[pa.RecordBatch]) -> E:
        found = members.get(value) if type(value) is str else None
        if found is None:
            raise InvalidError(f"malformed message: no such {kind.__name__.lower()}")
        return found

    return Field(lambda value, _: value, read)


def maybe(inner: Field[T]) -> Field[T | None]:
    """Return the field of a value that may be None."""
    return Field(
        lambda value, batches: None if value is None else inner.write(value, batches),
        lambda value, batches: None if value is None else inner.read(value, batches),
    )


def listed(inner: Field[T]) -> Field[list[T]]:
    """Return the field of a list."""

    def read(value: Any, batches: Sequence[pa.RecordBatch]) -> list[T]:
        if not isinstance(value, list) or len(value) > ITEMS_MAX:
            raise _refuse("a list", value)
        return [inner.read(item, batches) for item in value]

    return Field(lambda value, batches: [inner.write(item, batches) for item in value], read)


def tupled(inner: Field[T]) -> Field[tuple[T, ...]]:
    """Return the field of a tuple of any length."""
    items = listed(inner)
    return Field(
        lambda value, batches: items.write(list(value), batches),
        lambda value, batches: tuple(items.read(value, batches)),
    )


def by_bucket(*inner: Field[Any], make: Callable[..., T]) -> Field[Mapping[TableBucket, T]]:
    """Return the field of a map from buckets to a few values each, which `make` puts together."""

    def write(value: Mapping[TableBucket, Any], batches: list[pa.RecordBatch]) -> Any:
        rows = []
        for bucket, parts in value.items():
            row = parts if isinstance(parts, tuple) else (parts,)
            said = [*bucket]
            for field, part in zip(inner, row, strict=True):
                said.append(field.write(part, batches))
            rows.append(said)
        return rows

    def read(value: Any, batches: Sequence[pa.RecordBatch]) -> Mapping[TableBucket, T]:
        if not isinstance(value, list) or len(value) > ITEMS_MAX:
            raise _refuse("a list of buckets", value)
        found = {}
        for row in value:
            if not isinstance(row, list) or len(row) != 3 + len(inner):
                raise _refuse("a bucket and what belongs to it", row)
            parts = []
            for field, part in zip(inner, row[3:], strict=True):
                parts.append(field.read(part, batches))
            found[_read_bucket(row[:3], batches)] = make(*parts)
        return found

    return Field(write, read)


def record(kind: type[T], *grown: str, **inner: Field[Any]) -> Field[T]:
    """Return the field of a dataclass, from the field of each of its fields.

    Those of `grown` came later: they are said only where they are not the default, so that an end which does not know
    them is asked as before, and refuses what it would have to ignore.
    """
    assert is_dataclass(kind)
    assert set(inner) == {part.name for part in fields(kind)}
    defaults = {part.name: part.default for part in fields(kind) if part.name in grown}
    assert len(defaults) == len(grown)
    assert MISSING not in defaults.values()
    needed = {part.name for part in fields(kind) if part.default is MISSING and part.default_factory is MISSING}

    def write(value: T, batches: list[pa.RecordBatch]) -> Any:
        said = {}
        for name, field in inner.items():
            item = getattr(value, name)
            if name not in defaults or item != defaults[name]:
                said[name] = field.write(item, batches)
        return said

    def read(value: Any, batches: Sequence[pa.RecordBatch]) -> T:
        return kind(**read_named(inner, needed, value, batches))

    return Field(write, read)


def read_named(
    inner: Mapping[str, Field[Any]], needed: set[str], value: Any, batches: Sequence[pa.RecordBatch]
) -> dict[str, Any]:
    """Return named values, each read by its field.

    Raises:
        InvalidError: one is missing, unknown or malformed.
    """
    if not isinstance(value, dict):
        raise _refuse("named values", value)
    if not value.keys() <= inner.keys() or not needed <= value.keys():
        odd = sorted((value.keys() - inner.keys()) | (needed - value.keys()))
        raise InvalidError("malformed message: values are missing or unknown", names=", ".join(odd)[:200])
    found = {}
    for name, item in value.items():
        found[name] = inner[name].read(item, batches)
    return found
