"""Servers for tests: one in this process, and one in a process of its own that can be killed."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

import penstock.server
from penstock.errors import InternalError, TimedOutError
from penstock.server.serve import serve

if TYPE_CHECKING:
    from penstock.server.server import Server

START_SECONDS_MAX: Final = 60.0
STOP_SECONDS_MAX: Final = 60.0


@contextmanager
def server(directory: str | Path | None = None, **options: Any) -> Iterator[Server]:
    """Run a real server on a free loopback port; without a directory, over one that is gone afterwards.

    Takes what `penstock.serve` takes.
    """
    if directory is not None:
        with serve(directory, **options) as running:
            yield running
        return
    with tempfile.TemporaryDirectory(prefix="penstock-") as temporary, serve(temporary, **options) as running:
        yield running


class ServerProcess:
    """A server in a child process, always on the same port and directory. A context manager; starts when entered."""

    def __init__(
        self, directory: str | Path, *, settings: Mapping[str, Any] | None = None, arguments: tuple[str, ...] = ()
    ) -> None:
        self.directory = Path(directory)
        self.url = ""
        self.http_url = ""
        self._arguments = (*arguments, *(f"--set={name}={value}" for name, value in (settings or {}).items()))
        self._port = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._words = self.directory.with_name(self.directory.name + ".log")

    def __enter__(self) -> ServerProcess:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._process is not None:
            self.kill()

    @property
    def pid(self) -> int:
        """Return the child's process id."""
        assert self._process is not None, "the server is not running"
        return self._process.pid

    @property
    def log(self) -> str:
        """Return what the servers have logged so far."""
        return self._words.read_text(errors="replace") if self._words.exists() else ""

    def start(self) -> None:
        """Start the server and wait until it is ready.

        Raises:
            InternalError: it ended instead; the message has its last words.
            TimedOutError: it is not ready after a minute.
        """
        assert self._process is None, "the server is running"
        ports = ("--port", str(self._port), "--http-port", "0")
        command = (sys.executable, "-m", "penstock.server", "--data", str(self.directory), *ports, *self._arguments)
        with self._words.open("ab") as words:
            self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=words, env=_environment())
        line = self._ready_line(self._process)
        facts = dict(word.split("=", 1) for word in line.split() if "=" in word)
        self.url, self.http_url = facts["url"], facts["http"]
        self._port = int(self.url.rpartition(":")[2])

    def kill(self) -> None:
        """End the server with SIGKILL, as a crash would."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """End the server with SIGTERM, wait until it has drained, and return its exit code."""
        return self._end(signal.SIGTERM)

    def restart(self) -> None:
        """Kill the server and start it again."""
        self.kill()
        self.start()

    def _end(self, number: signal.Signals) -> int:
        assert self._process is not None, "the server is not running"
        process, self._process = self._process, None
        process.send_signal(number)
        try:
            return process.wait(STOP_SECONDS_MAX)
        finally:
            process.kill()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()

    def _ready_line(self, process: subprocess.Popen[bytes]) -> str:
        assert process.stdout is not None
        heard = b""
        end = time.monotonic() + START_SECONDS_MAX
        while not heard.endswith(b"\n"):
            readable, _, _ = select.select([process.stdout], [], [], max(0, end - time.monotonic()))
            if not readable:
                self._end(signal.SIGKILL)
                raise TimedOutError("the server did not become ready", log=self.log[-1000:])
            more = os.read(process.stdout.fileno(), 4096)
            if not more:
                self._end(signal.SIGKILL)
                raise InternalError("the server ended before it was ready", log=self.log[-1000:])
            heard += more
        return heard.decode()


def _environment() -> dict[str, str]:
    # The child runs the code that this process runs, installed or not.
    source = str(Path(next(iter(penstock.server.__path__))).parents[1])
    return os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, (source, os.environ.get("PYTHONPATH"))))}
