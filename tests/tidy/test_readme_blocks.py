"""The code in README and documentation runs as it stands, and prints what it says it prints.

The blocks of the README are one session, and run twice in one directory, as a reader who tries them again would. The
blocks of a page of the documentation are one session. The pages about Python, Spark and the command line have tests of
their own. Shell commands that would serve for ever are read, not run.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.main import get_command

import penstock
from penstock.cli.main import app
from penstock.cli.root.command_group import COMMANDS
from penstock.spark.session.java import java_home

REPOSITORY = Path(__file__).parents[2]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.M | re.S)
PROMISE = re.compile(r"^\s*# -> (.*)$", re.M)
BLOCKS = BLOCK.findall((REPOSITORY / "README.md").read_text())
ELSEWHERE = {"guide/python.md", "guide/spark.md"}
SHELL = re.compile(r"^```(?:sh|console)\n(.*?)^```$", re.M | re.S)
INLINE = re.compile(r"`penstock ([a-z]+)\b(?! url=)[^`\n]*`")


def page_name(page: Path) -> str:
    """Return the name of a page, as the documentation has it."""
    return page.relative_to(REPOSITORY / "docs").as_posix()


PAGES = sorted(
    name
    for page in (REPOSITORY / "docs").rglob("*.md")
    if BLOCK.search(page.read_text()) and (name := page_name(page)) not in ELSEWHERE
)


def shell_commands(text: str) -> list[list[str]]:
    """Return the words of every `penstock` command in the shell blocks of a document."""
    blocks = [block.replace("\\\n", " ") for block in SHELL.findall(text)]
    lines = [line.removeprefix("$ ") for block in blocks for line in block.splitlines()]
    parts = [part.strip() for line in lines for part in re.split(r"\|(?![^\"']*[\"'])", line)]
    return [shlex.split(part, comments=True)[1:] for part in parts if part.startswith("penstock ")]


def parse_command(words: list[str]) -> None:
    """Read a command line as `penstock` does, without running it."""
    command: Any = get_command(app)
    context: Any = command.make_context("penstock", list(words))
    while hasattr(command, "resolve_command"):
        name, command, rest = command.resolve_command(context, [*context._protected_args, *context.args])
        context = command.make_context(name, list(rest), parent=context)


def run(code: str, directory: Path) -> list[str]:
    """Run code in a fresh interpreter of an activated environment; return the lines it printed."""
    activated = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=directory,
        env=os.environ | {"PATH": activated, "JAVA_HOME": str(java_home()), "SPARK_LOCAL_IP": "127.0.0.1"},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_readme_has_an_example_for_python_and_one_for_spark() -> None:
    assert all(PROMISE.search(block) for block in BLOCKS)
    assert ["penstock.spark" in block for block in BLOCKS] == [False, True]


def test_readme_prints_what_it_promises_also_the_second_time(tmp_path: Path) -> None:
    session = "\n".join(BLOCKS)

    for _ in range(2):
        assert run(session, tmp_path) == PROMISE.findall(session)


@pytest.mark.parametrize("page", PAGES)
def test_page_prints_what_it_promises(page: str, tmp_path: Path) -> None:
    session = "\n".join(BLOCK.findall((REPOSITORY / "docs" / page).read_text()))

    assert session
    assert run(session, tmp_path) == PROMISE.findall(session)


@pytest.mark.parametrize(
    "document", ["README.md", *(f"docs/{page_name(p)}" for p in (REPOSITORY / "docs").rglob("*.md"))]
)
def test_shown_commands_are_understood(document: str) -> None:
    text = (REPOSITORY / document).read_text()

    for words in shell_commands(text):
        parse_command(words)
    assert set(INLINE.findall(text)) <= COMMANDS.keys()


def test_command_that_is_not_understood_is_caught() -> None:
    commands = shell_commands("```sh\npenstock scan t --outptu csv | head\ntrue | penstock owner lst  # all\n```")

    assert commands == [["scan", "t", "--outptu", "csv"], ["owner", "lst"]]
    for words in commands:
        with pytest.raises(typer.TyperException):
            parse_command(words)


def test_token_file_of_the_guide_lets_its_token_in(tmp_path: Path) -> None:
    (recipe,) = (
        block for block in SHELL.findall((REPOSITORY / "docs/guide/serving.md").read_text()) if "token=" in block
    )
    lines = recipe.replace("\\\n", " ").splitlines()
    commands = [line for line in lines if not line.startswith("penstock")]

    done = subprocess.run(
        ["bash", "-ec", "\n".join([*commands, 'printf %s "$token"'])],
        cwd=tmp_path,
        env=os.environ | {"PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )

    with penstock.serve(tmp_path / "data", token_file=tmp_path / "tokens", http_port=None) as server:
        with penstock.connect(server.url, token=done.stdout) as connection:
            assert connection.list_databases() == ["default"]
        with penstock.connect(server.url) as stranger, pytest.raises(penstock.errors.PermissionDeniedError):
            stranger.list_databases()


def test_failing_block_is_caught(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="ZeroDivisionError"):
        run("1 / 0", tmp_path)
