"""The client where nothing but the client is installed: what it can do, and what it says that it lacks.

The environment is one of links: to the client's own dependencies, closed over theirs, and to the source tree.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path

import pytest

from penstock.runtime.packages import CLIENT, ENGINE_PACKAGES, WHOLE
from penstock.testing import server

NAME = re.compile(r"^[A-Za-z0-9._-]+")


def needed(name: str) -> set[str]:
    """Return the distributions that one needs, and those that they need; without any extra."""
    found: set[str] = set()
    waiting = [name]
    while waiting:
        for requirement in distribution(waiting.pop()).requires or []:
            matched = NAME.match(requirement)
            assert matched
            if "extra ==" not in requirement and matched[0] not in found:
                found.add(matched[0])
                waiting.append(matched[0])
    return found


def link(site: Path, name: str) -> None:
    """Make an installed distribution importable from another directory."""
    installed = distribution(name)
    for top in {file.parts[0] for file in installed.files or [] if file.parts[0] not in ("..", "__pycache__")}:
        site.joinpath(top).symlink_to(Path(str(installed.locate_file(top))))


@pytest.fixture(scope="module")
def site(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    site = tmp_path_factory.mktemp("site")
    for name in needed(CLIENT):
        link(site, name)
    for path in (repository / "src").iterdir():
        site.joinpath(path.name).symlink_to(path)
    return site


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with server() as running:
        yield running.url


def run(site: Path, script: str, *arguments: str) -> str:
    """Run Python with what is linked, and nothing else; return what it printed."""
    command = [sys.executable, "-I", "-S", "-W", "error", "-c", f"import sys; sys.path.append({str(site)!r})\n{script}"]
    done = subprocess.run([*command, *arguments], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_client_needs_few_packages() -> None:
    assert needed(CLIENT) == {"google-crc32c", "numpy", "pyarrow"}


def test_everything_needs_the_client_of_its_version() -> None:
    whole = distribution(WHOLE)
    requirements = whole.requires or []

    assert whole.version == distribution(CLIENT).version
    assert f"{CLIENT}=={whole.version}" in requirements
    assert {"google-crc32c", "numpy", "pyarrow", "rocksdict", "typer", "xxhash"} <= needed(WHOLE)


def test_every_package_of_the_engine_is_known_as_such() -> None:
    modules = {"prometheus-client": "prometheus_client"}

    brought = {NAME.match(r)[0] for r in distribution(WHOLE).requires or [] if "extra ==" not in r}  # type: ignore[index]

    assert {modules.get(name, name) for name in brought - {CLIENT}} <= ENGINE_PACKAGES


def test_table_of_a_server_is_written_and_read(site: Path, url: str) -> None:
    script = """
import penstock
with penstock.connect(sys.argv[1]) as connection:
    orders = connection.create_table("orders", "id BIGINT, city STRING, PRIMARY KEY (id)", buckets=2)
    orders.upsert([{"id": 1, "city": "Ulm"}, {"id": 2, "city": "Bonn"}])
    with orders.writer() as writer:
        writer.upsert([{"id": 3, "city": "Kiel"}])
    orders.delete([2])
    print(sorted(orders.scan(filter="id > 0").to_arrow()["id"].to_pylist()))
    print(orders.get(id=1), orders.lookup([3])["city"].to_pylist())
    print(sum(batch.num_rows for batch in orders.changes(start=penstock.EARLIEST)))
    with connection.acquire_lease("job", orders.cut()) as lease:
        print(len(lease.unavailable))
    owner = orders.acquire_owner("job")
    print(owner.begin(1))
    orders.upsert([{"id": 4, "city": "Jena"}], owner=owner)
    owner.commit(1)
print(sorted({name.partition(".")[0] for name in sys.modules} & {"penstock", "xxhash", "rocksdict", "typer"}))
"""
    printed = run(site, script, url).splitlines()

    assert printed == ["[1, 3]", "{'id': 1, 'city': 'Ulm'} ['Kiel']", "4", "0", "new", "['penstock']"]


def test_every_module_of_the_spark_side_loads(site: Path, tmp_path: Path) -> None:
    spark = tmp_path / "site"
    spark.mkdir()
    for name in ("pyspark", "py4j"):
        link(spark, name)
    script = f"""
sys.path.append({str(spark)!r})
import importlib, pkgutil, warnings
import penstock.spark, pyspark_penstock, penstock.tablet.snapshots.stored_snapshot
names = [module.name for module in pkgutil.walk_packages(penstock.spark.__path__, "penstock.spark.")]
for name in names:
    importlib.import_module(name)
print(len(names) > 30)
"""
    assert run(site, script) == "True\n"


@pytest.mark.parametrize(
    ("statement", "needs"),
    [
        ("penstock.connect('data')", "a data directory needs the engine"),
        ("penstock.serve('data')", "a server needs the engine"),
        ("penstock.testing.server().__enter__()", "a server needs the engine"),
        ("penstock.connect(sys.argv[1]).table('words').scan().to_pandas()", "[pandas]"),
        ("penstock.connect(sys.argv[1]).table('words').scan().to_polars()", "[polars]"),
        ("penstock.connect(sys.argv[1]).table('words').scan().to_duckdb()", "[sql]"),
    ],
)
def test_what_is_not_installed_is_named_with_the_command_that_installs_it(
    site: Path, url: str, statement: str, needs: str
) -> None:
    script = f"""
import penstock
penstock.connect(sys.argv[1]).create_table("words", "id BIGINT, PRIMARY KEY (id)", if_not_exists=True)
try:
    {statement}
except penstock.errors.UnsupportedError as error:
    print(error)
"""
    printed = run(site, script, url)

    assert needs in printed
    assert "pip install penstock-db" in printed.replace("'", "")


def test_nothing_is_made_where_the_engine_is_missing(site: Path, tmp_path: Path) -> None:
    script = """
import penstock
for opening in (penstock.connect, penstock.serve):
    try:
        opening(sys.argv[1])
    except penstock.errors.UnsupportedError:
        pass
"""
    run(site, script, str(tmp_path / "data"))

    assert not (tmp_path / "data").exists()


def test_command_says_what_it_needs(site: Path) -> None:
    script = """
from penstock.cli.entry_point import main
sys.stderr = sys.stdout
try:
    main()
except SystemExit as end:
    print(end.code)
"""

    said, code = run(site, script, "scan", "orders").splitlines()

    assert said.startswith("penstock: the command line needs the engine")
    assert "pip install penstock-db " in said
    assert code == "2"
