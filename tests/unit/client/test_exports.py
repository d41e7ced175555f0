from __future__ import annotations

import subprocess
import sys

import penstock

EXPORTS = [
    *("AggFunction", "BackupResult", "ChangeStream", "Connection", "Cut", "EARLIEST", "LATEST", "Lease", "MergeEngine"),
    *("Offsets", "Owner", "OwnerInfo", "PageScanner", "PenstockError", "Progress", "RestoreResult", "Scan"),
    *("ScanBuilder", "ScanSource", "Schema", "Snapshot", "Table", "TableBucket", "TableInfo", "UndoResult"),
    *("WriteResult", "Writer", "col", "connect", "errors", "restore", "serve"),
]


def test_the_package_exports_exactly_these_names() -> None:
    assert sorted(penstock.__all__) == sorted(EXPORTS)
    assert dir(penstock) == sorted(EXPORTS)
    for name in EXPORTS:
        assert getattr(penstock, name) is not None


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    assert not hasattr(penstock, "nothing")


def loaded_by(statements: str) -> set[str]:
    script = f"{statements}\nimport sys\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=120)
    return set(done.stdout.split())


def test_importing_the_package_loads_almost_nothing() -> None:
    assert {name for name in loaded_by("import penstock") if name.startswith(("penstock", "pyarrow"))} == {"penstock"}


def test_importing_the_client_loads_neither_rocksdb_nor_engine_nor_server() -> None:
    # Callers of `serve` and `restore` want the engine.
    everything = " ".join(f"penstock.{name};" for name in EXPORTS if name not in {"serve", "restore"})
    loaded = loaded_by(f"import penstock, penstock.client, penstock.client.connection\n{everything}")

    assert "penstock.client.table" in loaded
    for name in ("rocksdict", "penstock.engine", "penstock.tablet", "penstock.index", "penstock.log"):
        assert name not in loaded
    for name in ("penstock.server", "pyarrow.flight", "pyarrow._flight", "pandas", "polars", "duckdb", "pyspark"):
        assert name not in loaded


def test_name_that_needs_the_engine_says_what_to_install_where_there_is_none() -> None:
    script = """
import sys
sys.modules["rocksdict"] = None
import penstock
try:
    penstock.restore
except penstock.errors.UnsupportedError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert "pip install penstock-db" in done.stdout
