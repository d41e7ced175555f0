"""The command as a process: exit codes, pipes, signals, a server that it starts itself."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest

import penstock
from penstock.server.access.tokens import hash_token

PENSTOCK = (sys.executable, "-c", "from penstock.cli.main import main; main()")
SECONDS_MAX = 60


STARTED: list[subprocess.Popen[str]] = []


@pytest.fixture(autouse=True)
def nothing_left_running() -> Iterator[None]:
    """End what a failing test left behind."""
    yield
    while STARTED:
        with STARTED.pop() as process:
            process.kill()


def run(*words: str, url: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    known = os.environ | {"PENSTOCK_URL": url} | environment
    return subprocess.run(
        [*PENSTOCK, *words], capture_output=True, text=True, timeout=SECONDS_MAX, check=False, env=known
    )


def start(*words: str, url: str = "") -> subprocess.Popen[str]:
    """Start a command whose output is read while it runs."""
    known = os.environ | {"PENSTOCK_URL": url}
    pipe = subprocess.PIPE
    process = subprocess.Popen([*PENSTOCK, *words], stdin=pipe, stdout=pipe, stderr=pipe, text=True, env=known)
    STARTED.append(process)
    return process


def serve(data: Path, *words: str) -> tuple[subprocess.Popen[str], str, str]:
    """Start a server on free ports; return it with its two addresses."""
    process = start("serve", "--data", str(data), "--port", "0", "--http-port", "0", *words)
    assert process.stdout is not None
    ready, http = (word.partition("=")[2] for word in process.stdout.readline().split()[2:])
    return process, ready, http


def end(process: subprocess.Popen[str], number: signal.Signals) -> tuple[int, str]:
    """Send a signal; return the exit code and what was said."""
    process.send_signal(number)
    _, told = process.communicate(timeout=SECONDS_MAX)
    return process.returncode, told


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Return a directory with 20,000 rows in the table `numbers`."""
    with penstock.connect(tmp_path / "data") as connection:
        table = connection.create_table("numbers", "id BIGINT, text STRING, PRIMARY KEY (id)")
        table.upsert({"id": list(range(20_000)), "text": ["x" * 100] * 20_000})
    return tmp_path / "data"


@pytest.mark.parametrize("output", ["ndjson", "json", "csv", "arrow", "parquet", "table"])
def test_reader_that_has_enough_ends_the_command_quietly(data: Path, output: str) -> None:
    process = start("scan", "numbers", "--output", output, url=str(data))
    assert process.stdout is not None
    assert process.stderr is not None
    os.read(process.stdout.fileno(), 1)
    process.stdout.close()

    assert process.wait(SECONDS_MAX) == 0
    assert process.stderr.read() == ""
    process.stderr.close()


def test_data_is_on_stdout_and_words_are_on_stderr(data: Path, tmp_path: Path) -> None:
    rows = tmp_path / "rows.csv"
    rows.write_text("id,text\n-1,hello\n")

    put = run("put", "numbers", str(rows), url=str(data))
    found = run("lookup", "numbers", "id=-1", url=str(data))

    assert (put.returncode, put.stdout) == (0, "")
    assert put.stderr.startswith("1 row in")
    assert (json.loads(found.stdout), found.stderr) == ({"id": -1, "text": "hello"}, "")


def test_node_is_named_before_or_after_the_command_or_in_the_environment(data: Path, tmp_path: Path) -> None:
    words = ("scan", "numbers", "--limit", "1")
    absent = str(tmp_path / "absent")

    assert run(*words, url=str(data)).returncode == 0
    assert run("--url", str(data), *words, url=absent).returncode == 0
    assert run("--url", absent, *words, "--url", str(data), url=absent).returncode == 0


def test_interrupt_ends_a_tail_cleanly(data: Path) -> None:
    process, url, _ = serve(data)
    tail = start("tail", "numbers", "--follow", "--from", "earliest", url=url)
    assert tail.stdout is not None
    for _ in range(20_000):
        tail.stdout.readline()
    with penstock.connect(url) as connection:
        connection.table("numbers").upsert([{"id": -1, "text": "late"}])
    late = json.loads(tail.stdout.readline())

    code, told = end(tail, signal.SIGINT)

    assert (late["id"], late["_change_type"]) == (-1, "+I")
    assert code == 0
    assert told.startswith("20,001 rows; go on with --from")
    assert end(process, signal.SIGTERM)[0] == 0


def test_line_that_is_piped_is_written_while_the_pipe_is_open(data: Path) -> None:
    process, url, _ = serve(data)
    with penstock.connect(url) as connection, connection.table("numbers").changes(penstock.LATEST, follow=True) as seen:
        put = start("put", "numbers", "-", "--format", "ndjson", url=url)
        assert put.stdin is not None
        put.stdin.write('{"id": -1, "text": "early"}\n')
        put.stdin.flush()
        first = next(seen).to_pylist()
        _, told = put.communicate('{"id": -2, "text": "late"}\n', timeout=SECONDS_MAX)

    assert [row["text"] for row in first] == ["early"]
    assert told.startswith("2 rows in")
    assert end(process, signal.SIGTERM)[0] == 0


@pytest.mark.parametrize(
    "words",
    [
        ("--help",),
        ("--version",),
        ("table", "create", "--help"),
        ("scan", "--help"),
        ("scan", "numbers"),
        ("scan", "numbers", "--output", "csv"),
        ("scan", "numbers", "--output", "arrow"),
        ("tail", "numbers"),
        ("lookup", "numbers", "id=7"),
        ("table", "list"),
        ("table", "describe", "numbers"),
        ("sql", "SELECT * FROM numbers"),
        ("top", "--once"),
        ("doctor",),
    ],
    ids=" ".join,
)
def test_output_that_nobody_reads_any_more_is_no_failure(data: Path, words: tuple[str, ...]) -> None:
    known = os.environ | {"PENSTOCK_URL": str(data)}
    reader, writer = os.pipe()
    os.close(reader)

    with os.fdopen(writer, "wb") as nobody:
        done = subprocess.run(
            [*PENSTOCK, *words], stdout=nobody, stderr=subprocess.PIPE, timeout=SECONDS_MAX, check=False, env=known
        )

    assert done.returncode == 0
    assert b"Error" not in done.stderr
    assert b"Traceback" not in done.stderr


def test_failure_is_told_also_when_nobody_reads_the_output(data: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    words = ("scan", "nothing", "--url", str(data))

    with os.fdopen(writer, "wb") as nobody:
        done = subprocess.run(
            [*PENSTOCK, *words], stdout=nobody, stderr=subprocess.PIPE, timeout=SECONDS_MAX, check=False
        )

    assert done.returncode == 3
    assert b"table" in done.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_server_says_that_it_is_ready_and_drains(data: Path, number: signal.Signals) -> None:
    process, url, http = serve(data, "--set", "kv.scanner.ttl=5s")
    with urlopen(f"{http}/health", timeout=SECONDS_MAX) as health:
        assert health.status == 200

    assert json.loads(run("top", "--once", url=url).stdout)["rows"] == 20_000
    assert end(process, number)[0] == 0


def test_scanners_are_listed_and_ended(data: Path) -> None:
    process, url, _ = serve(data)
    with penstock.connect(url) as connection:
        page = connection.scanner("numbers", 0, page_bytes="1KB").open()
        listed = [json.loads(line) for line in run("scanner", "list", url=url).stdout.splitlines()]
        killed = run("scanner", "kill", page.scanner_id or "", url=url)
        again = run("scanner", "kill", page.scanner_id or "", url=url)

    assert [(found["scanner_id"], found["table"]) for found in listed] == [(page.scanner_id, "default.numbers")]
    assert (killed.returncode, again.returncode) == (0, 3)
    assert end(process, signal.SIGTERM)[0] == 0


def test_token_decides_who_is_let_in(data: Path, tmp_path: Path) -> None:
    (tmp_path / "known").write_text(f"ann:{hash_token('open sesame')}\n")
    (tmp_path / "mine").write_text("open sesame\n")
    process, url, _ = serve(data, "--token-file", str(tmp_path / "known"))

    assert run("table", "list", url=url).returncode == 4
    denied = run("table", "list", url=url, PENSTOCK_TOKEN="wrong")
    assert run("table", "list", url=url, PENSTOCK_TOKEN="open sesame").returncode == 0
    assert run("--token-file", str(tmp_path / "mine"), "table", "list", url=url).returncode == 0

    assert denied.returncode == 4
    assert "PENSTOCK_TOKEN" in denied.stderr
    assert end(process, signal.SIGTERM)[0] == 0


def test_absent_server_is_unavailable_at_once() -> None:
    began = time.monotonic()

    done = run("scan", "numbers", url="penstock://127.0.0.1:1")

    assert done.returncode == 5
    assert "no server answers" in done.stderr
    assert time.monotonic() - began < 15


def test_directory_in_use_names_its_holder(data: Path) -> None:
    with penstock.connect(data):
        done = run("scan", "numbers", url=str(data))

    assert done.returncode == 5
    assert f"pid={os.getpid()}" in done.stderr


def test_absent_directory_is_not_made_by_reading(tmp_path: Path) -> None:
    done = run("scan", "numbers", url=str(tmp_path / "slip"))

    assert done.returncode == 3
    assert not (tmp_path / "slip").exists()


def test_server_refuses_to_listen_to_everybody(tmp_path: Path) -> None:
    done = run("serve", "--data", str(tmp_path / "data"), "--host", "0.0.0.0", "--port", "0", "--http-port", "0")

    assert done.returncode == 2
    assert "insecure" in done.stderr


def test_sql_without_duckdb_says_what_to_install(data: Path, tmp_path: Path) -> None:
    (tmp_path / "duckdb.py").write_text("raise ImportError('not here')\n")

    done = run("sql", "SELECT 1", url=str(data), PYTHONPATH=str(tmp_path))

    assert done.returncode == 2
    assert "pip install 'penstock-db[sql]'" in done.stderr


def test_sql_leaves_nothing_but_its_rows(data: Path) -> None:
    done = run("sql", "SELECT count(*) AS n FROM numbers", url=str(data))
    failed = run("sql", "SELECT nope FROM numbers", url=str(data))

    assert (done.stdout, done.stderr, done.returncode) == ('{"n":20000}\n', "", 0)
    assert failed.returncode == 2
    assert "leaked" not in failed.stderr


def test_sql_counts_days_in_utc_wherever_it_runs(data: Path) -> None:
    query = "SELECT TIMESTAMPTZ '2026-07-01 23:30:00+00' AS seen, date_trunc('day', seen)::DATE AS day"

    done = run("sql", query, url=str(data), TZ="Asia/Tokyo")

    assert json.loads(done.stdout) == {"seen": "2026-07-01T23:30:00.000000Z", "day": "2026-07-01"}


def test_debug_shows_the_traceback(data: Path) -> None:
    done = run("--debug", "scan", "nope", url=str(data))

    assert done.returncode == 3
    assert "Traceback" in done.stderr


def test_doctor_looks_at_the_data_directory(data: Path) -> None:
    done = run("doctor", "--data", str(data))

    found = {row["check"]: row["grade"] for row in map(json.loads, done.stdout.splitlines())}
    assert found["data"] == "ok"
    assert done.returncode == (1 if "fail" in found.values() else 0)


def test_doctor_works_where_arrow_is_missing(tmp_path: Path) -> None:
    (tmp_path / "pyarrow.py").write_text("raise ImportError('not here')\n")

    done = run("doctor", "--output", "table", PYTHONPATH=str(tmp_path))

    assert "python" in done.stdout
    assert "disk sync" in done.stdout
    assert done.stderr == ""
