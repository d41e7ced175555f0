"""The session of the Spark guide runs as it stands, and prints what the guide says it prints."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "spark.md"
SESSION = "\n".join(re.findall(r"^```python\n(.*?)^```$", GUIDE.read_text(), re.M | re.S))


def test_spark_guide_prints_what_it_promises(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)

    # Functions of a page find the names of the page, as they do where it is typed in.
    exec(SESSION, {"__name__": "__main__"})

    assert capsys.readouterr().out.splitlines() == re.findall(r"^\s*# -> (.*)$", SESSION, re.M)
