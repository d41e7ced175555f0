"""Every kind of error ends a command with a code of its own meaning."""

from __future__ import annotations

import inspect

import pytest

from penstock import errors
from penstock.cli.terminal.exit_codes import EXIT_CODES, ExitCode, exit_code
from penstock.errors import PenstockError

KINDS: set[type[PenstockError]] = {
    c for c in vars(errors).values() if inspect.isclass(c) and issubclass(c, PenstockError)
}


def test_every_kind_of_error_has_a_code() -> None:
    assert set(EXIT_CODES) == KINDS


@pytest.mark.parametrize("kind", sorted(KINDS, key=str), ids=lambda kind: kind.__name__)
def test_code_says_what_the_kind_says(kind: type[PenstockError]) -> None:
    code = exit_code(kind("x"))

    assert code is not ExitCode.OK
    assert (code is ExitCode.NOT_FOUND) == issubclass(kind, errors.NotFoundError)
    assert (code is ExitCode.DENIED) == issubclass(kind, errors.PermissionDeniedError)
    assert (code is ExitCode.UNAVAILABLE) == issubclass(kind, (errors.UnavailableError, errors.DirectoryInUseError))


def test_codes_are_those_that_are_documented() -> None:
    assert [code.value for code in ExitCode] == [0, 1, 2, 3, 4, 5, 130]
