"""Apache Paimon in local files, by pypaimon, which needs an older Arrow: in a Python of its own, over pipes."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from bench.peers.library import Library
from bench.peers.peer import PeerError, Transport

VARIABLE = "PENSTOCK_BENCH_PAIMON"
PYTHON = Path(__file__).parents[2] / ".venv-paimon" / "bin" / "python"
CHILD = Path(__file__).with_name("paimon_child.py")


class Paimon(Library):
    """The table format."""

    name = "Paimon"
    transport = Transport.FILES

    def __init__(self) -> None:
        super().__init__()
        self._version = ""

    def missing(self) -> str | None:
        """Say whether there is a Python that has it."""
        if not _python().exists():
            return (
                "pypaimon wants a Python of its own: python3 -m venv .venv-paimon && "
                f".venv-paimon/bin/pip install pypaimon (or name its Python in {VARIABLE})"
            )
        probe = "from importlib.metadata import version; import pypaimon; print(version('pypaimon'))"
        said = subprocess.run([_python(), "-c", probe], capture_output=True, text=True, check=False)
        self._version = said.stdout.strip()
        return None if said.returncode == 0 else f"pypaimon does not import: {said.stderr[-200:]}"

    def settings(self) -> str:
        """Return version and settings."""
        return (
            f"pypaimon {self._version}; local files, primary key, 1 bucket, a batch write and commit a batch, no "
            "compaction; rows pass a pipe as Arrow; no changelog; its files are not synced"
        )

    def session(self) -> PaimonSession:
        """Start the other Python."""
        return PaimonSession(self.directory)


class PaimonSession:
    """One child process; a request is a line of JSON and Arrow bytes, and so is its answer."""

    def __init__(self, directory: Path) -> None:
        self._child = subprocess.Popen(
            [_python(), CHILD, directory], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )

    def create(self, *, changelog: bool = False) -> None:
        """Make the table."""
        self._ask({"do": "create"})

    def upsert(self, batch: pa.RecordBatch) -> None:
        """Write and commit."""
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        self._ask({"do": "upsert"}, sink.getvalue().to_pybytes())

    def scan(self, columns: Sequence[str], items: int | None = None) -> pa.Table:
        """Read into Arrow."""
        return pa.ipc.open_stream(self._ask({"do": "scan", "columns": list(columns), "items": items})).read_all()

    def close(self) -> None:
        """End the child."""
        self._child.communicate()

    def _ask(self, request: dict[str, Any], body: bytes = b"") -> bytes:
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self._child.stdin.write(json.dumps({**request, "bytes": len(body)}).encode() + b"\n" + body)
        self._child.stdin.flush()
        answer = self._child.stdout.readline()
        if not answer:
            raise PeerError(f"pypaimon ended while asked to {request['do']}")
        return self._child.stdout.read(json.loads(answer)["bytes"])


def _python() -> Path:
    return Path(os.environ.get(VARIABLE, PYTHON))


PEER = Paimon()
