"""Output whose reader has gone, as in `penstock scan ... | head`: it has what it wanted, so the command ends well."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from penstock.cli.terminal.exit_codes import ExitCode


@contextmanager
def closed_output_is_no_failure() -> Iterator[None]:
    """Run a command line to its end; if its reader left, exit quietly with OK.

    Raises:
        SystemExit: how the command line ended.
    """
    try:
        yield
    except SystemExit as end:
        # Help is written by code that makes an exit with 1 of a broken pipe.
        if not isinstance(end.__context__, BrokenPipeError):
            _flush_the_rest()
            raise
        _forget_output()
        sys.exit(ExitCode.OK)


def _flush_the_rest() -> None:
    """Write what is still to be written; here, not when Python ends, which would complain if no process reads it."""
    try:
        # There is none in a process that was started with it closed.
        if sys.stdout is not None:
            sys.stdout.flush()
    except BrokenPipeError:
        _forget_output()


def _forget_output() -> None:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
