"""The tables of the reference, made from the code when the site is built."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from penstock import errors as error_tree
from penstock.cli.root.command_group import COMMANDS, load_command
from penstock.engine.settings import Settings
from penstock.errors import PenstockError
from penstock.model.table.properties import PROPERTIES
from penstock.spark.session.options import markdown as spark_options


def settings() -> str:
    """Return the settings of a node."""
    rows = [
        f"| `{name}` | `{value}` | {meaning} |"
        for name, value, meaning in Settings().describe()
    ]
    return "\n".join(["| setting | default | |", "|---|---|---|", *rows])


def table_properties() -> str:
    """Return the properties of a table."""
    rows = [
        f"| `{known.name}` | {known.default} | {known.meaning} |"
        for known in PROPERTIES.values()
    ]
    return "\n".join(["| property | default | |", "|---|---|---|", *rows])


def errors() -> str:
    """Return the tree of errors: each with its code, and whether to try again."""
    rows = []
    for kind, depth in _tree(PenstockError, 0):
        name, again = (
            f"{'&emsp;' * depth}`{kind.__name__}`",
            "yes" if kind.retriable else "",
        )
        rows.append(
            f"| {name} | `{kind.code}` | {again} | {_first_line(kind)} |"
        )
    return "\n".join(
        ["| error | code | retriable | |", "|---|---|---|---|", *rows]
    )


def commands() -> str:
    """Return the help of every command."""
    return "\n\n".join(
        part
        for name in COMMANDS
        for part in _command(load_command(name), f"penstock {name}")
    )


TABLES: dict[str, Callable[[], str]] = {
    "settings": settings,
    "table properties": table_properties,
    "errors": errors,
    "commands": commands,
    "spark options": spark_options,
}


def filled(text: str) -> str:
    """Return a page with tables in the place of their names: `{{ settings }}`."""
    return re.sub(
        r"\{\{ ([a-z ]+) \}\}", lambda match: TABLES[match[1]](), text
    )


def _tree(
    kind: type[PenstockError], depth: int
) -> Iterator[tuple[type[PenstockError], int]]:
    yield kind, depth
    for below in kind.__subclasses__():
        if below.__module__ == error_tree.__name__:
            yield from _tree(below, depth + 1)


def _first_line(kind: type) -> str:
    return (kind.__doc__ or "").strip().splitlines()[0]


def _command(command: Any, name: str) -> Iterator[str]:
    inner = getattr(command, "commands", None)
    words = re.sub(r"\[/?bold\]", "", (command.help or "").strip())
    yield f"## {name}\n\n{words}"
    if inner:
        for below in inner.values():
            yield from (
                part.replace("## ", "### ", 1)
                for part in _command(below, f"{name} {below.name}")
            )
        return
    rows = []
    for parameter in command.params:
        if getattr(parameter, "hidden", False) or parameter.name == "help":
            continue
        option = parameter.param_type_name == "option"
        names = (
            [*parameter.opts, *parameter.secondary_opts]
            if option
            else [parameter.metavar or parameter.name.upper()]
        )
        says = re.sub(
            r"\[/?bold\]", "", getattr(parameter, "help", None) or ""
        ).replace("|", "\\|")
        rows.append(
            f"| {', '.join(f'`{word}`' for word in names)} | {says} |"
        )
    if rows:
        yield "\n".join(["| | |", "|---|---|", *rows])
