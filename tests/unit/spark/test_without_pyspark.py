from __future__ import annotations

import subprocess
import sys
from pathlib import Path

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

    assert done.stdout == "this needs PySpark; pip install 'penstock-db[spark]'\n"


def test_who_has_an_old_pyspark_is_told_which_is_needed_and_which_was_found(tmp_path: Path) -> None:
    (tmp_path / "pyspark").mkdir()
    (tmp_path / "pyspark" / "__init__.py").write_text('__version__ = "3.5.6"\n')
    script = SCRIPT.replace('sys.modules["pyspark"] = None', f"sys.path.insert(0, {str(tmp_path)!r})")
    script = script.replace("ModuleNotFoundError", "ImportError")

    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)

    assert "needs PySpark 4.2 or later" in done.stdout
    assert "found=3.5.6" in done.stdout
