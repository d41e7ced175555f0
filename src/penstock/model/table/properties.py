"""Table properties: the dotted names that users give, and what they mean."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Any, Final

from penstock.errors import InvalidError
from penstock.model.table.merge_engine import DeleteBehavior
from penstock.model.words.near_name import did_you_mean
from penstock.model.words.quantity import format_bytes, format_duration_ms, parse_bytes, parse_duration_ms

DELETE_AT_ZERO: Final = "aggregate.delete-at-zero"
COLUMN_LOCK: Final = "column-lock.enabled"
NONE: Final = "none"
AUTO: Final = "auto"
RETENTION_BYTES_MIN: Final = 1 << 30
RETENTION_LIVE_FACTOR: Final = 4
"""Without `log.retention-bytes` the log may be this many times the live rows, and at least the minimum."""


class Retract(StrEnum):
    """What an aggregate that cannot take a value back does when asked to."""

    ERROR = "error"
    IGNORE = "ignore"


@dataclass(frozen=True, slots=True)
class Property:
    """One property: its name, its default in words, how its value is read; why it cannot change later, if it cannot."""

    name: str
    default: str
    read: Callable[[Any], str]
    meaning: str
    fixed: str | None = None


def _read_flag(value: Any) -> str:
    word = str(value).lower()
    if word not in ("true", "false"):
        raise InvalidError("the value is true or false")
    return word


def _read_flag_or_auto(value: Any) -> str:
    return AUTO if value == AUTO else _read_flag(value)


def _read_duration(value: Any) -> str:
    duration_ms = parse_duration_ms(value)
    if not duration_ms:
        raise InvalidError("the duration is longer than zero")
    return format_duration_ms(duration_ms)


def _read_duration_or_none(value: Any) -> str:
    return NONE if value == NONE else _read_duration(value)


def _read_bytes(value: Any) -> str:
    size = parse_bytes(value)
    if not size:
        raise InvalidError("the size is larger than zero")
    return format_bytes(size)


def _read_bytes_or_none(value: Any) -> str:
    return NONE if value == NONE else _read_bytes(value)


def _read_count(smallest: int, largest: int) -> Callable[[Any], str]:
    def read(value: Any) -> str:
        text = str(value).strip()
        if not (text.isascii() and text.isdigit() and len(text) < 10 and smallest <= int(text) <= largest):
            raise InvalidError(f"the value is a whole number from {smallest} to {largest}")
        return str(int(text))

    return read


def _read_choice(choices: type[StrEnum]) -> Callable[[Any], str]:
    def read(value: Any) -> str:
        if value not in list(choices):
            raise InvalidError(f"the value is one of {', '.join(choices)}")
        return str(value)

    return read


def _read_column(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise InvalidError("the value is the name of a count column, or none")
    return value


PROPERTIES: Final = {
    known.name: known
    for known in (
        Property("delete.behavior", AUTO, _read_choice(DeleteBehavior), "allow for last_row, ignore for the rest"),
        Property("log.retention", "7d", _read_duration_or_none, "how long changes stay readable"),
        Property("log.retention-bytes", AUTO, _read_bytes_or_none, "how large a bucket's log may be: 4x live, 1GB"),
        Property("kv.snapshot.interval", "server", _read_duration, "how often a snapshot is taken"),
        Property("kv.snapshot.num-retained", "server", _read_count(1, 1000), "how many snapshots are kept"),
        Property(COLUMN_LOCK, AUTO, _read_flag_or_auto, "whether owners lock columns: auto for aggregate"),
        Property("partition.auto-create", "true", _read_flag, "whether a write makes the partitions it needs"),
        Property("partition.retention", NONE, _read_duration_or_none, "when a partition is dropped"),
        Property("row.ttl", NONE, _read_duration_or_none, "how long after its last write a row is deleted"),
        Property("partition.max", "1000", _read_count(1, 100_000), "how many partitions there may be"),
        Property("aggregate.retract", "error", _read_choice(Retract), "what a retraction no function takes does"),
        Property(
            DELETE_AT_ZERO,
            NONE,
            _read_column,
            "the count column at whose zero a row goes",
            fixed="it decides which rows there are, and those that there are were folded without it",
        ),
        Property("aggregate.max-value-bytes", "1MB", _read_bytes, "how large a listagg, array or bitmap may grow"),
    )
}


def _find(name: str) -> Property:
    known = PROPERTIES.get(name)
    if known is None:
        meant = did_you_mean(name, PROPERTIES)
        raise InvalidError(f"no such table property; {meant}there are {', '.join(PROPERTIES)}", property=name)
    return known


def check_values(given: Mapping[str, Any] | None) -> dict[str, str]:
    """Return the properties as they were given, their values checked; what is no text is written as one.

    Raises:
        InvalidError: an unknown property (the message lists the known ones), or a wrong value.
    """
    if not isinstance(given, Mapping | None):
        raise InvalidError("properties are a dict of names and values", found=type(given).__name__)
    checked = {}
    for name, value in (given or {}).items():
        known = _find(name)
        plain = format_duration_ms(parse_duration_ms(value)) if isinstance(value, timedelta) else value
        try:
            read = known.read(NONE if plain is None else plain)
        except InvalidError as wrong:
            raise InvalidError(wrong.message, property=name, value=repr(value)) from wrong
        checked[name] = str(plain) if isinstance(plain, str) else read
    return checked


def change_properties(current: Mapping[str, str], changes: Mapping[str, Any]) -> dict[str, str]:
    """Return the properties with some changed; None sets one back to its default.

    Raises:
        InvalidError: an unknown property, one that cannot change, or a wrong value.
    """
    if not isinstance(changes, Mapping):
        raise InvalidError("properties are a dict of names and values", found=type(changes).__name__)
    given = check_values({name: value for name, value in changes.items() if value is not None})
    kept = {name: value for name, value in current.items() if name not in changes}
    for name in changes:
        known = _find(name)
        if known.fixed is not None and given.get(name) != current.get(name):
            raise InvalidError(f"the property cannot change later: {known.fixed}; create another table", property=name)
    return kept | given


@dataclass(frozen=True, slots=True)
class TableProperties:
    """The properties of a table as the engine reads them; None means no limit, or the server's setting."""

    delete_behavior: DeleteBehavior
    log_retention_ms: int | None
    log_retention_bytes: int | None
    log_retention_bytes_auto: bool
    kv_snapshot_interval_ms: int | None
    kv_snapshot_num_retained: int | None
    column_lock_enabled: bool
    owners_allowed: bool
    partition_auto_create: bool
    partition_retention_ms: int | None
    row_ttl_ms: int | None
    partition_max: int
    aggregate_retract: Retract
    aggregate_delete_at_zero: str | None
    aggregate_max_value_bytes: int

    @classmethod
    def read(cls, given: Mapping[str, str], *, default_delete: DeleteBehavior, locks_columns: bool) -> TableProperties:
        """Return what properties mean on a table of that kind; values may be written in any way that is read."""
        given = {name: PROPERTIES[name].read(value) if name in PROPERTIES else value for name, value in given.items()}
        retention = given.get("log.retention", "7d")
        retention_bytes = given.get("log.retention-bytes", AUTO)
        interval = given.get("kv.snapshot.interval")
        retained = given.get("kv.snapshot.num-retained")
        lock = given.get(COLUMN_LOCK, AUTO)
        partition_retention = given.get("partition.retention", NONE)
        row_ttl = given.get("row.ttl", NONE)
        zero = given.get(DELETE_AT_ZERO, NONE)
        return cls(
            delete_behavior=DeleteBehavior(given.get("delete.behavior", default_delete)),
            log_retention_ms=None if retention == NONE else parse_duration_ms(retention),
            log_retention_bytes=None if retention_bytes in (NONE, AUTO) else parse_bytes(retention_bytes),
            log_retention_bytes_auto=retention_bytes == AUTO,
            kv_snapshot_interval_ms=None if interval is None else parse_duration_ms(interval),
            kv_snapshot_num_retained=None if retained is None else int(retained),
            column_lock_enabled=locks_columns if lock == AUTO else lock == "true",
            owners_allowed=lock != "false",
            partition_auto_create=given.get("partition.auto-create", "true") == "true",
            partition_retention_ms=None if partition_retention == NONE else parse_duration_ms(partition_retention),
            row_ttl_ms=None if row_ttl == NONE else parse_duration_ms(row_ttl),
            partition_max=int(given.get("partition.max", "1000")),
            aggregate_retract=Retract(given.get("aggregate.retract", Retract.ERROR)),
            aggregate_delete_at_zero=None if zero == NONE else zero,
            aggregate_max_value_bytes=parse_bytes(given.get("aggregate.max-value-bytes", "1MB")),
        )

    def log_bytes_max(self, live_bytes: int) -> int | None:
        """Return how large a bucket's log may be beside that many bytes of live rows; None for no limit."""
        if self.log_retention_bytes_auto:
            return max(RETENTION_BYTES_MIN, RETENTION_LIVE_FACTOR * live_bytes)
        return self.log_retention_bytes
