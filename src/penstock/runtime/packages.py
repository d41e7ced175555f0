"""Packages that an installation may lack: the client comes without the engine's, and extras bring the rest."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from penstock.errors import UnsupportedError

WHOLE: Final = "penstock-db"
"""The distribution that brings engine, server and command line."""
CLIENT: Final = "penstock-db-client"
"""The distribution that has the code, and brings what a server's client needs."""
ENGINE_PACKAGES: Final = frozenset(
    ("click", "prometheus_client", "pyroaring", "rich", "rocksdict", "shellingham", "typer", "xxhash")
)
"""Modules of the packages that `penstock-db` brings and `penstock-db-client` does not."""


def install_command(extra: str | None = None) -> str:
    """Return the command that installs everything, or everything and an extra."""
    return f"pip install {WHOLE}" if extra is None else f"pip install '{WHOLE}[{extra}]'"


@contextmanager
def needs_engine(what: str) -> Iterator[None]:
    """Make imports of the engine say what to install where only the client is.

    Raises:
        UnsupportedError: a package of the engine is not installed.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in ENGINE_PACKAGES:
            raise
        raise UnsupportedError(
            f"{what} needs the engine, and only the client is installed; {install_command()}", missing=missing
        ) from error


@contextmanager
def needs_extra(what: str, package: str, extra: str) -> Iterator[None]:
    """Make the import of an extra's package say what to install where it is missing.

    Raises:
        UnsupportedError: the package is not installed.
    """
    try:
        yield
    except ImportError as error:
        if (error.name or package).partition(".")[0] != package:
            raise
        raise UnsupportedError(f"{what} needs {package}; {install_command(extra)}") from error
