"""Servers that are not reached: why is told soon, and they are tried again until there is one."""

from __future__ import annotations

import logging
import socket
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock.server.server import Server

Start = Callable[..., Server]


class Waiting:
    """A call in a thread, and when it was said why it has to wait."""

    def __init__(self, connection: penstock.Connection, call: Callable[[], Any]) -> None:
        self.connection = connection
        self.told = threading.Event()
        self.words = ""
        self.answer: Any = None
        self._handler = logging.Handler()
        self._handler.emit = self._note  # type: ignore[method-assign]
        self._log = logging.getLogger("penstock.client.link.retry")
        self._log.addHandler(self._handler)
        self._thread = threading.Thread(target=lambda: setattr(self, "answer", call()))
        self._thread.start()

    def is_told(self, words: str) -> bool:
        """Tell whether it is said within 2 s that these are the reason."""
        return self.told.wait(2.0) and words in self.words

    def end(self) -> Any:
        """Return the answer, once it has come."""
        self._thread.join()
        self._log.removeHandler(self._handler)
        self.connection.close()
        return self.answer

    def _note(self, record: logging.LogRecord) -> None:
        self.words = record.getMessage()
        self.told.set()


@pytest.fixture
def port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@pytest.mark.parametrize("verb", ["list_databases", "create_database"])
def test_port_where_nobody_listens(start: Start, port: int, verb: str) -> None:
    connection = penstock.connect(f"penstock://127.0.0.1:{port}")
    arguments = ("shop",) if verb == "create_database" else ()
    waiting = Waiting(connection, lambda: getattr(connection, verb)(*arguments) or "done")
    assert waiting.is_told("nothing listens there")

    start(port=port)
    assert waiting.end() in (["default"], "done")


def test_plain_url_of_a_server_that_speaks_tls(start: Start, port: int, certificates: Path) -> None:
    secured = start(port=port, tls_cert=certificates / "server.pem", tls_key=certificates / "server.key")
    connection = penstock.connect(f"penstock://127.0.0.1:{port}")
    waiting = Waiting(connection, connection.list_databases)
    assert waiting.is_told("the server speaks tls; use penstock+tls://")

    secured.close()
    start(port=port)
    assert waiting.end() == ["default"]


@pytest.mark.parametrize("trusted", [True, False])
def test_tls_url_of_a_server_that_is_plain_or_not_trusted(
    start: Start, port: int, certificates: Path, trusted: bool
) -> None:
    tls = {"tls_cert": certificates / "server.pem", "tls_key": certificates / "server.key"}
    other = start(port=port) if trusted else start(port=port, **_self_signed(certificates))
    connection = penstock.connect(f"penstock+tls://127.0.0.1:{port}", tls={"ca": certificates / "ca.pem"})
    waiting = Waiting(connection, connection.list_databases)
    assert waiting.is_told("the server does not speak tls" if trusted else "certificate is not trusted")

    other.close()
    start(port=port, **tls)
    assert waiting.end() == ["default"]


def _self_signed(certificates: Path) -> dict[str, Path]:
    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", "own.key")
    names = ("-subj", "/CN=own", "-addext", "subjectAltName=IP:127.0.0.1")
    command = ("openssl", "req", "-x509", *key, "-out", "own.pem", "-days", "2", *names)
    subprocess.run(command, cwd=certificates, check=True, capture_output=True)
    return {"tls_cert": certificates / "own.pem", "tls_key": certificates / "own.key"}
