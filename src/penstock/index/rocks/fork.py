"""RocksDB does not survive a fork; this sees to it that the child does.

A forked child has RocksDB's memory but none of its threads. To close a store there waits for them for
ever, to open another one too, and RocksDB's own exit handler joins them and crashes. So in the child
stores are never let go of, a new one is refused, and the process ends before that handler is reached.
A process that forks before it opens a store has nothing of this.
"""

from __future__ import annotations

import ctypes
import os
import weakref
from typing import Any, Protocol

from penstock.errors import UnsupportedError


class Holder(Protocol):
    """Something that has a store open."""

    _db: Any


_holders: weakref.WeakSet[Any] = weakref.WeakSet()
_state = {"opened": False, "forked": False}


def check_not_forked(path: object) -> None:
    """Refuse to open a store in a child of a process that had one open.

    Raises:
        UnsupportedError: this is such a child.
    """
    if _state["forked"]:
        raise UnsupportedError(
            "a process forked from one that had a data directory open cannot open one; "
            "start it by spawn instead (multiprocessing.set_start_method), or connect to a server",
            path=path,
        )
    _state["opened"] = True


def hold(holder: Holder) -> None:
    """Remember who has a store open, in case this process forks."""
    _holders.add(holder)


def _abandon() -> None:
    """In the child: keep the stores as they are, and skip the exit handlers that are older than the fork."""
    if not _state["opened"] or _state["forked"]:
        return
    _state["forked"] = True
    for holder in list(_holders):
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(holder._db))
    process = ctypes.CDLL(None)
    # Handlers run newest first, and this one ends the process with its status. Only glibc offers it.
    if hasattr(process, "on_exit"):
        process.on_exit(ctypes.cast(process._exit, ctypes.c_void_p), None)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_abandon)
