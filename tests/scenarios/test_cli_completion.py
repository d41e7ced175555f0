"""A shell completes names of tables, databases, partitions and leases; nothing is said where there are none."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import date
from pathlib import Path

import pytest

import penstock

PENSTOCK = (sys.executable, "-c", "from penstock.cli.main import main; main()")


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with (
        penstock.serve(tmp_path_factory.mktemp("data")) as server,
        penstock.connect(server.url) as connection,
    ):
        for name in ("shop", "lab"):
            connection.create_database(name)
        orders = connection.create_table("shop.orders", "id BIGINT PRIMARY KEY")
        connection.create_table("shop.items", "id BIGINT PRIMARY KEY")
        days = "id BIGINT, day DATE, PRIMARY KEY (id, day)"
        connection.create_table("lab.days", days, partitioned_by=["day"]).upsert([{"id": 1, "day": date(2026, 7, 1)}])
        connection.acquire_lease("job-7", orders.cut())
        yield server.url


def complete(line: str, shell: str = "bash", url: str = "", seconds: int = 50) -> list[str]:
    """Return what a shell is offered for the last word of a line."""
    words = line.split(" ")
    known = os.environ | {"PENSTOCK_URL": url, "PENSTOCK_TOKEN": "", "_PENSTOCK_COMPLETE": f"complete_{shell}"}
    known |= {"COMP_WORDS": "\n".join(words), "COMP_CWORD": str(len(words) - 1), "_TYPER_COMPLETE_ARGS": line}
    known |= {"_TYPER_COMPLETE_FISH_ACTION": "get-args", "_TYPER_COMPLETE_WORD_TO_COMPLETE": words[-1]}
    # Long enough for a machine that has much else to do.
    known |= {"PENSTOCK_COMPLETION_SECONDS": str(seconds)}
    done = subprocess.run(PENSTOCK, capture_output=True, text=True, timeout=60, check=False, env=known)
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("penstock scan sh", ["shop.items", "shop.orders"]),
        ("penstock scan shop.o", ["shop.orders"]),
        ("penstock put l", ["lab.days"]),
        ("penstock database drop s", ["shop"]),
        ("penstock partition drop lab.days d", ["day=2026-07-01"]),
        ("penstock lease renew j", ["job-7"]),
        ("penstock lease acquire x shop.i", ["shop.items"]),
        ("penstock trun", ["truncate"]),
        ("penstock scan shop.orders --source sn", ["snapshot"]),
    ],
)
def test_names_are_completed(url: str, line: str, offered: list[str]) -> None:
    assert complete(line, url=url) == offered


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_is_offered_the_tables(url: str, shell: str) -> None:
    assert "shop.orders" in " ".join(complete("penstock scan shop.o", shell, url))


def test_url_before_or_after_the_command_counts(url: str) -> None:
    assert complete(f"penstock --url {url} scan shop.o") == ["shop.orders"]
    assert complete(f"penstock scan --url {url} shop.o") == ["shop.orders"]


@pytest.mark.parametrize(
    "place", ["penstock://127.0.0.1:9", "penstock://10.255.255.1:9123", "", "nowhere:1", "./nowhere"]
)
def test_nothing_is_said_where_nobody_answers(place: str) -> None:
    assert complete("penstock scan s", url=place, seconds=2) == []


def test_directory_is_completed_and_let_go(tmp_path: Path) -> None:
    with penstock.connect(tmp_path / "data") as connection:
        connection.create_table("orders", "id BIGINT PRIMARY KEY")
        assert complete("penstock scan d", url=str(tmp_path / "data")) == [], "this process holds it"

    assert complete("penstock scan d", url=str(tmp_path / "data")) == ["default.orders"]
    penstock.connect(tmp_path / "data").close()
