"""Owners on the command line, over a directory and over a server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import penstock

PENSTOCK = (sys.executable, "-c", "from penstock.cli.main import main; main()")


def run(*words: str, url: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PENSTOCK_URL": url}
    done = subprocess.run([*PENSTOCK, *words], capture_output=True, text=True, timeout=60, check=False, env=environment)
    assert done.returncode == code, done.stderr
    return done


def owners(url: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in run("owner", "list", "--output", "ndjson", url=url).stdout.splitlines()]


def keys(url: str) -> list[int]:
    found = run("scan", "orders", "--output", "ndjson", url=url).stdout.splitlines()
    return sorted(json.loads(line)["id"] for line in found)


@pytest.fixture(params=["directory", "server"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    with penstock.connect(tmp_path / "data") as connection:
        properties = {"column-lock.enabled": True}
        table = connection.create_table("orders", "id BIGINT, v BIGINT, PRIMARY KEY (id)", properties=properties)
        job = table.acquire_owner("job-7", columns=["v"], incarnation="query")
        job.begin(3)
        table.upsert([{"id": 1, "v": 1}], owner=job)
        job.commit(3)
        job.begin(4)
        table.upsert([{"id": 2, "v": 2}], owner=job)
    if request.param == "directory":
        yield str(tmp_path / "data")
        return
    with penstock.serve(tmp_path / "data") as server:
        yield server.url


def test_owner_is_listed_shown_released_and_dropped(url: str) -> None:
    (listed,) = owners(url)
    assert {name: listed[name] for name in ("table", "owner", "columns", "committed", "open", "rows_pending")} == {
        "table": "default.orders",
        "owner": "job-7",
        "columns": "v",
        "committed": 3,
        "open": 4,
        "rows_pending": 1,
    }
    assert "incarnation query" in run("owner", "show", "orders", "job-7", url=url).stderr

    done = run("owner", "release", "orders", "job-7", "--output", "ndjson", url=url)
    assert "1 uncommitted row undone" in done.stderr
    assert json.loads(done.stdout) == {"table": "default.orders", "owner": "job-7", "rows_undone": 1}

    assert keys(url) == [1]
    (released,) = owners(url)
    assert (released["committed"], released["open"], released["expires_in"]) == (3, None, None)
    dropped = json.loads(run("owner", "drop", "orders", "job-7", "--output", "ndjson", url=url).stdout)
    assert dropped == {"table": "default.orders", "owner": "job-7", "keys_undone": 0, "keys_left": 0}
    assert owners(url) == []


def test_rows_of_a_dropped_owner_may_be_kept(url: str) -> None:
    run("owner", "drop", "orders", "job-7", "--keep", url=url)

    assert keys(url) == [1, 2]


def test_owner_that_is_not_there_is_not_found(url: str) -> None:
    assert "no such owner" in run("owner", "show", "orders", "job-8", url=url, code=3).stderr
    assert "no such owner" in run("owner", "drop", "orders", "job-8", url=url, code=3).stderr
