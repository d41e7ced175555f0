from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import sys
sys.modules["pyspark"] = None  # as where it is not installed
import penstock.spark as pks
try:
    pks.read
except ModuleNotFoundError as error:
    print(error)
"""


def test_who_lacks_pyspark_is_told_what_to_install() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True, timeout=60)

    assert done.stdout == "this needs PySpark; pip install 'penstock[spark]'\n"
