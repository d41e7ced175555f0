"""A PostgreSQL server of our own: made with initdb, started on a free port, stopped, killed."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import time
from pathlib import Path

import psutil
import psycopg

from bench.peers.peer import PeerError, free_port

SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "fsync": "on",
    "synchronous_commit": "on",
    "wal_level": "logical",
    "shared_buffers": "1GB",
    "max_wal_size": "8GB",
    "checkpoint_timeout": "15min",
    "maintenance_work_mem": "256MB",
    "work_mem": "64MB",
    "temp_buffers": "64MB",
}
USER = "postgres"
SECONDS_MAX = 120


def binaries() -> Path | None:
    """Return the directory with the newest initdb of this machine, or None."""
    found = shutil.which("initdb")
    installed = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: float(path.parts[-3]))
    return Path(found).resolve().parent if found else installed[-1].parent if installed else None


def missing_words() -> str | None:
    """Return why no server can be started here, or None."""
    if binaries() is None:
        return "no initdb on the path or in /usr/lib/postgresql"
    if os.geteuid() == 0 and USER not in {entry.pw_name for entry in pwd.getpwall()}:
        return f"it refuses to run as root, and there is no user {USER}"
    return None


class PostgresServer:
    """One cluster of databases in a directory; the server is our child, so that its end can be waited for."""

    def __init__(self, directory: Path) -> None:
        self.port = free_port()
        self.uri = f"postgresql://{USER}@127.0.0.1:{self.port}/postgres"
        self._data = directory / "postgres"
        self._log = directory / "postgres.log"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Make the cluster if it is not there, start, and wait until it takes connections."""
        if not self._data.exists():
            self._make()
        options = {**SETTINGS, "port": str(self.port), "unix_socket_directories": str(self._data)}
        words = [word for name, value in options.items() for word in ("-c", f"{name}={value}")]
        with self._log.open("ab") as log:
            command = _command("postgres", "-D", str(self._data), "-c", "log_min_messages=error", *words)
            self._process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self._data)
        deadline = time.monotonic() + SECONDS_MAX
        while not self._answers():
            if time.monotonic() > deadline or self._process.poll() is not None:
                raise PeerError(f"postgres does not start: {self._log.read_text()[-2000:]}")
            time.sleep(0.01)

    def stop(self) -> None:
        """Stop with a checkpoint, as an operator would."""
        self._end(signal.SIGINT)

    def kill(self) -> None:
        """Kill the server; its children end when they see that, and the next start needs them gone."""
        children = psutil.Process(self.pids()[0]).children(recursive=True)
        self._end(signal.SIGKILL)
        for child in children:
            if _runs(child):
                child.kill()
        deadline = time.monotonic() + SECONDS_MAX
        while any(_runs(child) for child in children):
            if time.monotonic() > deadline:
                raise PeerError(f"postgres does not end: {children}")
            time.sleep(0.01)

    def pids(self) -> list[int]:
        """Return the server and its children."""
        assert self._process is not None
        pid = self._process.pid
        return [pid, *(child.pid for child in psutil.Process(pid).children(recursive=True))]

    def _end(self, number: signal.Signals) -> None:
        assert self._process is not None
        process, self._process = self._process, None
        process.send_signal(number)
        process.wait(SECONDS_MAX)

    def _answers(self) -> bool:
        try:
            psycopg.connect(self.uri).close()
        except psycopg.OperationalError:
            return False
        return True

    def _make(self) -> None:
        self._data.mkdir(mode=0o700)
        self._log.touch()
        if os.geteuid() == 0:
            # The server runs as its own user: it must be able to reach its directory, and own it.
            self._data.parent.chmod(0o711)
            shutil.chown(self._data, USER)
        options = ("-U", USER, "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
        command = _command("initdb", "-D", str(self._data), *options)
        done = subprocess.run(command, capture_output=True, text=True, cwd=self._data, check=False)
        if done.returncode:
            raise PeerError(f"initdb failed: {done.stdout} {done.stderr}")


def _command(program: str, *arguments: str) -> list[str]:
    found = binaries()
    assert found is not None
    user = ("setpriv", f"--reuid={USER}", f"--regid={USER}", "--init-groups") if os.geteuid() == 0 else ()
    return [*user, str(found / program), *arguments]


def _runs(process: psutil.Process) -> bool:
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
