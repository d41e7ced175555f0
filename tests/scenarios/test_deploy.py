"""The files under `deploy/` do what they say: their command lines run, their paths, ports and settings are there."""

from __future__ import annotations

import ast
import os
import re
import shlex
import signal
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from configparser import RawConfigParser
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

import penstock
from penstock.engine.settings import Settings
from penstock.model.node.ports import FLIGHT_PORT, HTTP_PORT

READY = re.compile(r"penstock ready url=(\S+) http=(\S+)")
SHELL = re.compile(r"^```sh\n(.*?)^```$", re.M | re.S)


@pytest.fixture
def deploy(repository: Path) -> Path:
    return repository / "deploy"


@pytest.fixture
def unit(deploy: Path) -> RawConfigParser:
    parsed = RawConfigParser(strict=True)
    parsed.optionxform = str  # type: ignore[assignment,method-assign]
    parsed.read(deploy / "penstock.service")
    return parsed


@pytest.fixture
def secrets(repository: Path, tmp_path: Path) -> Path:
    """Run the page's commands that make a certificate and a token."""
    page = (repository / "docs/guide/deploy.md").read_text()
    (recipe,) = (block for block in SHELL.findall(page) if "openssl" in block)
    activated = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    subprocess.run(
        ["bash", "-euc", recipe], cwd=tmp_path, env=os.environ | {"PATH": activated}, check=True, capture_output=True
    )
    return tmp_path / "secrets"


def instructions(deploy: Path) -> list[tuple[str, str]]:
    """Return the Dockerfile's instructions, with continued lines joined."""
    text = (deploy / "Dockerfile").read_text().replace("\\\n", "")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [(line.partition(" ")[0], line.partition(" ")[2]) for line in lines]


@contextmanager
def running(words: list[str], data: Path, secrets: Path) -> Iterator[tuple[str, str]]:
    """Run a command line of `penstock serve` with this machine's paths and free ports; give its two addresses."""
    places = {"/var/lib/penstock": data, "/data": data, "/etc/penstock": secrets}
    moved = [next((w.replace(old, str(new)) for old, new in places.items() if w.startswith(old)), w) for w in words]
    for flag in ("--port", "--http-port"):
        moved[moved.index(flag) + 1] = "0"
    moved[moved.index("--host") + 1] = "127.0.0.1"
    command = [str(Path(sys.executable).parent / "penstock"), *moved]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env=os.environ | {"PENSTOCK_DEBUG": "0"}
    ) as server:
        try:
            assert server.stdout is not None
            ready = READY.match(server.stdout.readline())
            assert ready
            yield ready[1], ready[2]
            server.send_signal(signal.SIGTERM)
            assert server.wait(timeout=60) == 0
        finally:
            server.kill()


def check_served(words: list[str], tmp_path: Path, secrets: Path, health: Path) -> None:
    with running(words, tmp_path / "data", secrets) as (url, http):
        token = (tmp_path / "etl.token").read_text().strip()
        with penstock.connect(url, token=token, tls={"ca": secrets / "ca.pem"}) as connection:
            assert connection.list_databases() == ["default"]
        stranger = penstock.connect(url, tls={"ca": secrets / "ca.pem"})
        with stranger, pytest.raises(penstock.errors.PermissionDeniedError):
            stranger.list_databases()
        port = http.rpartition(":")[2]
        assert http.startswith("https://")
        assert subprocess.run([sys.executable, health, port], check=False, timeout=60).returncode == 0
    assert subprocess.run([sys.executable, health, port], check=False, timeout=60).returncode == 1


def test_unit_starts_a_server_that_lets_its_token_in(
    unit: RawConfigParser, deploy: Path, secrets: Path, tmp_path: Path
) -> None:
    program, *words = shlex.split(unit["Service"]["ExecStart"])

    assert program == "/opt/penstock/bin/penstock"
    assert words[words.index("--data") + 1] == f"/var/lib/{unit['Service']['StateDirectory']}"
    check_served(words, tmp_path, secrets, deploy / "health.py")


def test_image_starts_a_server_that_lets_its_token_in(deploy: Path, secrets: Path, tmp_path: Path) -> None:
    known = dict(instructions(deploy))

    assert ast.literal_eval(known["ENTRYPOINT"]) == ["penstock"]
    check_served(ast.literal_eval(known["CMD"]), tmp_path, secrets, deploy / "health.py")


def test_image_copies_what_is_there_and_runs_as_nobody_special(deploy: Path, repository: Path) -> None:
    known = instructions(deploy)
    copied = [words.split()[0] for name, words in known if name == "COPY" and not words.startswith("--from")]

    assert all((repository / path).exists() for path in copied)
    assert ("USER", "10001") in known
    assert ("VOLUME", "/data") in known
    assert ("EXPOSE", f"{FLIGHT_PORT} {HTTP_PORT}") in known
    assert str(HTTP_PORT) in dict(known)["HEALTHCHECK"]


def test_compose_file_names_what_the_image_has(deploy: Path, repository: Path) -> None:
    service: dict[str, Any] = yaml.safe_load((deploy / "compose.yaml").read_text())["services"]["penstock"]

    assert (deploy / service["build"]["context"] / service["build"]["dockerfile"]).resolve().is_file()
    assert [port.rpartition(":")[2] for port in service["ports"]] == [str(FLIGHT_PORT), str(HTTP_PORT)]
    assert [volume.split(":")[1] for volume in service["volumes"]] == ["/data", "/etc/penstock"]


def test_settings_of_the_example_are_known(deploy: Path) -> None:
    example = deploy / "penstock.toml"

    settings = Settings.load(example)

    assert tomllib.loads(example.read_text())["memory"] == {"max": "2GB"}
    assert settings != Settings()


def test_server_without_its_secrets_does_not_start(unit: RawConfigParser, tmp_path: Path) -> None:
    words = shlex.split(unit["Service"]["ExecStart"])[1:]

    with pytest.raises(AssertionError), running(words, tmp_path / "data", tmp_path / "nowhere"):
        pass


def test_page_names_files_that_are_there(repository: Path) -> None:
    page = (repository / "docs/guide/deploy.md").read_text()

    named = set(re.findall(r"\bdeploy/[A-Za-z.]+", page)) - {"deploy/secrets"}

    assert named == {"deploy/penstock.service", "deploy/compose.yaml"}
    assert all((repository / name).is_file() for name in named)
