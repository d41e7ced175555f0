"""Who may read a server's metrics: the same callers that it lets in on its calls. Health is told to anybody."""

from __future__ import annotations

import json
import socket
import ssl
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.errors import InvalidError
from penstock.server.access.tokens import hash_token, make_token
from penstock.server.server import Server

Start = Callable[..., Server]


def get(url: str, *, token: str | None = None, tls: ssl.SSLContext | None = None) -> tuple[int, str]:
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=5, context=tls) as reply:
            return reply.status, reply.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


@pytest.fixture
def token() -> str:
    return make_token()


@pytest.fixture
def token_file(tmp_path: Path, token: str) -> Path:
    file = tmp_path / "tokens"
    file.write_text(f"ann:{hash_token(token)}\n")
    return file


@pytest.fixture
def tls_files(certificates: Path) -> dict[str, Path]:
    return {"tls_cert": certificates / "server.pem", "tls_key": certificates / "server.key"}


@pytest.fixture
def trust(certificates: Path) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(certificates / "ca.pem"))


def test_metrics_need_a_token_where_calls_do(start: Start, token_file: Path, token: str) -> None:
    url = start(token_file=token_file).http_url

    assert get(f"{url}/metrics", token=token)[0] == 200
    for wrong in (None, "", "x" * 5_000, make_token()):
        code, words = get(f"{url}/metrics", token=wrong)
        assert code == 401
        assert ("asks for a token" if wrong is None else "does not know this token") in words


def test_health_is_told_to_anybody_and_says_one_word(start: Start, token_file: Path) -> None:
    url = start(token_file=token_file).http_url

    code, words = get(f"{url}/health")

    assert (code, json.loads(words)) == (200, {"status": "ok"})


def test_server_with_a_certificate_tells_metrics_over_tls_alone(
    start: Start, token_file: Path, token: str, tls_files: dict[str, Path], trust: ssl.SSLContext
) -> None:
    url = start(token_file=token_file, **tls_files).http_url
    assert url is not None
    plain = url.replace("https", "http")

    assert url.startswith("https://")
    assert get(f"{url}/metrics", token=token, tls=trust)[0] == 200
    assert get(f"{url}/metrics", tls=trust)[0] == 401
    assert get(f"{url}/health", tls=trust)[0] == 200
    assert get(f"{plain}/health")[0] == 200
    code, words = get(f"{plain}/metrics", token=token)
    assert (code, words) == (401, "the token travelled in the clear; ask over https\n")


def test_client_certificate_opens_the_metrics_where_calls_need_one(
    start: Start, certificates: Path, tls_files: dict[str, Path], trust: ssl.SSLContext
) -> None:
    url = start(tls_ca=certificates / "ca.pem", **tls_files).http_url
    known = ssl.create_default_context(cafile=str(certificates / "ca.pem"))
    known.load_cert_chain(certificates / "ann.pem", certificates / "ann.key")

    assert get(f"{url}/metrics", tls=known)[0] == 200
    assert get(f"{url}/metrics", tls=trust)[0] == 401
    assert get(f"{url}/health", tls=trust)[0] == 200


def test_broken_handshake_costs_the_others_nothing(
    start: Start, tls_files: dict[str, Path], trust: ssl.SSLContext
) -> None:
    server = start(**tls_files)
    assert server.http_url is not None
    port = int(server.http_url.rpartition(":")[2])
    with (
        socket.create_connection(("127.0.0.1", port), timeout=5) as silent,
        socket.create_connection(("127.0.0.1", port), timeout=5) as broken,
    ):
        broken.sendall(b"\x16\x03\x01 this is no hello")

        assert get(f"{server.http_url}/health", tls=trust)[0] == 200
        silent.close()


def test_key_of_another_certificate_is_refused_before_anything_listens(start: Start, certificates: Path) -> None:
    with pytest.raises(InvalidError, match="belong together"):
        start(tls_cert=certificates / "server.pem", tls_key=certificates / "ann.key")
