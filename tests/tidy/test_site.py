"""The documentation builds without a warning, with every table of the reference filled in."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.cli.root.command_group import COMMANDS


@pytest.fixture(scope="module")
def site(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(directory)],
        cwd=repository,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return directory


def test_every_page_is_in_the_site(site: Path, repository: Path) -> None:
    pages = [page.relative_to(repository / "docs").with_suffix("") for page in (repository / "docs").rglob("*.md")]

    missing = [str(page) for page in pages if page.name != "index" and not (site / page / "index.html").is_file()]

    assert pages
    assert missing == []


@pytest.mark.parametrize(
    ("page", "words"),
    [
        ("settings", ("kv.scanner.ttl", "log.retention")),
        ("errors", ("SchemaMismatchError", "retriable")),
        ("cli", tuple(f"penstock {name}" for name in COMMANDS)),
        ("spark", ("retryTimeout", "write_stream")),
        ("api", ("connect", "upsert", "log_offsets", "acquire_owner")),
    ],
)
def test_reference_has_what_the_code_says(site: Path, page: str, words: tuple[str, ...]) -> None:
    text = (site / "reference" / page / "index.html").read_text()

    assert "{{" not in text
    assert [word for word in words if word not in text] == []
