"""What `penstock table alter` is told, as alterations of a table, made one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from penstock.cli.input.text_values import from_word
from penstock.cli.terminal.options import read_pairs
from penstock.client.table import Table
from penstock.errors import InvalidError
from penstock.model.schema.aggregate import DEFAULT_DELIMITER, DELIMITER
from penstock.model.schema.ddl import parse_ddl
from penstock.model.schema.schema import Column


@dataclass(frozen=True, slots=True)
class Step:
    """One alteration: what it is in words, and how it is made."""

    words: str
    make: Callable[[Table], Any]


def steps_of(
    *,
    drop: Iterable[str],
    rename: Iterable[str],
    widen: Iterable[str],
    add: Iterable[str],
    default: Iterable[str],
    properties: Iterable[str],
    unset: Iterable[str],
) -> list[Step]:
    """Return the alterations in the order in which they are made: drops, names, types, new columns, properties.

    Raises:
        InvalidError: something is not understood; nothing was altered.
    """
    columns = [_added(text) for text in add]
    defaults = read_pairs(default, "--default")
    strangers = sorted(defaults.keys() - {column.name for column in columns})
    if strangers:
        raise InvalidError("--default names a column that --add does not", column=strangers[0])
    chosen: dict[str, str | None] = {**read_pairs(properties, "--set"), **dict.fromkeys(unset)}
    steps = [Step(f"dropped {name}", _drop(name)) for name in drop]
    steps += [Step(f"renamed {old} to {new}", _rename(old, new)) for old, new in read_pairs(rename, "--rename").items()]
    steps += [
        Step(f"widened {name} to {kind}", _widen(name, kind)) for name, kind in read_pairs(widen, "--widen").items()
    ]
    steps += [Step(f"added {column.name}", _add(column, defaults.get(column.name))) for column in columns]
    if chosen:
        steps.append(Step(f"set {', '.join(chosen)}", lambda table: table.set_properties(chosen)))
    if not steps:
        raise InvalidError("say what to alter: --add, --drop, --rename, --widen, --set or --unset")
    return steps


def _added(text: str) -> Column:
    schema = parse_ddl(text)
    if len(schema.columns) != 1 or schema.primary_key:
        raise InvalidError('--add takes one column, such as "note STRING"; repeat it for more', found=text)
    column = schema.columns[0]
    if not column.nullable:
        raise InvalidError("a column that is added may be null; leave NOT NULL out", column=column.name)
    if column.agg_params.get(DELIMITER, DEFAULT_DELIMITER) != DEFAULT_DELIMITER:
        raise InvalidError("a column that is added takes the usual delimiter; leave it out", column=column.name)
    return column


def _add(column: Column, text: str | None) -> Callable[[Table], Any]:
    default = None if text is None else from_word(text, pa.field(column.name, column.type))
    return lambda table: table.add_column(column.name, column.type, column.agg, default=default)


def _drop(name: str) -> Callable[[Table], Any]:
    return lambda table: table.drop_column(name)


def _rename(old: str, new: str) -> Callable[[Table], Any]:
    return lambda table: table.rename_column(old, new)


def _widen(name: str, kind: str) -> Callable[[Table], Any]:
    return lambda table: table.widen_column(name, kind)
