"""The reference of the Python and PySpark API, written into the repository from signatures and docstrings.

`python docs/reference_api.py` writes the pages anew; a test fails when they are not what the code says.
"""

from __future__ import annotations

import dataclasses
import enum
import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from penstock.spark.session.options import markdown as spark_options

REFERENCE = Path(__file__).parent / "reference"
WIDTH = 76
PYTHON = (
    *(
        "connect",
        "Connection",
        "Table",
        "ScanBuilder",
        "ScanSource",
        "Scan",
    ),
    *("Cut", "ChangeStream", "Writer", "Owner", "Lease", "PageScanner"),
    *("Progress", "serve", "restore", "Schema", "AggFunction"),
    *("MergeEngine", "TableInfo", "TableBucket", "WriteResult", "Snapshot"),
    *("OwnerInfo", "UndoResult", "BackupResult", "RestoreResult"),
)
SPARK = (
    *("register", "read", "changes", "cut", "read_stream", "write"),
    *("write_stream", "sink", "lookup_join", "create_table", "views"),
    *("to_buckets", "pre_aggregate", "progress"),
)
MADE = "<!-- Written by docs/reference_api.py from the code; change the docstrings there. -->"
RAISES = re.compile(r"^Raises:\n((?:    .*\n?)+)", re.M)


def python_page() -> str:
    """Return the page of the Python API."""
    parts = [
        "# Python API",
        MADE,
        "Everything here is imported from `penstock`. What this page does not show is not for users, and may change.",
    ]
    for name in PYTHON:
        parts += _entry(
            name, getattr(importlib.import_module("penstock"), name)
        )
    return _page(parts)


def spark_page() -> str:
    """Return the page of the PySpark API."""
    parts = [
        "# PySpark API",
        MADE,
        "`import penstock.spark as pks`. The functions, and the options of "
        '`spark.read.format("penstock")` and its like.',
    ]
    for name in SPARK:
        parts += _entry(
            name,
            getattr(importlib.import_module("penstock.spark"), name),
            prefix="pks.",
        )
    parts += [
        "## Options",
        "Python functions take the first spelling as a keyword, `.option(...)` the second, in any case.",
        spark_options(),
    ]
    return _page(parts)


PAGES = {"api.md": python_page, "spark.md": spark_page}


def _page(parts: list[str]) -> str:
    return "\n\n".join(part.strip("\n") for part in parts if part) + "\n"


def _entry(name: str, value: Any, prefix: str = "") -> Iterator[str]:
    if not inspect.isclass(value):
        yield f"## {prefix}{name}"
        yield from _callable(f"{prefix}{name}", value)
        return
    yield f"## {name}"
    yield from _words(value)
    if issubclass(value, enum.Enum):
        yield "| name | value |\n|---|---|\n" + "\n".join(
            f"| `{each.name}` | `{each.value}` |" for each in value
        )
        return
    fields = _fields(value)
    if fields:
        yield "| field | type |\n|---|---|\n" + "\n".join(
            f"| `{field}` | `{kind.replace('|', chr(92) + '|')}` |"
            for field, kind in fields
        )
    for member, owner in _members(value):
        found = inspect.getattr_static(owner, member)
        if isinstance(found, property):
            yield f"### {name}.{member}"
            returned = (
                inspect.signature(found.fget).return_annotation
                if found.fget
                else ""
            )
            yield f"```text\n{member}: {returned}\n```"
            yield from _words(found)
        else:
            yield f"### {name}.{member}"
            yield from _callable(member, getattr(value, member))


def _fields(kind: type) -> list[tuple[str, str]]:
    if dataclasses.is_dataclass(kind):
        return [
            (field.name, str(field.type))
            for field in dataclasses.fields(kind)
        ]
    if hasattr(kind, "_fields"):
        return [(name, _annotation(kind, name)) for name in kind._fields]
    return []


def _annotation(kind: type, name: str) -> str:
    found = kind.__annotations__[name]
    return getattr(found, "__forward_arg__", None) or str(found)


def _members(kind: type) -> Iterator[tuple[str, type]]:
    """Yield the public methods and properties of a class in the order in which they stand, its own bases' too."""
    seen = set(dir(object)) | {field for field, _ in _fields(kind)}
    for owner in kind.__mro__:
        if not owner.__module__.startswith("penstock."):
            continue
        for name, found in vars(owner).items():
            public = not name.startswith("_") and name not in seen
            if public and (
                isinstance(found, property | classmethod | staticmethod)
                or inspect.isfunction(found)
            ):
                seen.add(name)
                yield name, owner


def _callable(name: str, value: Any) -> Iterator[str]:
    yield f"```text\n{_signature(name, inspect.signature(value))}\n```"
    yield from _words(value)


def _signature(name: str, signature: inspect.Signature) -> str:
    kept = [
        one
        for one in signature.parameters.values()
        if one.name not in {"self", "cls"}
    ]
    plain = signature.replace(parameters=kept)
    text = f"{name}{_shown(plain)}"
    if len(text) <= WIDTH:
        return text
    lines = [f"    {part}," for part in _parameters(plain)]
    return "\n".join([f"{name}(", *lines, f"){_returned(plain)}"])


def _shown(signature: inspect.Signature) -> str:
    return f"({', '.join(_parameters(signature))}){_returned(signature)}"


def _returned(signature: inspect.Signature) -> str:
    given = signature.return_annotation
    return (
        "" if given in (inspect.Signature.empty, "None") else f" -> {given}"
    )


def _parameters(signature: inspect.Signature) -> Iterator[str]:
    kinds = inspect.Parameter
    starred = False
    for one in signature.parameters.values():
        if one.kind is kinds.KEYWORD_ONLY and not starred:
            starred = True
            yield "*"
        starred = starred or one.kind is kinds.VAR_POSITIONAL
        mark = {kinds.VAR_POSITIONAL: "*", kinds.VAR_KEYWORD: "**"}.get(
            one.kind, ""
        )
        kind = (
            "" if one.annotation is kinds.empty else f": {one.annotation}"
        )
        default = (
            ""
            if one.default is kinds.empty
            else f" = {_default(one.default)}"
        )
        yield f"{mark}{one.name}{kind}{default}"


def _default(value: object) -> str:
    if isinstance(value, enum.Enum):
        return repr(value.value)
    return repr(value)


def _words(value: Any) -> Iterator[str]:
    words = inspect.getdoc(value) or ""
    raises = RAISES.search(words + "\n")
    if raises is None:
        yield words
        return
    yield words[: raises.start()].strip()
    yield "| raises | when |\n|---|---|\n" + "\n".join(
        f"| `{kind}` | {why.replace('|', chr(92) + '|')} |"
        for kind, why in _causes(raises[1])
    )
    yield words[raises.end() :].strip()


def _causes(text: str) -> Iterator[tuple[str, str]]:
    joined = re.sub(r"\n {5,}", " ", text)
    for line in joined.splitlines():
        kind, _, why = line.strip().partition(": ")
        if kind:
            yield kind.replace(", ", "`, `"), why


def write() -> None:
    """Write every page."""
    for name, page in PAGES.items():
        (REFERENCE / name).write_text(page())


if __name__ == "__main__":
    write()
