"""The one table of options: both spellings, the default, what each means, and what reads it.

Options come as text through Spark, in any case. An unknown name is refused: a misspelt
option that is silently ignored is a wrong result.
"""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from penstock.errors import InvalidError
from penstock.model.words.near_name import did_you_mean
from penstock.model.words.quantity import parse_bytes, parse_duration_ms

URL_VARIABLE: Final = "PENSTOCK_URL"


@dataclass(frozen=True, slots=True)
class Option:
    """One option. `name` is its Python spelling, `spark` that of `.option(...)`; Spark ignores case."""

    name: str
    spark: str
    default: str | None
    used_by: str
    meaning: str


OPTIONS: Final = (
    Option("url", "url", None, "all", f"the server: penstock://host:port; without it ${URL_VARIABLE}"),
    Option("table", "table", None, "all", "the table: database.name"),
    Option("token", "token", None, "all", "the token that the server asks for"),
    Option("tls_ca", "tlsCa", None, "all", "a file with the certificates to trust, for penstock+tls"),
    Option("tls_cert", "tlsCert", None, "all", "a file with the client's certificate"),
    Option("tls_key", "tlsKey", None, "all", "a file with the client's key"),
    Option(
        "retry_timeout", "retryTimeout", "10min", "all", "how long tasks and streams wait for a server that is away"
    ),
    Option(
        "columns", "columns", None, "read, stream, write", "a list of columns, by commas or as JSON; all without it"
    ),
    Option("filter", "filter", None, "read, stream", "rows to read, as SQL: amount > 10 AND city = 'Ulm'"),
    Option("source", "source", "live", "read, stream", "live rows, the newest snapshot, or the log of changes"),
    Option("as_of", "asOf", None, "read", "read at this cut: the JSON of pks.cut, or a time with its zone"),
    Option(
        "storage", "storage", None, "read", "the server's data directory as tasks see it: snapshots are read from files"
    ),
    Option("split_rows", "splitRows", "2000000", "read", "a bucket with more rows is read by several tasks"),
    Option("start", "start", "earliest", "changes", "first changes: earliest, a cut's JSON or a timestamp"),
    Option("end", "end", None, "changes", "a cut's JSON: changes before it; without it up to the present"),
    Option("images", "images", "full", "changes, stream", "full: -U and +U; after: no rows before"),
    Option(
        "starting",
        "startingOffsets",
        "snapshot",
        "stream",
        "where a new query begins: snapshot, earliest, latest, a cut's JSON or a timestamp",
    ),
    Option("max_rows_per_trigger", "maxRowsPerTrigger", None, "stream", "changes in a micro-batch, at most"),
    Option("max_bytes_per_trigger", "maxBytesPerTrigger", None, "stream", "bytes in a micro-batch, about"),
    Option("fail_on_data_loss", "failOnDataLoss", "true", "stream", "end the query when changes it needs are gone"),
    Option("retain", "retain", None, "stream", "keep the log for a stopped query that long: 7d"),
    Option("operation", "operation", None, "write", "upsert, delete, apply or append"),
    Option("agg_mode", "aggMode", None, "write", "accumulate, replace or merge_state"),
    Option("order_by", "orderBy", None, "write", "columns by which the rows of a key are ordered"),
    Option("owner", "owner", None, "write", "the owner's id; a stream's is its query id"),
    Option("visibility", "visibility", None, "write", "immediate or commit"),
    Option("merge_schema", "mergeSchema", "false", "write", "add columns that the table does not have"),
    Option("checkpoint", "checkpointLocation", None, "write", "Spark's own; the stream's checkpoint"),
    Option("query_name", "queryName", None, "write", "Spark's own; the stream's name"),
    Option(
        "path", "path", None, "all", "Spark's own, what load, save and start are given: the table, in place of table"
    ),
)
_BY_SPELLING: Final = {
    spelling.lower().replace("_", ""): option for option in OPTIONS for spelling in (option.name, option.spark)
}


class Options:
    """The options of one read or write, checked. Picklable.

    `database` is the id of the database that a plan was made for, None before that: tasks go to no other.
    """

    database: str | None = None

    def __init__(self, given: Mapping[str, Any]) -> None:
        """Take options under either spelling; values may be text or Python's own.

        Raises:
            InvalidError: an option is unknown, and the message lists those there are; or two tables are named.
        """
        self._values: dict[str, str] = {}
        for name, value in given.items():
            option = _BY_SPELLING.get(name.lower().replace("_", ""))
            if option is None:
                known = [option.spark for option in OPTIONS]
                raise InvalidError(
                    f"no such option; {did_you_mean(name, known)}there are {', '.join(known)}", option=name
                )
            if value is not None:
                self._values[option.name] = _as_text(value)
        path = self._values.pop("path", None)
        if path is not None and self._values.setdefault("table", path) != path:
            raise InvalidError(
                "two tables are named: by the option table, and by what load, save or start was given; leave that out",
                table=self.table,
                path=path,
            )

    def __repr__(self) -> str:
        return f"Options({', '.join(f'{k}={v}' for k, v in self._values.items() if k != 'token')})"

    def pinned(self, database: str) -> Options:
        """Return the same options for a plan that was made for a database."""
        options = copy.copy(self)
        options.database = database
        return options

    def for_spark(self) -> dict[str, str]:
        """Return the options as `.options(...)` takes them."""
        return {_BY_SPELLING[name.replace("_", "")].spark: value for name, value in self._values.items()}

    def get(self, name: str) -> str | None:
        """Return an option, or its default."""
        default = _BY_SPELLING[name.replace("_", "")].default
        return self._values.get(name, default)

    def is_set(self, name: str) -> bool:
        """Tell whether the user gave an option."""
        return name in self._values

    @property
    def url(self) -> str:
        """Return the server's url.

        Raises:
            InvalidError: there is none.
        """
        url = self.get("url") or os.environ.get(URL_VARIABLE)
        if not url:
            raise InvalidError(f"name the server: option url, or the environment's {URL_VARIABLE}")
        return url

    @property
    def table(self) -> str:
        """Return the table's path.

        Raises:
            InvalidError: there is none.
        """
        return self._needed("table", "name the table: option table, as database.name")

    @property
    def tls(self) -> dict[str, str] | None:
        """Return the tls files by what they are; None without one."""
        files = {name: self.get(f"tls_{name}") for name in ("ca", "cert", "key")}
        return {name: path for name, path in files.items() if path is not None} or None

    def choice(self, name: str, choices: Iterable[str]) -> str:
        """Return an option that is one of a few words.

        Raises:
            InvalidError: it is another; the message lists them.
        """
        allowed = list(choices)
        value = (self.get(name) or "").lower()
        if value not in allowed:
            raise InvalidError(f"{name} is one of {', '.join(allowed)}", found=value)
        return value

    def flag(self, name: str) -> bool:
        """Return an option that is true or false.

        Raises:
            InvalidError: it is neither.
        """
        return self.choice(name, ("true", "false")) == "true"

    def count(self, name: str) -> int | None:
        """Return an option that is a positive number; None without it.

        Raises:
            InvalidError: it is no such number.
        """
        value = self.get(name)
        if value is None:
            return None
        if not value.strip().isdecimal() or int(value) == 0:
            raise InvalidError(f"{name} is a number, at least 1", found=value)
        return int(value)

    def size(self, name: str) -> int | None:
        """Return an option that is a number of bytes; None without it.

        Raises:
            InvalidError: it is no size.
        """
        value = self.get(name)
        return None if value is None else parse_bytes(value)

    def duration_ms(self, name: str) -> int | None:
        """Return an option that is a duration; None without it.

        Raises:
            InvalidError: it is no duration.
        """
        value = self.get(name)
        return None if value is None else parse_duration_ms(value)

    def names(self, name: str) -> tuple[str, ...] | None:
        """Return an option that lists names, by commas or as a JSON list; None without it.

        Raises:
            InvalidError: it is no list.
        """
        value = self.get(name)
        if value is None:
            return None
        if not value.lstrip().startswith("["):
            return tuple(part.strip() for part in value.split(","))
        try:
            found = json.loads(value)
        except ValueError as error:
            raise InvalidError(f"{name} is a list of names, by commas or as JSON", found=value) from error
        if not all(isinstance(part, str) for part in found):
            raise InvalidError(f"{name} is a list of names, by commas or as JSON", found=value)
        return tuple(found)

    def _needed(self, name: str, message: str) -> str:
        value = self.get(name)
        if not value:
            raise InvalidError(message)
        return value


def markdown() -> str:
    """Return the table for people, as the guide shows it."""
    lines = ["| Python | `.option(...)` | default | used by | |", "|---|---|---|---|---|"]
    for option in OPTIONS:
        default = "" if option.default is None else f"`{option.default}`"
        lines.append(f"| `{option.name}` | `{option.spark}` | {default} | {option.used_by} | {option.meaning} |")
    return "\n".join(lines)


def _as_text(value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return json.dumps(list(value))
    return str(value)
