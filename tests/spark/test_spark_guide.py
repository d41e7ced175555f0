"""The session of the Spark guide runs as it stands, and prints what the guide says it prints."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "spark.md"
SESSION = "\n".join(re.findall(r"^```python\n(.*?)^```$", GUIDE.read_text(), re.M | re.S))


def test_spark_guide_prints_what_it_promises(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # Spark has a working directory of its own: that of the process in which its JVM was started.
    exec(SESSION.replace('"./', f'"{tmp_path}/'), {"__name__": "__main__"})

    assert capsys.readouterr().out.splitlines() == re.findall(r"^\s*# -> (.*)$", SESSION, re.M)
