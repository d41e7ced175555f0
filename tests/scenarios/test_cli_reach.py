"""Whoever names the wrong server is told the real cause, at once, with the flag that mends it."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.kit.certificates import make_certificates
from typer.testing import CliRunner

import penstock
from penstock.cli.main import app
from penstock.server.access.tokens import hash_token
from penstock.server.server import Server

RUNNER = CliRunner()
SECONDS_MAX = 15


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_certificates(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory, certificates: Path) -> Iterator[dict[str, Server]]:
    """Return a plain server, one that speaks TLS, one that asks for a certificate, one that asks for a token."""
    data = tmp_path_factory.mktemp("data")
    tokens = data / "tokens"
    tokens.write_text(f"ann:{hash_token('right')}\n")
    tokens.chmod(0o600)
    tls: dict[str, Any] = {"tls_cert": certificates / "server.pem", "tls_key": certificates / "server.key"}
    kinds: dict[str, dict[str, Any]] = {
        "plain": {},
        "tls": tls,
        "certificate": tls | {"tls_ca": certificates / "ca.pem"},
        "token": {"token_file": tokens},
    }
    with ExitStack() as stack:
        yield {kind: stack.enter_context(penstock.serve(data / kind, **facts)) for kind, facts in kinds.items()}


def place(server: Server) -> str:
    """Return host and port for calls, by the name in the certificate."""
    return f"localhost:{server.url.rpartition(':')[2]}"


def http_place(server: Server) -> str:
    return f"localhost:{str(server.http_url).rpartition(':')[2]}"


def ask(*words: str) -> tuple[int, str]:
    """Ask for the tables; return exit code and what was said."""
    began = time.monotonic()
    done = RUNNER.invoke(app, ["table", "list", *words], env={"PENSTOCK_URL": "", "PENSTOCK_TOKEN": ""})
    assert time.monotonic() - began < SECONDS_MAX, "the cause was known at once"
    return done.exit_code, done.stderr


def test_plain_client_at_a_tls_port_is_told_the_scheme(servers: dict[str, Server]) -> None:
    code, said = ask("--url", f"penstock://{place(servers['tls'])}")

    assert code == 2
    assert f"the server speaks tls; say --url penstock+tls://{place(servers['tls'])}" in said


def test_tls_client_at_a_plain_port_is_told_the_scheme(servers: dict[str, Server]) -> None:
    code, said = ask("--url", f"penstock+tls://{place(servers['plain'])}")

    assert code == 2
    assert f"does not speak tls; say --url penstock://{place(servers['plain'])}" in said


@pytest.mark.parametrize("kind", ["plain", "tls"])
@pytest.mark.parametrize("scheme", ["penstock", "penstock+tls"])
def test_http_port_is_recognised(servers: dict[str, Server], certificates: Path, kind: str, scheme: str) -> None:
    url = f"{scheme}://{http_place(servers[kind])}"

    code, said = ask("--url", url, "--tls-ca", str(certificates / "ca.pem"))

    assert code == 2
    assert "is it the server's http port?" in said


def test_certificate_that_nobody_known_signed_asks_for_its_ca(servers: dict[str, Server]) -> None:
    code, said = ask("--url", f"penstock+tls://{place(servers['tls'])}")

    assert code == 4
    assert "the server's certificate is not trusted; name who signed it: --tls-ca FILE" in said
    assert "token" not in said


def test_certificate_of_another_ca_is_told_apart(servers: dict[str, Server], certificates: Path) -> None:
    other = str(certificates / "ann.pem")

    code, said = ask("--url", f"penstock+tls://{place(servers['tls'])}", "--tls-ca", other)

    assert code == 4
    assert "is not signed by the one that --tls-ca names" in said


def test_certificate_of_another_name_is_told_apart(servers: dict[str, Server], certificates: Path) -> None:
    url = f"penstock+tls://{place(servers['tls']).replace('localhost', '127.0.0.2')}"

    code, said = ask("--url", url, "--tls-ca", str(certificates / "ca.pem"))

    # Where only 127.0.0.1 is listened at, nothing answers at the other name.
    assert (code, "is not for 127.0.0.2" in said) in ((4, True), (5, False))


def test_right_ca_lets_in_whether_named_before_or_after(servers: dict[str, Server], certificates: Path) -> None:
    url, ca = f"penstock+tls://{place(servers['tls'])}", str(certificates / "ca.pem")

    assert ask("--url", url, "--tls-ca", ca)[0] == 0
    assert RUNNER.invoke(app, ["--url", url, "--tls-ca", ca, "table", "list"]).exit_code == 0
    assert RUNNER.invoke(app, ["table", "list"], env={"PENSTOCK_URL": url, "PENSTOCK_TLS_CA": ca}).exit_code == 0


def test_server_that_asks_for_a_certificate_says_how_to_give_one(
    servers: dict[str, Server], certificates: Path
) -> None:
    known = ["--url", f"penstock+tls://{place(servers['certificate'])}", "--tls-ca", str(certificates / "ca.pem")]

    code, said = ask(*known)
    assert code == 4
    assert "--tls-cert FILE and --tls-key FILE" in said

    own = ["--tls-cert", str(certificates / "ann.pem"), "--tls-key", str(certificates / "ann.key")]
    assert ask(*known, *own)[0] == 0


def test_missing_and_wrong_token_are_told_apart(servers: dict[str, Server], tmp_path: Path) -> None:
    url = servers["token"].url
    file = tmp_path / "token"
    file.write_text("right\n")

    code, said = ask("--url", url)
    assert code == 4
    assert "the server asks for a token; give it with --token-file FILE or in PENSTOCK_TOKEN" in said
    assert "penstock token create" in said

    code, said = ask("--url", url, "--token", "wrong")
    assert code == 4
    assert "the server does not know this token" in said
    assert "wrong" not in said

    assert ask("--url", url, "--token", "right") == (0, "")
    assert ask("--url", url, "--token-file", str(file)) == (0, "")
    assert RUNNER.invoke(app, ["--token", "wrong", "table", "list", "--url", url, "--token", "right"]).exit_code == 0


def test_server_that_is_away_is_unavailable_without_waiting() -> None:
    code, said = ask("--url", "penstock://127.0.0.1:9")

    assert code == 5
    assert "no server answers; start one with `penstock serve`, or check host and port" in said
    assert "doctor" not in said


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("localhost:9123", "its scheme is missing: --url penstock://localhost:9123"),
        ("127.0.0.1", "its scheme is missing: --url penstock://127.0.0.1"),
        ("penstock:/localhost:9123", "has two slashes: --url penstock://localhost:9123"),
        ("http://localhost:9123", "begins with penstock:// or penstock+tls://"),
        ("penstock://localhost:99999", "is penstock://host:port"),
        ("penstock://", "is penstock://host:port"),
    ],
)
def test_url_that_is_none_says_what_one_looks_like(given: str, words: str) -> None:
    code, said = ask("--url", given)

    assert code == 2
    assert words in said


def test_certificate_file_that_is_not_there_is_named_with_its_flag(servers: dict[str, Server]) -> None:
    code, said = ask("--url", f"penstock+tls://{place(servers['tls'])}", "--tls-ca", "nowhere.pem")

    assert code == 3
    assert "--tls-ca" in said
    assert "nowhere.pem" in said


def test_directory_that_a_server_holds_names_its_url(tmp_path: Path) -> None:
    with penstock.testing.ServerProcess(tmp_path / "data") as process:
        code, said = ask("--url", str(tmp_path / "data"))

        assert code == 5
        assert re.search(r"that is a server; connect to (it|the url)", said)
        assert process.url
