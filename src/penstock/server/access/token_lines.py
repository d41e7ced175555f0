"""The lines of a token file, to be edited: a reader meanwhile sees it as before, or as after.

A line that is no token (a comment, an empty one) stays where it is, and so does what stands after a hash.
"""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from penstock.errors import AlreadyExistsError, InvalidError, NotFoundError
from penstock.model.node.principal import UNNAMED
from penstock.server.access.tokens import hash_token, make_token

_NAME: Final = re.compile(r"[A-Za-z0-9][\w.@-]{0,127}", re.ASCII)
_MODE: Final = 0o600


class TokenLines:
    """A token file that is edited. Two edits at a time are done one after the other."""

    def __init__(self, path: Path) -> None:
        # What a link points to is written, and the link stays.
        self._path = path.resolve()

    def names(self) -> list[str]:
        """Return the names that have a token, in the order of the file.

        Raises:
            NotFoundError: the file cannot be read.
        """
        return [name for name in map(_name_of, self._read()) if name]

    def add(self, name: str) -> str:
        """Add a token of that name; return it. The file is made if it is not there.

        Raises:
            AlreadyExistsError: the name has one.
            InvalidError: the name is none to give.
        """
        if not _NAME.fullmatch(name) or name in UNNAMED:
            raise InvalidError(
                "the name of a token has letters, digits, and _ . @ - after the first, and is none that stands for "
                "callers without one",
                name=name,
            )
        with self._edited(create=True) as lines:
            if name in map(_name_of, lines):
                raise AlreadyExistsError(
                    "there is a token of that name; choose another, or revoke it first", name=name, path=str(self._path)
                )
            token = make_token()
            lines.append(f"{name}:{hash_token(token)}")
        return token

    def remove(self, names: Sequence[str]) -> None:
        """Take the tokens of these names out.

        Raises:
            NotFoundError: one is not there; none was taken out.
            InvalidError: none would be left, and a server keeps the tokens of before then.
        """
        with self._edited(create=False) as lines:
            known = {name for name in map(_name_of, lines) if name}
            absent = next((name for name in names if name not in known), None)
            if absent is not None:
                raise NotFoundError("the file has no token of that name", name=absent, path=str(self._path))
            if known.issubset(names):
                raise InvalidError(
                    "a server refuses a file without a token and keeps those of before; make another token first, or "
                    "stop the server and remove the file",
                    path=str(self._path),
                )
            lines[:] = [line for line in lines if _name_of(line) not in names]

    @contextmanager
    def _edited(self, *, create: bool) -> Iterator[list[str]]:
        with self._locked(create=create):
            lines = self._read()
            yield lines
            mode = self._path.stat().st_mode & 0o777
            fresh = self._path.with_name(f".{self._path.name}.{os.getpid()}")
            try:
                with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, _MODE), "w") as file:
                    os.fchmod(file.fileno(), mode)
                    file.writelines(f"{line}\n" for line in lines)
                    file.flush()
                    os.fsync(file.fileno())
                fresh.replace(self._path)
            finally:
                fresh.unlink(missing_ok=True)

    @contextmanager
    def _locked(self, *, create: bool) -> Iterator[None]:
        while True:
            try:
                held = os.open(self._path, os.O_RDONLY | (os.O_CREAT if create else 0), _MODE)
            except OSError as error:
                raise _unreadable(self._path, error) from error
            try:
                fcntl.flock(held, fcntl.LOCK_EX)
                # Another edit may have put a new file in its place while this one waited.
                if os.path.samestat(os.fstat(held), os.stat(self._path)):
                    yield
                    return
            finally:
                os.close(held)

    def _read(self) -> list[str]:
        try:
            return self._path.read_text().splitlines()
        except OSError as error:
            raise _unreadable(self._path, error) from error


def _name_of(line: str) -> str | None:
    text = line.strip()
    return None if not text or text.startswith("#") else text.partition(":")[0]


def _unreadable(path: Path, error: OSError) -> NotFoundError:
    return NotFoundError("the token file cannot be read", path=str(path), cause=error.strerror)
