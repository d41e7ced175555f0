"""A server writes a line for each request where it is told to, warns of slow ones, and says no secret."""

from __future__ import annotations

import json
import logging
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock.errors import PenstockError
from penstock.server.access.tokens import hash_token
from penstock.server.calls.request_log import LOGGER

SECRET = "a-very-secret-token"


def work(url: str, token: str | None = None) -> None:
    """Create, write, read, and be refused once."""
    with penstock.connect(url, token=token) as connection:
        table = connection.create_table("orders", "id BIGINT PRIMARY KEY, city STRING")
        table.upsert([{"id": 1, "city": "hidden-city"}])
        table.scan(filter="city = 'hidden-city'").to_arrow()
        with pytest.raises(PenstockError):
            connection.table("nowhere")


def facts(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    return [record.facts for record in caplog.records if record.name == LOGGER]  # type: ignore[attr-defined]


def test_request_has_its_line_with_principal_call_table_and_result(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text(f"ann:{hash_token(SECRET)}\n")
    tokens.chmod(0o600)
    caplog.set_level(logging.INFO)

    with penstock.serve(tmp_path / "data", token_file=tokens, access_log=True) as server:
        work(server.url, SECRET)

    found = facts(caplog)
    assert {fact["principal"] for fact in found} == {"ann"}
    by_call = {fact["call"]: fact for fact in found}
    written = by_call["write"]
    assert (written["tables"], written["result"]) == ("default.orders", "ok")
    assert written["bytes_in"] > 0
    assert written["ms"] > 0
    assert ("nowhere", "table_not_found") in {(fact["tables"], fact["result"]) for fact in found}
    assert SECRET not in caplog.text
    assert hash_token(SECRET) not in caplog.text
    assert "hidden-city" not in caplog.text


def test_requests_are_lines_of_level_debug_unless_asked_for(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    with penstock.serve(tmp_path / "quiet") as server:
        work(server.url)
    assert facts(caplog) == []

    caplog.set_level(logging.DEBUG, LOGGER)
    with penstock.serve(tmp_path / "debug") as server:
        work(server.url)
    assert "write" in {fact["call"] for fact in facts(caplog)}


def test_slow_call_is_a_warning_and_a_quick_one_is_not(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    with penstock.serve(tmp_path / "slow", slow_call="0ms") as server:
        work(server.url)
    slow = [record for record in caplog.records if record.name == LOGGER]
    assert slow
    assert {record.levelno for record in slow} == {logging.WARNING}
    assert all(record.getMessage().startswith("slow call ") for record in slow)

    caplog.clear()
    with penstock.serve(tmp_path / "quick", slow_call="1h") as server:
        work(server.url)
    assert facts(caplog) == []


def test_name_that_a_caller_sends_stays_one_word_of_the_line(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    with penstock.serve(tmp_path / "data", access_log=True) as server, penstock.connect(server.url) as connection:
        for name in ("a\nERROR forged principal=root", 'a" result=ok'):
            with pytest.raises(PenstockError):
                connection.table(name)

    said = [record.getMessage() for record in caplog.records if record.name == LOGGER]
    unquoted = [re.sub(r'"(?:[^"\\]|\\.)*"', "", line) for line in said]
    assert all("\n" not in line for line in said), said
    assert all(line.count(" result=") == line.count(" principal=") == 1 for line in unquoted), said


def test_process_writes_json_for_a_collector(tmp_path: Path) -> None:
    command = (
        sys.executable,
        "-c",
        "from penstock.cli.main import main; main()",
        "serve",
        "--data",
        str(tmp_path / "d"),
    )
    words = ("--port", "0", "--http-port", "0", "--access-log", "--log-format", "json", "--slow-call", "1h")
    with subprocess.Popen([*command, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            url = process.stdout.readline().split()[2].partition("=")[2]
            work(url)
        finally:
            process.terminate()
        _, said = process.communicate(timeout=60)

    lines = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
    assert {"time", "level", "logger", "message", "principal", "call", "ms"} <= set(lines[-1])
    assert {line["level"] for line in lines} == {"info"}
    assert all(line["time"].endswith("Z") for line in lines)
