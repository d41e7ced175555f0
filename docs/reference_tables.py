"""The tables of the reference, written into its pages from the code.

`python docs/reference_tables.py` writes them anew, between the marks `<!-- name -->` and `<!-- end of name -->`; a test
fails when they are not what the code says.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from penstock import errors as error_tree
from penstock.cli.root.command_group import COMMANDS, load_command
from penstock.cli.root.shared_options import CONNECTION
from penstock.engine.settings import Settings
from penstock.errors import PenstockError
from penstock.model.table.properties import PROPERTIES

REFERENCE = Path(__file__).parent / "reference"
WIDTH = 76
BAR = "\\|"
MARKED = re.compile(
    r"(<!-- ([a-z ]+) -->).*?(<!-- end of \2 -->)", re.DOTALL
)


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


def shared_options() -> str:
    """Return the options that every command takes which connects to something."""
    return _options(
        found
        for found in load_command("scan").params
        if getattr(found, "rich_help_panel", None) == CONNECTION
    )


def commands() -> str:
    """Return the help of every command."""
    return "\n\n".join(
        part
        for name in COMMANDS
        for part in _command(load_command(name), f"penstock {name}")
    )


PAGES = ("cli.md", "errors.md", "settings.md")
TABLES: dict[str, Callable[[], str]] = {
    "settings": settings,
    "table properties": table_properties,
    "errors": errors,
    "shared options": shared_options,
    "commands": commands,
}


def filled(text: str) -> str:
    """Return a page with its tables as the code has them now."""
    return MARKED.sub(
        lambda mark: f"{mark[1]}\n\n{TABLES[mark[2]]()}\n\n{mark[3]}", text
    )


def write() -> None:
    """Write the tables of every page."""
    for name in PAGES:
        page = REFERENCE / name
        page.write_text(filled(page.read_text()))


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
    yield f"## {name}\n\n{_plain(command.help or '')}"
    if inner:
        for below in inner.values():
            yield from (
                part.replace("## ", "### ", 1)
                if part.startswith("#")
                else part
                for part in _command(below, f"{name} {below.name}")
            )
        return
    # Asked for as help does, which gives every parameter its word.
    shown = command.get_params(
        command.make_context(name, [], resilient_parsing=True)
    )
    words = [
        found._usage_display_name()
        for found in shown
        if found.param_type_name == "argument"
    ]
    yield f"```text\n{' '.join([name, *words, '[OPTIONS]'])}\n```"
    own = [
        found
        for found in shown
        if found.name not in ("help", "debug")
        and getattr(found, "rich_help_panel", None) != CONNECTION
    ]
    if own:
        yield _options(own)
    examples = [
        line.replace(r"\[", "[")
        for line in (command.epilog or "").splitlines()[1:]
    ]
    short = [line for line in examples if len(line) <= WIDTH]
    if short:
        yield "```text\n" + "\n".join(short) + "\n```"


def _options(parameters: Iterable[Any]) -> str:
    rows = []
    for found in parameters:
        if getattr(found, "hidden", False):
            continue
        word = str(found.metavar or "")
        if found.param_type_name == "option":
            names = ", ".join(
                f"`{name}`" for name in (*found.opts, *found.secondary_opts)
            )
            said = f"{names} {word}".strip()
        else:
            said = f"`{word or found.name.upper()}`"
        says = _plain(found.help or "")
        default = found.default
        if default not in (None, False, ()) and not callable(default):
            says += f" Default: {getattr(default, 'value', default)}."
        rows.append(
            f"| {said.replace('|', BAR)} | {says.replace('|', BAR)} |"
        )
    return "\n".join(["| option | |", "|---|---|", *rows])


def _plain(text: str) -> str:
    return re.sub(r"\[/?bold\]", "", text.strip())


if __name__ == "__main__":
    write()
