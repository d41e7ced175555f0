"""Exit codes of the command as a process, in one table; and how it ends on Ctrl-C."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from typer.testing import CliRunner

import penstock
from penstock.cli.main import app
from penstock.server.access.tokens import hash_token

PENSTOCK = (sys.executable, "-c", "from penstock.cli.main import main; main()")
SECONDS_MAX = 60


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Return a directory, a server, one that asks for a token, one that is away, and a directory in use."""
    data = tmp_path_factory.mktemp("data")
    for name in ("free", "served", "held"):
        with penstock.connect(data / name) as connection:
            connection.create_table("t", "id BIGINT PRIMARY KEY, n INT").upsert({"id": [1], "n": [2]})
    (data / "tokens").write_text(f"ann:{hash_token('right')}\n")
    (data / "tokens").chmod(0o600)
    (data / "bad.csv").write_text("id,n\n1,x\n")
    (data / "good.csv").write_text("id,n\n1,2\n")
    with (
        penstock.serve(data / "served") as server,
        penstock.serve(data / "secured", token_file=data / "tokens") as secured,
        penstock.connect(data / "held"),
    ):
        yield {
            "directory": str(data / "free"),
            "server": server.url,
            "secured": secured.url,
            "away": "penstock://127.0.0.1:9",
            "held": str(data / "held"),
            "none": "",
            "files": str(data),
        }


TABLE = [
    (0, "directory", ("table", "list")),
    (0, "server", ("scan", "t")),
    (0, "server", ("lookup", "t", "1")),
    (0, "none", ("--help",)),
    (0, "none", ("--version",)),
    (0, "directory", ("put", "t", "{files}/good.csv")),
    (1, "directory", ("put", "t", "{files}/bad.csv")),
    (1, "server", ("table", "create", "t", "id BIGINT PRIMARY KEY")),
    (1, "server", ("database", "create", "default")),
    (2, "none", ("scan", "t")),
    (2, "server", ("scan", "t", "--nonsense")),
    (2, "server", ("nonsense",)),
    (2, "server", ("scan",)),
    (2, "server", ("scan", "t", "--filter", "nothing > 1")),
    (2, "server", ("scan", "t", "--limit", "x")),
    (2, "server", ("sql", "SELEC 1")),
    (2, "server", ("sql", "DROP TABLE t")),
    (2, "server", ("truncate", "t")),
    (2, "none", ("--url", "localhost:9123", "table", "list")),
    (3, "directory", ("scan", "nowhere")),
    (3, "server", ("scan", "nowhere")),
    (3, "server", ("lookup", "t", "99")),
    (3, "server", ("put", "t", "nowhere.csv")),
    (3, "server", ("scanner", "kill", "nobody")),
    (3, "server", ("lease", "drop", "nobody")),
    (3, "server", ("owner", "show", "t", "nobody")),
    (3, "server", ("table", "list", "nowhere")),
    (3, "none", ("--url", "./nowhere", "table", "list")),
    (4, "secured", ("table", "list")),
    (4, "secured", ("--token", "wrong", "scan", "t")),
    (5, "away", ("table", "list")),
    (5, "held", ("table", "list")),
]


FIRST = {code: (code, place, words) for code, place, words in reversed(TABLE)}


def shown(value: object) -> str:
    return " ".join(value) if isinstance(value, tuple) else str(value)


@pytest.mark.parametrize(("code", "place", "words"), TABLE, ids=shown)
def test_exit_code_says_what_kind_of_end_it_was(
    places: dict[str, str], code: int, place: str, words: tuple[str, ...]
) -> None:
    known = {"PENSTOCK_URL": places[place], "PENSTOCK_TOKEN": ""}

    done = CliRunner().invoke(app, [word.format(**places) for word in words], env=known)

    assert done.exit_code == code, done.output
    assert code == 0 or (done.stderr and not done.stdout)


@pytest.mark.parametrize(("code", "place", "words"), FIRST.values(), ids=shown)
def test_process_ends_with_the_code(places: dict[str, str], code: int, place: str, words: tuple[str, ...]) -> None:
    known = os.environ | {"PENSTOCK_URL": places[place], "PENSTOCK_TOKEN": ""}
    given = [word.format(**places) for word in words]

    done = subprocess.run(
        [*PENSTOCK, *given], capture_output=True, text=True, timeout=SECONDS_MAX, check=False, env=known
    )

    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr


def test_interrupt_ends_with_130_and_says_what_was_written(places: dict[str, str]) -> None:
    known = os.environ | {"PENSTOCK_URL": places["server"]}
    words = ("put", "t", "-", "--format", "ndjson", "--output", "json")
    pipe = subprocess.PIPE
    with subprocess.Popen([*PENSTOCK, *words], stdin=pipe, stdout=pipe, stderr=pipe, text=True, env=known) as process:
        try:
            assert process.stdin is not None
            process.stdin.write('{"id": 7, "n": 7}\n')
            process.stdin.flush()
            with penstock.connect(places["server"]) as connection:
                changes = connection.table("t").changes(start=penstock.EARLIEST, follow=True, timeout="60s")
                next(batch for batch in changes if 7 in batch.column("id").to_pylist())
            # An interrupt in the middle of Arrow's own code may be lost: press it again, as people do.
            for _ in range(10):
                process.send_signal(signal.SIGINT)
                with suppress(subprocess.TimeoutExpired):
                    process.wait(timeout=5)
                    break
            out, said = process.communicate(timeout=SECONDS_MAX)
        finally:
            process.kill()

    assert process.returncode == 130, said
    assert out == ""
    assert "written before it: 1 row" in said
    assert "Traceback" not in said


def test_closed_pipe_is_quiet(places: dict[str, str], tmp_path: Path) -> None:
    with penstock.connect(places["server"]) as connection:
        connection.create_table("many", "id BIGINT PRIMARY KEY", if_not_exists=True).upsert({"id": range(200_000)})
    shell = f'"{sys.executable}" -c "from penstock.cli.main import main; main()" scan many | head -n 1'
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", shell],
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
        env=os.environ | {"PENSTOCK_URL": places["server"]},
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("\n") == 1
