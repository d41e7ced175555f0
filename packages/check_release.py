"""Check the distributions in `dist/` as users meet them: installed together, alone, over an older one, and removed.

    python packages/check_release.py dist build/release

Every environment is new. What they need besides comes from the package index; `penstock-db` and its client come from
`dist/` alone. The environment `whole` stays, for the audit.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

CLIENT, WHOLE = "penstock-db-client", "penstock-db"

EMBEDDED = """
import tempfile, penstock
with tempfile.TemporaryDirectory() as data, penstock.serve(data) as server, penstock.connect(server.url) as connection:
    table = connection.create_table("t", "id BIGINT, PRIMARY KEY (id)")
    table.upsert([{"id": 1}])
    assert table.scan().to_arrow().num_rows == 1
"""
SERVE = """
import sys, tempfile, penstock
with tempfile.TemporaryDirectory() as data, penstock.serve(data) as server:
    server_table = penstock.connect(server.url).create_table("t", "id BIGINT, PRIMARY KEY (id)")
    server_table.upsert([{"id": 1}])
    print(server.url, flush=True)
    sys.stdin.read()
"""
REMOTE = """
import sys, penstock
with penstock.connect(sys.argv[1]) as connection:
    connection.table("t").upsert([{"id": 2}])
    assert connection.table("t").scan().to_arrow().num_rows == 2
"""
REFUSED = """
import penstock
for opening in (penstock.connect, penstock.serve):
    try:
        opening("data")
    except penstock.errors.UnsupportedError as error:
        assert "pip install penstock-db " in f"{error} ", error
    else:
        raise AssertionError(opening)
"""
# What a Spark worker does first: it unpickles the data source, which it finds by its module.
WORKER = """
import sys, pickle, pyspark_penstock
from penstock.spark.sources.source import PenstockDataSource
import penstock.spark.reading.batch_reader, penstock.spark.reading.snapshot_reader
import penstock.spark.streaming.stream_reader, penstock.spark.writing.batch_writer, penstock.spark.writing.stream_writer
assert pickle.loads(pickle.dumps(PenstockDataSource)) is PenstockDataSource
assert not {"rocksdict", "penstock.engine", "penstock.server"} & set(sys.modules)
"""


class Environment:
    """A virtual environment with nothing in it but what is installed here."""

    def __init__(self, folder: Path) -> None:
        self._python = folder / "bin" / "python"
        self.command = folder / "bin" / "penstock"
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)

    def pip(self, *arguments: str | Path) -> None:
        """Install or remove something."""
        subprocess.run([self._python, "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments], check=True)

    def run(self, script: str, *arguments: str) -> None:
        """Run Python, in a folder of its own."""
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([self._python, "-I", "-c", script, *arguments], check=True, cwd=folder)

    def serving(self) -> subprocess.Popen[str]:
        """Start a server with a table of one row; it ends with its input."""
        return subprocess.Popen(
            [self._python, "-I", "-c", SERVE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def says(self, *arguments: str) -> tuple[int, str]:
        """Run the console script; return its exit code and what it said."""
        done = subprocess.run([self.command, *arguments], capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr


def files_of(wheel: Path) -> set[str]:
    """Return the names of the files that a wheel installs."""
    with zipfile.ZipFile(wheel) as opened:
        return set(opened.namelist())


def only(dist: Path, pattern: str) -> Path:
    """Return the one file of that name."""
    (found,) = dist.glob(pattern)
    return found


def check_files(client: Path, whole: Path) -> None:
    """Look for code in the distribution without code, and for files of both."""
    assert not files_of(client) & files_of(whole)
    assert all(".dist-info/" in name for name in files_of(whole)), files_of(whole)
    assert {"penstock/__init__.py", "penstock/py.typed", "pyspark_penstock.py"} <= files_of(client)


def check_whole(dist: Path, folder: Path, client: Path, whole: Path) -> Environment:
    """Install everything by its name; remove one, then put it back."""
    both = Environment(folder / "whole")
    both.pip("install", "--find-links", dist, f"{WHOLE}=={whole.name.split('-')[1]}")
    both.run(EMBEDDED)
    assert both.says("--version")[0] == 0
    both.pip("uninstall", "--yes", WHOLE)
    both.run(EMBEDDED)
    assert both.says("--version")[0] == 0, "the console script went with the distribution without code"
    both.pip("install", "--no-deps", whole)
    # An upgrade: the same files again, over what is there.
    both.pip("install", "--no-deps", "--force-reinstall", client, whole)
    both.run(EMBEDDED)
    both.pip("check")
    return both


def check_client(dist: Path, folder: Path, whole: Path, server: Environment) -> None:
    """Install the client alone: it reads from afar, a Spark worker loads it, it says what it lacks; then the rest."""
    alone = Environment(folder / "client")
    alone.pip("install", "--find-links", dist, CLIENT)
    alone.run(REFUSED)
    code, said = alone.says("--version")
    assert code != 0, said
    assert "pip install penstock-db " in f"{said} ", said
    with server.serving() as serving:
        assert serving.stdout is not None
        alone.run(REMOTE, serving.stdout.readline().strip())
        serving.communicate()
    alone.pip("install", "--no-deps", "pyspark", "py4j")
    alone.run(WORKER)
    alone.pip("install", "--find-links", dist, whole)
    alone.run(EMBEDDED)
    assert alone.says("--version")[0] == 0


def check_sources(dist: Path, folder: Path) -> None:
    """Install from the source distributions."""
    sources = Environment(folder / "sources")
    sources.pip("install", only(dist, "penstock_db_client-*.tar.gz"), only(dist, "penstock_db-*.tar.gz"))
    sources.run(EMBEDDED)


def main(dist: Path, folder: Path) -> None:
    """Check everything; an assertion or a failed command ends it."""
    client, whole = only(dist, "penstock_db_client-*.whl"), only(dist, "penstock_db-*.whl")
    check_files(client, whole)
    both = check_whole(dist, folder, client, whole)
    check_client(dist, folder, whole, both)
    check_sources(dist, folder)
    print(f"checked {client.name} and {whole.name}: together, alone, removed, upgraded, from source")


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve())
