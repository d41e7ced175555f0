"""Damage to a stored directory, one file at a time, and what whoever opens it is told."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from tests.fixtures import make_stored_directories
from tests.fixtures.stored_directory import SETTINGS, read

import penstock
from penstock.errors import PenstockError

KINDS = (
    "metadata.db",
    "metadata.db-wal",
    "metadata.db-mark",
    "manifest",
    "segment",
    "data",
    "ends",
    "snapshot",
    "staged rows",
    "index",
    "LOCK",
)
_KIND = re.compile(r"(manifest|segment|data|ends|snapshot)-\d{12}")


def kind_of(path: Path) -> str:
    """Return the kind of a file in a data directory."""
    if path.parent.name == "index":
        return "index"
    if path.suffix == ".rows":
        return "staged rows"
    match = _KIND.fullmatch(path.name)
    return match.group(1) if match else path.name


@dataclass(frozen=True)
class Damage:
    """One bit flipped, the file cut, or (at -1) gone."""

    path: str
    at: int
    bit: int | None

    def do(self, directory: Path) -> None:
        """Damage the file."""
        target = directory / self.path
        if self.at < 0:
            target.unlink()
        elif self.bit is None:
            os.truncate(target, self.at)
        else:
            data = bytearray(target.read_bytes())
            data[self.at] ^= 1 << self.bit
            target.write_bytes(data)


@dataclass(frozen=True)
class Stored:
    """A directory as it was left, and all that is in it."""

    directory: Path
    truth: dict[str, Any]

    @classmethod
    def make(cls, how: str, directory: Path) -> Stored:
        """Write a directory in a process of its own, and have that end as told: closed or killed."""
        directory.mkdir()
        program = Path(make_stored_directories.__file__)
        paths = [str(Path(penstock.__path__[0]).parent), str(program.parents[2])]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
        subprocess.run([sys.executable, str(program), "--make", how], cwd=directory, env=environment, check=True)
        truth: dict[str, Any] = json.loads((directory / "truth.json").read_text())["read"]
        return cls(directory / "data", truth)

    def damages(self, kind: str, count: int, random: Random, ways: Sequence[str]) -> Iterator[Damage]:
        """Yield damage to files of a kind, so often, in these ways in turn: flip, cut, remove."""
        files = [path for path in sorted(self.directory.rglob("*")) if path.is_file() and kind_of(path) == kind]
        files = [path for path in files if path.stat().st_size]
        for number in range(count if files else 0):
            path = random.choice(files)
            # The space that is reserved for what comes next is not written yet.
            name, written = str(path.relative_to(self.directory)), len(path.read_bytes().rstrip(b"\x00")) or 1
            way = ways[number % len(ways)]
            at = -1 if way == "remove" else random.randrange(written)
            yield Damage(name, at, random.randrange(8) if way == "flip" else None)

    def told(self, damage: Damage, copy: Path) -> str:
        """Open a damaged copy and read all; return `equal`, the error's name, `listed`, or what differs in silence.

        `listed`: all is equal but for snapshots that are listed as damaged.
        """
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(self.directory, copy)
        damage.do(copy)
        try:
            with penstock.connect(copy, settings=SETTINGS) as connection:
                found = read(connection)
                damaged = _damaged_snapshots(connection)
        except PenstockError as error:
            return type(error).__name__
        except (ArithmeticError, AttributeError, LookupError, OSError, TypeError, ValueError) as error:
            return f"silent: {error!r}"
        if found == self.truth:
            return "equal"
        for path, facts in self.truth["tables"].items():
            there = found["tables"].get(path, {})
            is_listed = any((path, number) in damaged for _, number, *_ in facts.get("snapshots", ()))
            wrong = [
                fact for fact in facts if facts[fact] != there.get(fact) and not (is_listed and fact == "snapshots")
            ]
            if wrong:
                return f"silent: {path} {wrong}"
        wrong = [part for part in self.truth if part != "tables" and found[part] != self.truth[part]]
        return f"silent: {wrong}" if wrong else "listed"


def _damaged_snapshots(connection: penstock.Connection) -> set[tuple[str, int | None]]:
    tables = [connection.table(f"shop.{name}") for name in connection.list_tables("shop")]
    keyed = [table for table in tables if table.info.primary_key]
    return {(table.path, found.id) for table in keyed for found in table.list_snapshots() if found.damaged}
