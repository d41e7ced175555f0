"""The Python that Spark's workers run. It needs penstock as the driver's does, and need not be the driver's.

Spark starts `$PYSPARK_PYTHON`, or whatever `python3` is. A driver in a virtual environment that does not
say so has workers that know nothing of it, and their error does not say why.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys

from pyspark.sql import SparkSession

from penstock.errors import InvalidError
from penstock.spark.session.query_id import local_context


def check_worker_python(spark: SparkSession) -> None:
    """Refuse a session whose workers run a Python without penstock, where this process can know.

    Through Connect it cannot, nor where the job ships its own files or archives to the workers.

    Raises:
        InvalidError: they do; the message says what to set.
    """
    context = local_context(spark)
    found = None if context is None else shutil.which(context.pythonExec)
    if found is None or _is_ours(found) or _ships_code(spark):
        return
    if not _has_penstock(found, os.environ.get("PYTHONPATH")):
        raise InvalidError(
            f"Spark's workers run a Python that does not have penstock; set PYSPARK_PYTHON={sys.executable} in the "
            "environment before the session starts, or install penstock there",
            python=found,
        )


def _ships_code(spark: SparkSession) -> bool:
    # One by one: to copy the whole configuration takes a hundred calls into the JVM.
    names = ("spark.submit.pyFiles", "spark.archives", "spark.yarn.dist.archives")
    return any(spark.conf.get(name, None) for name in names)


def _is_ours(found: str) -> bool:
    # Not by what the links lead to: a virtual environment's Python is a link to one outside of it.
    return os.path.dirname(os.path.abspath(found)) == os.path.dirname(os.path.abspath(sys.executable))


@functools.cache
def _has_penstock(python: str, path: str | None) -> bool:
    """Tell whether a Python can import us; `path` is the PYTHONPATH under which it was asked."""
    try:
        asked = subprocess.run([python, "-c", "import penstock"], capture_output=True, check=False, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return asked.returncode == 0
