"""What a checkpoint says of its query."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from penstock.errors import InvalidError, UnsupportedError
from penstock.spark.session.query_id import query_of


def make_checkpoint(directory: Path, *batches: str, metadata: str | None = None) -> str:
    (directory / "offsets").mkdir(parents=True)
    (directory / "metadata").write_text(metadata or json.dumps({"id": "q-1"}))
    for name in batches:
        (directory / "offsets" / name).touch()
    return str(directory)


@pytest.mark.parametrize("prefix", ["", "file:", "file://"])
def test_the_latest_offsets_name_the_micro_batch_that_runs(tmp_path: Path, prefix: str) -> None:
    checkpoint = make_checkpoint(tmp_path / "c", "9", "10", ".10.crc", ".11.tmp")

    assert query_of(f"{prefix}{checkpoint}/") == ("q-1", 10)


def test_a_checkpoint_that_cannot_be_read_says_what_to_use(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match=r"pks\.write_stream"):
        query_of(str(tmp_path / "nowhere"))
    with pytest.raises(UnsupportedError, match="names no micro-batch"):
        query_of(make_checkpoint(tmp_path / "empty"))


def test_metadata_of_another_kind_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidError, match="names no query"):
        query_of(make_checkpoint(tmp_path / "c", "0", metadata="[]"))
