from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from penstock.engine.settings import Settings
from penstock.errors import InvalidError
from penstock.tablet.settings import FsyncMode


def test_defaults_are_those_of_the_guide() -> None:
    shown = {name: value for name, value, _ in Settings().describe()}

    assert shown == {
        "kv.scanner.ttl": "1min",
        "kv.scanner.max-lifetime": "1h",
        "kv.scanner.max-per-bucket": "8",
        "kv.scanner.max-per-server": "200",
        "kv.scanner.page-bytes": "4MB",
        "kv.snapshot.interval": "10min",
        "kv.snapshot.num-retained": "2",
        "kv.lease.max-duration": "7d",
        "kv.lease.max-per-server": "10000",
        "column-lock.ttl": "1min",
        "owner.abandon-after": "1d",
        "owner.retention": "90d",
        "owner.max-per-table": "10000",
        "log.segment-bytes": "64MB",
        "log.fsync": "always",
        "log.fsync-interval": "1s",
        "checkpoint.interval": "1min",
        "checkpoint.changes": "2000000",
        "memory.max": "half of the machine",
        "kv.index.front-bytes": "a share of memory.max",
        "request.max-bytes": "64MB",
        "tables.max": "10000",
        "call.max-bytes": "1GB",
    }


def test_later_sources_win_over_earlier_ones(tmp_path: Path) -> None:
    file = tmp_path / "penstock.toml"
    file.write_text('[kv.scanner]\nttl = "5s"\nmax-per-bucket = 3\npage-bytes = 4096\n[log]\nfsync = "never"\n')
    environment = {"PENSTOCK_KV_SCANNER_TTL": "6s", "PENSTOCK_KV_SCANNER_MAX_PER_BUCKET": "4", "PENSTOCK_URL": "x"}

    settings = Settings.load(file, environment, {"kv.scanner.ttl": timedelta(seconds=7)})

    assert settings.scanner_ttl_ms == 7_000
    assert settings.scanners_per_bucket_max == 4
    assert settings.page_bytes == 4096
    assert settings.fsync is FsyncMode.NEVER


def test_a_file_that_is_not_there_sets_nothing(tmp_path: Path) -> None:
    assert Settings.load(tmp_path / "penstock.toml", {}) == Settings()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "[kv.scanner]\nttll = 1\n",
            r"did you mean kv\.scanner\.ttl\? there are kv\.scanner\.ttl,.*setting=kv\.scanner\.ttll source=/",
        ),
        ("ttl = 1\n", "no such setting"),
        ("[kv]\nscanner = 5\n", "no such setting"),
        ("not toml", "no valid TOML"),
        ('[kv.scanner]\nttl = "soon"\n', r"a duration is .*setting=kv\.scanner\.ttl value='soon'"),
    ],
)
def test_a_wrong_file_is_refused_and_named(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "penstock.toml"
    file.write_text(text)

    with pytest.raises(InvalidError, match=message):
        Settings.load(file, {})


def test_a_slip_in_a_variable_is_refused_but_other_variables_are_not_ours() -> None:
    with pytest.raises(InvalidError, match="variable=PENSTOCK_KV_SCANER_TTL"):
        Settings.load(environment={"PENSTOCK_KV_SCANER_TTL": "5s"})
    assert Settings.load(environment={"PENSTOCK_URL": "x", "PENSTOCK_TOKEN": "y", "HOME": "/"}) == Settings()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("kv.scanner.ttl", "0s"),
        ("kv.scanner.page-bytes", "17MB"),
        ("kv.scanner.page-bytes", 1),
        ("kv.scanner.max-per-bucket", 0),
        ("kv.scanner.max-per-bucket", -1),
        ("kv.scanner.max-per-bucket", "many"),
        ("kv.scanner.max-per-bucket", True),
        ("log.fsync", "sometimes"),
        ("nope", 1),
    ],
)
def test_values_out_of_range_are_refused(name: str, value: Any) -> None:
    with pytest.raises(InvalidError, match=f"setting={name}"):
        Settings.load(environment={}, overrides={name: value})
