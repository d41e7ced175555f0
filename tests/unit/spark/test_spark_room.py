"""Spark's room: what it exports, and what importing it does not load."""

from __future__ import annotations

import pickle
import subprocess
import sys
from types import ModuleType

from pyspark import cloudpickle

import penstock.spark as pks

CHILD = """
import sys
import penstock.spark as pks
loaded = [getattr(pks, name) for name in pks.__all__]
import penstock.spark.reading.batch_reader, penstock.spark.reading.change_reader, penstock.spark.streaming.stream_reader
import penstock.tablet.snapshots.stored_snapshot
print(sorted(n for n in sys.modules if n.startswith(("rocksdict", "penstock.index", "penstock.server"))))
print("penstock.engine.engine" in sys.modules)
"""


def test_every_export_is_a_function_also_where_its_module_has_its_name() -> None:

    found = {name: getattr(pks, name) for name in pks.__all__}

    assert all(callable(value) and not isinstance(value, ModuleType) for value in found.values())
    assert dir(pks) == sorted(pks.__all__)


def test_functions_that_use_the_room_can_be_sent_to_workers() -> None:
    def use() -> object:
        return pks.read

    sent: bytes = cloudpickle.dumps(use)  # type: ignore[no-untyped-call]

    assert pickle.loads(sent)() is pks.read


def test_importing_the_room_loads_neither_rocksdb_nor_a_server() -> None:
    done = subprocess.run([sys.executable, "-c", CHILD], capture_output=True, text=True, timeout=120, check=False)

    assert done.stderr == ""
    assert done.stdout.splitlines() == ["[]", "False"]
