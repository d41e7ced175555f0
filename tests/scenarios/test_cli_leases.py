"""Snapshots, leases and backups on the command line, over a directory and over a server."""

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


def run(*words: str, url: str | Path, code: int = 0) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [*PENSTOCK, *words],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=os.environ | {"PENSTOCK_URL": str(url)},
    )
    assert done.returncode == code, done.stderr
    return done


def rows(*words: str, url: str | Path, code: int = 0) -> list[dict[str, Any]]:
    return [json.loads(line) for line in run(*words, "--output", "ndjson", url=url, code=code).stdout.splitlines()]


@pytest.fixture(params=["directory", "server"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    with penstock.connect(tmp_path / "data") as connection:
        table = connection.create_table("orders", "id BIGINT, v BIGINT, PRIMARY KEY (id)", buckets=2)
        table.upsert([{"id": i, "v": 1} for i in range(20)])
        connection.create_table("log", "a BIGINT").append({"a": [1]})
    if request.param == "directory":
        yield str(tmp_path / "data")
        return
    with penstock.serve(tmp_path / "data") as server:
        yield server.url


def test_dropped_table_is_scanned_and_tailed_by_its_lease(url: str) -> None:
    rows("lease", "acquire", "job", "orders", "log", url=url)
    run("table", "drop", "orders", "--yes", url=url)
    run("table", "drop", "log", "--yes", url=url)

    assert len(rows("scan", "orders", "--lease", "job", url=url)) == 20
    assert len(rows("tail", "orders", "--lease", "job", url=url)) == 20
    assert [row["a"] for row in rows("scan", "log", "--lease", "job", url=url)] == [1]
    assert "it holds default.log" in run("scan", "other", "--lease", "job", url=url, code=3).stderr
    run("scan", "orders", url=url, code=3)


def test_snapshots_are_taken_leased_and_listed(url: str) -> None:
    taken = rows("snapshot", "create", "orders", url=url)
    assert [(row["table"], row["bucket"], row["id"]) for row in taken] == [
        ("default.orders", "0", 1),
        ("default.orders", "1", 1),
    ]

    leased = rows("lease", "acquire", "job", "orders", "log", "--duration", "2h", url=url)

    assert [row["id"] for row in leased] == [1, 1, None]
    assert {row["leased_by"] for row in rows("snapshot", "list", "orders", url=url)} == {"job"}
    (listed,) = rows("lease", "list", url=url)
    assert (listed["lease_id"], listed["tables"], listed["buckets"]) == ("job", "default.log, default.orders", 3)
    assert rows("lease", "show", "job", url=url) == leased
    (renewed,) = rows("lease", "renew", "job", url=url)
    assert renewed.keys() == {"lease_id", "expires"}
    assert "gave back 1 bucket, 2 stay held" in run("lease", "release", "job", "log", url=url).stderr
    assert rows("lease", "drop", "job", url=url) == [{"lease_id": "job"}]
    assert rows("lease", "list", url=url) == []
    assert "unknown or has expired" in run("lease", "renew", "job", url=url, code=3).stderr


def test_backup_is_restored_and_a_damaged_one_refused(tmp_path: Path) -> None:
    data, backup, again = tmp_path / "data", tmp_path / "backup", tmp_path / "again"
    with penstock.connect(data) as connection:
        connection.create_table("t", "id BIGINT, PRIMARY KEY (id)").upsert([{"id": 1}])

    assert "1 table, " in run("backup", str(backup), url=data).stderr
    assert "whole: 1 table," in run("backup", str(backup), "--check", url=data).stderr
    (restored,) = rows("restore", str(backup), url=again)
    assert (restored["directory"], restored["tables"]) == (str(again), 1)

    assert rows("scan", "t", url=again) == [{"id": 1}]
    assert "not empty" in run("restore", str(backup), url=again, code=2).stderr
    (backup / "generations" / "000001" / "description").write_text("{}")
    assert "damaged" in run("restore", str(backup), url=tmp_path / "third", code=1).stderr
    assert "no server answers" in run("backup", str(backup), url="penstock://127.0.0.1:1", code=5).stderr
