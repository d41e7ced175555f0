"""The Spark job as a child process: started, killed with everything that belongs to it, or asked to finish."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType

from penstock.cli.demo.server_child import child_environment
from penstock.errors import InternalError
from penstock.spark.session.java import use_java


class JobChild:
    """The demo's Spark job. Its words, and those of the JVM, go to a file. A context manager that ends it."""

    def __init__(self, url: str, directory: Path, *, batch_rows: int, log: Path) -> None:
        self._log = log
        self._finish = directory / "finish"
        self._scratch = directory / "spark"
        self._process: subprocess.Popen[bytes] | None = None
        self._command = [sys.executable, "-m", "penstock.cli.demo.job", "--url", url]
        self._command += ["--checkpoint", str(directory / "checkpoint"), "--batch-rows", str(batch_rows)]
        self._command += ["--finish", str(self._finish), "--scratch", str(self._scratch)]

    def start(self) -> None:
        """Start the job; it goes on from its checkpoint if it has one.

        Raises:
            UnavailableError: there is no Java; the message says what to install.
        """
        assert self._process is None, "one job at a time"
        use_java()
        environment = child_environment() | {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command, stdout=log, stderr=log, env=environment, start_new_session=True
            )

    def kill(self) -> None:
        """End driver and JVM at once, as a lost machine would: kill -9."""
        if self._process is not None:
            process, self._process = self._process, None
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            shutil.rmtree(self._scratch, ignore_errors=True)

    def finish(self) -> None:
        """Ask the job to read what there is and end."""
        self._finish.touch()

    def ended(self) -> bool:
        """Tell whether the job came to its end.

        Raises:
            InternalError: it failed.
        """
        if self._process is None or self._process.poll() is None:
            return False
        if self._process.returncode != 0:
            raise InternalError(
                "the demo's Spark job failed; its log says why", code=self._process.returncode, log=str(self._log)
            )
        return True

    def __enter__(self) -> JobChild:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
