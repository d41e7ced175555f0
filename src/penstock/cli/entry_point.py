"""The console script `penstock`: the command line, or how to install it where only the client is."""

from __future__ import annotations

import sys

from penstock.cli.terminal.exit_codes import exit_code
from penstock.errors import UnsupportedError
from penstock.runtime.packages import needs_engine


def main() -> None:
    """Run the command line of this process."""
    try:
        with needs_engine("the command line"):
            # Here, not above: the client comes without the packages that this needs.
            from penstock.cli.main import main as run  # noqa: PLC0415
    except UnsupportedError as error:
        sys.stderr.write(f"penstock: {error}\n")
        sys.exit(exit_code(error))
    run()
