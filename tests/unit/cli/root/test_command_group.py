"""The root of the command line: help, versions, loading, and how failures end."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from typer.testing import CliRunner

from penstock import errors
from penstock.cli.main import app
from penstock.cli.root.command_group import COMMANDS, CommandGroup, load_command

RUNNER = CliRunner()


def leaves(command: Any, name: str) -> Iterator[tuple[str, Any]]:
    """Return every command that can be run, with the words that run it."""
    inner = getattr(command, "commands", None)
    if not inner:
        yield name, command
        return
    for word, found in inner.items():
        yield from leaves(found, f"{name} {word}")


LEAVES = dict(leaf for name in COMMANDS for leaf in leaves(load_command(name), name))


@pytest.mark.parametrize("name", COMMANDS)
def test_listed_summary_is_the_first_line_of_the_commands_help(name: str) -> None:
    first = load_command(name).help.partition("\n")[0]

    assert first.startswith(COMMANDS[name].summary)


def test_help_lists_every_command() -> None:
    shown = RUNNER.invoke(app, ["--help"])

    assert shown.exit_code == 0
    for name, entry in COMMANDS.items():
        assert name in shown.stdout
        assert entry.summary in shown.stdout


@pytest.mark.parametrize("words", LEAVES)
def test_help_of_every_command_has_examples_that_parse(words: str) -> None:
    shown = RUNNER.invoke(app, [*words.split(), "--help"])

    assert shown.exit_code == 0, shown.output
    assert "Examples" in shown.stdout
    assert f"penstock {words}" in LEAVES[words].epilog


@pytest.mark.parametrize("words", sorted(LEAVES.keys() - {"serve", "demo"}))
def test_every_command_that_ends_by_itself_has_output_for_programs(words: str) -> None:
    assert "--output" in {option for parameter in LEAVES[words].params for option in parameter.opts}


def loaded_by_help(*lines: list[str]) -> set[str]:
    """Return which slow packages are loaded when the help of these commands is shown."""
    code = (
        "import sys\nfrom penstock.cli.main import app\n"
        f"for words in {lines}:\n  try: app([*words, '--help'])\n  except SystemExit: pass\n"
        "print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    slow = {"pyarrow", "numpy", "pandas", "polars", "rocksdict", "duckdb", "pyspark", "penstock.engine.engine"}
    return slow & set(done.stdout.splitlines()[-1].split())


def test_help_imports_no_arrow_no_rocksdb_and_no_duckdb() -> None:
    assert loaded_by_help([]) == set()


def test_help_of_the_commands_loads_nothing_heavier_than_arrow() -> None:
    assert loaded_by_help(*([name] for name in COMMANDS)) == {"pyarrow", "numpy"}


def test_version_is_shown() -> None:
    shown = RUNNER.invoke(app, ["--version"])

    assert shown.exit_code == 0
    assert shown.stdout.startswith("penstock 0.")


@pytest.mark.parametrize("words", [[], ["nope"], ["scan"], ["scan", "t", "--limit", "x"], ["scan", "t", "--nope"]])
def test_wrong_usage_ends_with_two(words: list[str]) -> None:
    assert RUNNER.invoke(app, words).exit_code == 2


def test_near_name_is_suggested() -> None:
    assert "Did you mean 'scan', 'scanner'?" in RUNNER.invoke(app, ["scn"]).stderr


def test_neither_option_nor_environment_names_a_node() -> None:
    done = RUNNER.invoke(app, ["scan", "t"], env={"PENSTOCK_URL": ""})

    assert done.exit_code == 2
    assert "--url" in done.stderr
    assert "PENSTOCK_URL" in done.stderr


def test_completion_offers_commands_with_what_they_do() -> None:
    done = RUNNER.invoke(
        app, env={"_PENSTOCK_COMPLETE": "complete_zsh", "_TYPER_COMPLETE_ARGS": "penstock sc"}, prog_name="penstock"
    )

    assert "scan" in done.stdout
    assert COMMANDS["scan"].summary in done.stdout


def test_completion_offers_the_options_of_a_command() -> None:
    done = RUNNER.invoke(
        app,
        env={"_PENSTOCK_COMPLETE": "complete_zsh", "_TYPER_COMPLETE_ARGS": "penstock scan --fil"},
        prog_name="penstock",
    )

    assert "--filter" in done.stdout


def failing(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    """Let every command fail in a way that its author did not foresee."""

    def fail(*_: object) -> Any:
        raise error

    monkeypatch.setattr(CommandGroup, "resolve_command", fail)


def test_bug_is_one_line_and_a_hint_and_no_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    failing(monkeypatch, ZeroDivisionError("division by zero"))

    done = RUNNER.invoke(app, ["scan", "t"])

    assert done.exit_code == 1
    assert done.stderr.splitlines()[0] == "penstock: ZeroDivisionError: division by zero"
    assert "--debug" in done.stderr
    assert "Traceback" not in done.stderr


def test_debug_shows_where_a_failure_came_from(monkeypatch: pytest.MonkeyPatch) -> None:
    failing(monkeypatch, ZeroDivisionError("division by zero"))

    done = RUNNER.invoke(app, ["--debug", "scan", "t"])

    assert done.exit_code == 1
    assert done.stderr.startswith("Traceback")
    assert "penstock: ZeroDivisionError: division by zero" in done.stderr


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.InvalidError("x"), 2),
        (errors.TableNotFoundError("x"), 3),
        (errors.PermissionDeniedError("x"), 4),
        (errors.UnavailableError("x"), 5),
        (errors.ConflictError("x"), 1),
        (PermissionError(13, "x"), 1),
    ],
)
def test_debug_changes_no_exit_code(monkeypatch: pytest.MonkeyPatch, error: Exception, code: int) -> None:
    failing(monkeypatch, error)

    assert RUNNER.invoke(app, ["scan", "t"]).exit_code == code
    assert RUNNER.invoke(app, ["--debug", "scan", "t"]).exit_code == code


def test_certificate_that_is_not_trusted_is_no_matter_of_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    error = errors.PermissionDeniedError("the server's certificate is not trusted; pass its ca by tls=")
    error.reached = False
    failing(monkeypatch, error)

    done = RUNNER.invoke(app, ["scan", "t"])
    assert "--tls-ca FILE" in done.stderr
    assert "token" not in done.stderr


def test_file_that_cannot_be_read_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    failing(monkeypatch, PermissionError(13, "Permission denied", "rows.csv"))

    done = RUNNER.invoke(app, ["scan", "t"])

    assert done.exit_code == 1
    assert done.stderr == "penstock: Permission denied file=rows.csv\n"
