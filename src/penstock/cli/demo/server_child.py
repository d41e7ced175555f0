"""A Penstock server in a process of its own: always on the same port and directory, so that it can come back."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import TracebackType

import penstock
from penstock.errors import UnavailableError


class ServerChild:
    """The demo's server. A context manager that ends it."""

    def __init__(self, directory: Path, log: Path) -> None:
        self._directory = directory
        self._log = log
        self._port = "0"
        self._process: subprocess.Popen[str] | None = None
        self.url = ""

    @property
    def running(self) -> bool:
        """Tell whether the server was started and not killed."""
        return self._process is not None

    def start(self) -> None:
        """Start the server and wait until it is ready.

        Raises:
            UnavailableError: it ended instead; the message says where its words are.
        """
        assert self._process is None, "one server at a time"
        command = [sys.executable, "-m", "penstock.server", "--data", str(self._directory)]
        command += ["--port", self._port, "--http-port", "0"]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=log, text=True, env=child_environment(), start_new_session=True
            )
        assert self._process.stdout is not None
        try:
            line = self._process.stdout.readline()
            facts = dict(word.split("=", 1) for word in line.split() if "=" in word)
            if "url" not in facts:
                raise UnavailableError("the demo's server did not start; its log says why", log=str(self._log))
        except BaseException:
            # No other process would end it: the caller that starts it in a `with` has not entered it yet.
            self.kill()
            raise
        self.url = facts["url"]
        self._port = self.url.rpartition(":")[2]

    def kill(self) -> None:
        """End the server as a crash would: kill -9."""
        if self._process is not None:
            process, self._process = self._process, None
            process.kill()
            process.communicate()

    def __enter__(self) -> ServerChild:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()


def child_environment() -> dict[str, str]:
    """Return this process's environment for a child that runs the same code, installed or not."""
    source = str(Path(next(iter(penstock.__path__))).parent)
    return os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, (source, os.environ.get("PYTHONPATH"))))}
