"""Settings of a node: defaults, then `penstock.toml`, then `PENSTOCK_...`, then what the caller names.

A setting has a dotted name for people (`kv.scanner.max-per-bucket`), the same in capitals for the
environment (`PENSTOCK_KV_SCANNER_MAX_PER_BUCKET`), and a field with its unit for code.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final

from penstock.errors import InvalidError
from penstock.model.node.calls import WriteCall, check_call_bytes
from penstock.model.words.near_name import did_you_mean
from penstock.model.words.quantity import format_bytes, format_duration_ms, parse_bytes, parse_duration_ms
from penstock.tablet.settings import FsyncMode

ENVIRONMENT_PREFIX: Final = "PENSTOCK_"
PAGE_BYTES_MAX: Final = 16 << 20
_DAY_MS: Final = 86_400_000
_MB: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting: how it is named, read, shown and limited."""

    name: str
    read: Callable[[Any], Any]
    show: Callable[[Any], str]
    meaning: str
    smallest: int = 0
    largest: int = (1 << 62) - 1


def _read_count(value: Any) -> int:
    text = str(value).strip()
    if isinstance(value, bool) or not (text.isascii() and text.isdigit() and len(text) < 19):
        raise InvalidError("the value is a whole number")
    return int(text)


def _read_fsync(value: Any) -> FsyncMode:
    if value not in list(FsyncMode):
        raise InvalidError(f"the value is one of {', '.join(FsyncMode)}")
    return FsyncMode(value)


def _duration(name: str, default_ms: int, meaning: str, smallest: int = 1) -> Any:
    setting = Setting(name, parse_duration_ms, format_duration_ms, meaning, smallest)
    return field(default=default_ms, metadata={"setting": setting})


def _size(name: str, default: int, meaning: str, smallest: int = 1, largest: int = (1 << 62) - 1) -> Any:
    setting = Setting(name, parse_bytes, format_bytes, meaning, smallest, largest)
    return field(default=default, metadata={"setting": setting})


def _share(name: str, unset: str, meaning: str, smallest: int) -> Any:
    """Return a size that depends on the machine unless it is set."""

    def show(value: int | None) -> str:
        return unset if value is None else format_bytes(value)

    return field(default=None, metadata={"setting": Setting(name, parse_bytes, show, meaning, smallest)})


def _count(name: str, default: int, meaning: str) -> Any:
    return field(default=default, metadata={"setting": Setting(name, _read_count, str, meaning, 1)})


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Everything about a node that can be set."""

    scanner_ttl_ms: int = _duration("kv.scanner.ttl", 60_000, "how long a scan session may idle")
    scanner_lifetime_max_ms: int = _duration("kv.scanner.max-lifetime", 3_600_000, "how long one may live")
    scanners_per_bucket_max: int = _count("kv.scanner.max-per-bucket", 8, "scan sessions open on one bucket")
    scanners_per_server_max: int = _count("kv.scanner.max-per-server", 200, "scan sessions open on the node")
    page_bytes: int = _size(
        "kv.scanner.page-bytes", 4 * _MB, "size of a page; a request may ask for less", 1024, PAGE_BYTES_MAX
    )
    snapshot_interval_ms: int = _duration("kv.snapshot.interval", 600_000, "how often snapshots are taken")
    snapshots_retained: int = _count("kv.snapshot.num-retained", 2, "snapshots kept of each bucket")
    lease_duration_max_ms: int = _duration("kv.lease.max-duration", 7 * _DAY_MS, "how long a lease may last")
    leases_max: int = _count("kv.lease.max-per-server", 10_000, "leases on the node")
    column_lock_ttl_ms: int = _duration("column-lock.ttl", 60_000, "how long an owner may be silent")
    owner_abandon_after_ms: int = _duration("owner.abandon-after", _DAY_MS, "when leftovers of an owner are undone")
    owner_retention_ms: int = _duration("owner.retention", 90 * _DAY_MS, "how long an unused owner is remembered")
    owners_per_table_max: int = _count("owner.max-per-table", 10_000, "owners remembered of one table")
    segment_bytes: int = _size("log.segment-bytes", 64 * _MB, "size of a log segment", 4096)
    fsync: FsyncMode = field(
        default=FsyncMode.ALWAYS,
        metadata={"setting": Setting("log.fsync", _read_fsync, str, "when the log is synced: always, interval, never")},
    )
    fsync_interval_ms: int = _duration("log.fsync-interval", 1_000, "how often, with log.fsync=interval")
    checkpoint_interval_ms: int = _duration("checkpoint.interval", 60_000, "how often a checkpoint is taken")
    checkpoint_changes: int = _count("checkpoint.changes", 2_000_000, "or after how many changes")
    memory_bytes_max: int | None = _share(
        "memory.max",
        "half of the machine",
        "memory for index, caches, unsealed rows, reads and uploads together",
        64 * _MB,
    )
    index_front_bytes: int | None = _share(
        "kv.index.front-bytes", "a share of memory.max", "memory for keys in front of the index; 0 for none", 0
    )
    request_bytes_max: int = _size("request.max-bytes", 64 * _MB, "largest message to a server", 1024)
    tables_max: int = _count("tables.max", 10_000, "tables on the node")
    call_bytes_max: int = _size("call.max-bytes", 1024 * _MB, "largest write; to a server it travels in pieces", 1024)

    def __post_init__(self) -> None:
        """Check the ranges.

        Raises:
            InvalidError: a value is out of its range.
        """
        for setting, field_name in _SETTINGS.values():
            value = getattr(self, field_name)
            if isinstance(value, int) and not setting.smallest <= value <= setting.largest:
                raise InvalidError(
                    f"the setting is from {setting.show(setting.smallest)} to {setting.show(setting.largest)}",
                    setting=setting.name,
                    value=setting.show(value) if value >= 0 else value,
                )

    def check_write(self, call: WriteCall) -> None:
        """Refuse a write that is larger than one call may be.

        Raises:
            LimitError: it is.
        """
        check_call_bytes(call.batch.nbytes, self.call_bytes_max)

    @classmethod
    def load(
        cls,
        file: str | Path | None = None,
        environment: Mapping[str, str] | None = None,
        overrides: Mapping[str, Any] | None = None,
    ) -> Settings:
        """Return the settings of a file (if it exists), the environment, and overrides by dotted name.

        Raises:
            InvalidError: an unknown setting, a value that does not fit, or a file that is no TOML.
        """
        given: dict[str, tuple[Any, str]] = {}
        if file is not None and Path(file).exists():
            given |= {name: (value, str(file)) for name, value in _flatten(_read_toml(Path(file)))}
        given |= _read_environment(os.environ if environment is None else environment)
        given |= {name: (value, "the caller") for name, value in (overrides or {}).items()}
        return cls(**dict(_read_setting(name, value, source) for name, (value, source) in given.items()))

    def describe(self) -> list[tuple[str, str, str]]:
        """Return (name, value, meaning) of every setting, as people write them."""
        return [
            (setting.name, setting.show(getattr(self, field_name)), setting.meaning)
            for setting, field_name in _SETTINGS.values()
        ]


_SETTINGS: Final[dict[str, tuple[Setting, str]]] = {
    known.metadata["setting"].name: (known.metadata["setting"], known.name) for known in fields(Settings)
}
_ENVIRONMENT: Final = {
    ENVIRONMENT_PREFIX + name.upper().replace(".", "_").replace("-", "_"): name for name in _SETTINGS
}
# Other variables of ours (PENSTOCK_URL) are not settings; a wrong word in one of these families is a slip.
_FAMILIES: Final = tuple(
    sorted({ENVIRONMENT_PREFIX + name.partition(".")[0].upper().replace("-", "_") + "_" for name in _SETTINGS})
)


def _read_setting(name: str, value: Any, source: str) -> tuple[str, Any]:
    if name not in _SETTINGS:
        raise InvalidError(
            f"no such setting; {did_you_mean(name, _SETTINGS)}there are {', '.join(_SETTINGS)}",
            setting=name,
            source=source,
        )
    setting, field_name = _SETTINGS[name]
    try:
        return field_name, setting.read(value)
    except InvalidError as wrong:
        raise InvalidError(wrong.message, setting=name, value=repr(value), source=source) from wrong


def _read_environment(environment: Mapping[str, str]) -> dict[str, tuple[Any, str]]:
    given: dict[str, tuple[Any, str]] = {}
    for variable, value in environment.items():
        if variable in _ENVIRONMENT:
            given[_ENVIRONMENT[variable]] = (value, variable)
        elif variable.startswith(_FAMILIES):
            raise InvalidError(f"no such setting; there are {', '.join(_ENVIRONMENT)}", variable=variable)
    return given


def _read_toml(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as cause:
        raise InvalidError("the settings file is no valid TOML", file=str(file), cause=str(cause)) from cause


def _flatten(tree: Mapping[str, Any], prefix: str = "") -> Iterable[tuple[str, Any]]:
    for name, value in tree.items():
        if isinstance(value, Mapping):
            yield from _flatten(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value
