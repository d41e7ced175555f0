"""A standalone Spark cluster on this machine, from what `pip install pyspark` brings: a master and its workers.

Rows really travel between executors here, and mix on their way; a local Spark keeps them in order. Every
worker has an address of its own, for Spark starts a second copy of a slow task only on another host.
"""

from __future__ import annotations

import importlib.util
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Final

from penstock.errors import InternalError, TimedOutError
from penstock.spark.session.java import java_home

START_SECONDS_MAX: Final = 180.0
STOP_SECONDS_MAX: Final = 30.0
_MASTER: Final = "org.apache.spark.deploy.master.Master"
_WORKER: Final = "org.apache.spark.deploy.worker.Worker"
_READY: Final = "Successfully registered with master"


class SparkCluster:
    """A master and workers of one core each. A context manager; starts when entered."""

    def __init__(self, directory: str | Path, *, workers: int = 2) -> None:
        self.directory = Path(directory)
        self.url = ""
        self._workers = workers
        self._processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> SparkCluster:
        self.directory.mkdir(parents=True, exist_ok=True)
        try:
            self._start()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stop()

    def _start(self) -> None:
        port = _free_port()
        self.url = f"spark://127.0.0.1:{port}"
        self._run("master", "127.0.0.1", _MASTER, "--port", str(port))
        names = [f"worker-{number}" for number in range(1, self._workers + 1)]
        for number, name in enumerate(names, start=1):
            room = ("--cores", "1", "--memory", "1g", "--work-dir", str(self.directory / name))
            self._run(name, f"127.0.0.{number}", _WORKER, *room, self.url)
        for name, process in zip(names, self._processes[1:], strict=True):
            self._await(name, process)

    def _run(self, name: str, host: str, role: str, *arguments: str) -> None:
        home = _spark_home()
        command = (str(home / "bin" / "spark-class"), role, "--host", host, "--webui-port", "0", *arguments)
        with self._words(name).open("wb") as out:
            # Of a session of its own: what a worker starts ends with it.
            process = subprocess.Popen(
                command, stdout=out, stderr=out, env=_environment(home, host), start_new_session=True
            )
        self._processes.append(process)

    def _await(self, name: str, process: subprocess.Popen[bytes]) -> None:
        """Wait until a worker has found its master."""
        words = self._words(name)
        end = time.monotonic() + START_SECONDS_MAX
        while _READY not in words.read_text(errors="replace"):
            if process.poll() is not None:
                raise InternalError(f"Spark's {name} ended before it was ready", log=words.read_text()[-1000:])
            if time.monotonic() > end:
                raise TimedOutError(f"Spark's {name} did not become ready", log=words.read_text()[-1000:])
            time.sleep(0.1)

    def _words(self, name: str) -> Path:
        return self.directory / f"{name}.log"

    def _stop(self) -> None:
        while self._processes:
            process = self._processes.pop()
            process.terminate()
            try:
                process.wait(STOP_SECONDS_MAX)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def _spark_home() -> Path:
    found = importlib.util.find_spec("pyspark")
    if found is None or found.origin is None:
        raise InternalError("there is no Spark here; pip install 'penstock-db[spark]'")
    return Path(found.origin).parent


def _environment(home: Path, host: str) -> dict[str, str]:
    return os.environ | {
        "JAVA_HOME": str(java_home()),
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": host,
        "SPARK_DAEMON_MEMORY": "256m",
        "PYSPARK_PYTHON": sys.executable,
    }


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
