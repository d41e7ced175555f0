"""A directory tree, as the process sees it and as the platter has it.

Every change of names waits as an *edit* until the directory it belongs to is synced. A power loss keeps, of the
waiting edits, either the first few of each directory (a journal that ends somewhere) or any of them (no journal).
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Literal

from penstock.testing.volatile_file import VolatileFile


def parent_of(path: str) -> str:
    """Return the directory that holds a path; the root is ''."""
    return path.rpartition("/")[0]


def is_under(path: str, directory: str) -> bool:
    """Tell whether a path lies in a directory or its subdirectories."""
    return path != directory and (directory == "" or path.startswith(directory + "/"))


@dataclass(frozen=True, slots=True, eq=False)
class _Edit:
    directory: str
    kind: Literal["link", "unlink", "mkdir", "rmdir"]
    path: str
    file: VolatileFile | None = None
    source: str = ""


@dataclass(slots=True)
class _Tree:
    files: dict[str, VolatileFile] = field(default_factory=dict)
    directories: set[str] = field(default_factory=lambda: {""})

    def apply(self, edit: _Edit) -> None:
        """Make one change; one that has lost its ground (a directory gone, or not empty) does nothing."""
        if edit.kind == "link" and parent_of(edit.path) in self.directories:
            assert edit.file is not None
            if self.files.get(edit.source) is edit.file:
                del self.files[edit.source]
            self.files[edit.path] = edit.file
        elif edit.kind == "unlink":
            self.files.pop(edit.path, None)
        elif edit.kind == "mkdir" and parent_of(edit.path) in self.directories:
            self.directories.add(edit.path)
        elif edit.kind == "rmdir" and not self.under(edit.path):
            self.directories.discard(edit.path)

    def under(self, directory: str) -> list[str]:
        """Return all paths below a directory."""
        return [path for path in (*self.files, *self.directories) if is_under(path, directory)]


class VolatileNames:
    """The names of files and directories, now and on the platter. Not thread-safe."""

    def __init__(self) -> None:
        self._now = _Tree()
        self._durable = _Tree()
        self._waiting: list[_Edit] = []

    @property
    def files(self) -> dict[str, VolatileFile]:
        """Return the files by path, as the process sees them."""
        return self._now.files

    @property
    def directories(self) -> set[str]:
        """Return the directories, as the process sees them."""
        return self._now.directories

    def link(self, path: str, file: VolatileFile, *, source: str = "") -> None:
        """Give a file a name; with `source`, in place of that one."""
        self._edit(_Edit(parent_of(path), "link", path, file, source))

    def unlink(self, path: str) -> None:
        """Take a name away."""
        self._edit(_Edit(parent_of(path), "unlink", path))

    def make_directory(self, directory: str) -> None:
        """Create a directory and its missing parents, not yet durably."""
        parts = directory.split("/") if directory else []
        for path in ("/".join(parts[: count + 1]) for count in range(len(parts))):
            if path not in self.directories:
                self._edit(_Edit(parent_of(path), "mkdir", path))

    def remove_tree(self, directory: str, done: float) -> None:
        """Take away the names below a directory, and its own; or, before that, the part `done` of them."""
        home = parent_of(directory)
        inside = sorted(self._now.under(directory), reverse=True)
        # What waited for a sync of a directory that goes now waits for a sync of the one that held it.
        self._waiting = [
            dataclasses.replace(edit, directory=home)
            if edit.directory == directory or is_under(edit.directory, directory)
            else edit
            for edit in self._waiting
        ]
        doomed = [path for path in [*inside, directory] if path in self.files or path in self.directories]
        for path in doomed[: int(len(doomed) * done)]:
            self._edit(_Edit(home, "unlink" if path in self.files else "rmdir", path))

    def sync(self, directory: str) -> None:
        """Make the changes in a directory durable."""
        self._settle(lambda edit: edit.directory == directory)

    def sync_made(self, directory: str) -> None:
        """Make a directory itself and its parents durable, and nothing else in those parents."""

        def concerns(edit: _Edit) -> bool:
            related = edit.path == directory or is_under(directory, edit.path) or is_under(edit.path, directory)
            return related and is_under(directory, edit.directory)

        self._settle(concerns)

    def after_power_loss(self, random: Random) -> VolatileNames:
        """Return the tree as it may come back, each file in it as that may come back."""
        tree = _Tree(dict(self._durable.files), set(self._durable.directories))
        for edit in self._survivors(random):
            tree.apply(edit)
        fresh = VolatileNames()
        fresh._now.directories = tree.directories
        fresh._now.files = {path: tree.files[path].after_power_loss(random) for path in sorted(tree.files)}
        fresh._durable = _Tree(dict(fresh._now.files), set(fresh._now.directories))
        return fresh

    def _survivors(self, random: Random) -> list[_Edit]:
        if random.random() < 0.5:
            return [edit for edit in self._waiting if random.random() < 0.5]
        waiting: dict[str, int] = defaultdict(int)
        for edit in self._waiting:
            waiting[edit.directory] += 1
        left = {directory: random.randint(0, count) for directory, count in waiting.items()}
        survivors = []
        for edit in self._waiting:
            if left[edit.directory] > 0:
                left[edit.directory] -= 1
                survivors.append(edit)
        return survivors

    def _edit(self, edit: _Edit) -> None:
        self._now.apply(edit)
        self._waiting.append(edit)

    def _settle(self, chosen: Callable[[_Edit], bool]) -> None:
        settled = [edit for edit in self._waiting if chosen(edit)]
        for edit in settled:
            self._durable.apply(edit)
        # A file moved out of a directory: its older name there, not yet durable, never will be.
        moved = {(edit.source, edit.file) for edit in settled if edit.source}
        self._waiting = [edit for edit in self._waiting if not chosen(edit) and (edit.path, edit.file) not in moved]
