"""The root of the command line: commands that are loaded when used, and errors that end in a code.

Listing the commands needs their names and one line each, so that is all the root knows of them; the
rest, and with it Arrow, is imported for the one command that runs.
"""

from __future__ import annotations

import importlib
import traceback
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from penstock.cli.root.name_completion import complete_names
from penstock.cli.root.plain_help import plain_help
from penstock.cli.root.shared_options import DEBUG, add_shared_options, output_everywhere
from penstock.cli.terminal.exit_codes import ExitCode, exit_code
from penstock.cli.terminal.words import say, say_failure, unwrapped
from penstock.errors import InternalError, PenstockError


class Entry(NamedTuple):
    """Where a command lives, what it does in a line, and under which heading it is listed."""

    module: str
    summary: str
    panel: str


_NODE: Final = "Node"
_TABLES: Final = "Tables"
_ROWS: Final = "Rows"

COMMANDS: Final[Mapping[str, Entry]] = {
    "serve": Entry("penstock.cli.operate.serve", "Serve a data directory to others.", _NODE),
    "demo": Entry("penstock.cli.demo.command", "See it work: a Spark job, two crashes, every total checked.", _NODE),
    "top": Entry("penstock.cli.operate.top", "Watch tables: rows, rates, scanners, leases, owners.", _NODE),
    "scanner": Entry("penstock.cli.commands.scanner", "List or end scan sessions.", _NODE),
    "lease": Entry("penstock.cli.commands.lease", "Take, renew, give back and list leases.", _NODE),
    "owner": Entry("penstock.cli.commands.owner", "List, show, release and drop owners of columns.", _NODE),
    "token": Entry("penstock.cli.upkeep.token", "Make, list and revoke the tokens of a server.", _NODE),
    "backup": Entry(
        "penstock.cli.operate.backup", "Copy all tables as they are at one moment, while writers go on.", _NODE
    ),
    "restore": Entry("penstock.cli.operate.restore", "Make a new data directory of a backup.", _NODE),
    "bench": Entry("penstock.cli.operate.bench", "Measure inserts, updates, scans, lookups and changes.", _NODE),
    "doctor": Entry(
        "penstock.cli.operate.doctor", "Look for what is wrong on this machine, and say what to do.", _NODE
    ),
    "database": Entry("penstock.cli.upkeep.database", "Create, list and drop databases.", _TABLES),
    "table": Entry("penstock.cli.commands.table", "Create, list, describe, alter and drop tables.", _TABLES),
    "partition": Entry("penstock.cli.upkeep.partition", "Create, list and drop partitions of a table.", _TABLES),
    "snapshot": Entry("penstock.cli.commands.snapshot", "Take and list the snapshots of tables.", _TABLES),
    "put": Entry("penstock.cli.commands.put", "Write the rows of files into a table.", _ROWS),
    "delete": Entry("penstock.cli.upkeep.delete", "Delete the rows that match a filter.", _ROWS),
    "truncate": Entry("penstock.cli.upkeep.truncate", "Delete all rows of a table.", _ROWS),
    "scan": Entry("penstock.cli.commands.scan", "Read a table at one consistent cut.", _ROWS),
    "tail": Entry("penstock.cli.commands.tail", "Read a table's changes, and follow them.", _ROWS),
    "lookup": Entry("penstock.cli.commands.lookup", "Read rows by key.", _ROWS),
    "sql": Entry("penstock.cli.commands.sql", "Query tables with SQL, each at one consistent cut.", _ROWS),
}


class CommandGroup(TyperGroup):
    """The commands of `penstock`."""

    def __init__(self, **facts: Any) -> None:
        super().__init__(**facts)
        self.help = unwrapped(self.help or "")
        plain_help(self)

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of all commands, in the order of the help."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command as listings need it: its name and what it does."""
        entry = COMMANDS.get(cmd_name)
        return entry and TyperCommand(cmd_name, help=entry.summary, rich_help_panel=entry.panel)

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Return the command that will run, loaded."""
        # Typer suggests a near name from here.
        self.commands = {name: self.get_command(ctx, name) for name in COMMANDS}
        name, found, rest = super().resolve_command(ctx, args)
        if name is None or found is None:
            return name, found, rest
        command = load_command(name)
        output = ctx.params.get("output")
        if output is not None:
            ctx.default_map = {name: output_everywhere(command, output)}
        return name, command, rest

    def invoke(self, ctx: Any) -> Any:
        """Run the command; end with the code that its error stands for.

        Raises:
            typer.Exit: the command failed in a way that was said.
        """
        try:
            return super().invoke(ctx)
        except PenstockError as error:
            _say_where(ctx, error)
            say_failure(error)
            raise typer.Exit(exit_code(error)) from error
        except OSError as error:
            # Whose reader has gone is ended by who runs the command line.
            if isinstance(error, BrokenPipeError):
                raise
            _say_where(ctx, error)
            say(f"penstock: {error.strerror or error}" + (f" file={error.filename}" if error.filename else ""))
            raise typer.Exit(ExitCode.FAILED) from error
        except KeyboardInterrupt as error:
            _say_where(ctx, error)
            raise typer.Exit(ExitCode.INTERRUPTED) from error
        except (typer.Exit, typer.Abort, typer.TyperException):
            raise
        except Exception as error:
            _say_where(ctx, error)
            say_failure(InternalError(f"{type(error).__name__}: {error}"))
            raise typer.Exit(ExitCode.FAILED) from error


def _say_where(ctx: Any, error: BaseException) -> None:
    if ctx.meta.get(DEBUG) or ctx.params.get("debug"):
        say("".join(traceback.format_exception(error)).rstrip())


def load_command(name: str) -> Any:
    """Import a command's module and return the command."""
    command: Any = get_command(importlib.import_module(COMMANDS[name].module).app)
    command.name = name
    _finish(command)
    return command


def _finish(command: Any) -> None:
    """Give a command, and those below it, what all commands have: help, shared options, completion of names."""
    command.help = unwrapped(command.help or "")
    inner = getattr(command, "commands", None)
    if not inner:
        add_shared_options(command)
        complete_names(command)
    plain_help(command)
    for below in (inner or {}).values():
        _finish(below)
