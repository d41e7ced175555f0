"""The limit on open files is raised as far as it may be, and never lowered."""

from __future__ import annotations

import subprocess
import sys

import pytest

from penstock.runtime.open_files import share_open_files

PROGRAM = """
import resource
from penstock.runtime.open_files import allow_open_files
resource.setrlimit(resource.RLIMIT_NOFILE, (100, 300))
print(allow_open_files(200), allow_open_files(1_000), allow_open_files(50), resource.getrlimit(resource.RLIMIT_NOFILE))
"""


def test_limit_goes_up_to_what_is_wanted_or_allowed_and_not_down() -> None:
    said = subprocess.run([sys.executable, "-c", PROGRAM], check=True, capture_output=True, text=True).stdout

    assert said.strip() == "200 300 300 (300, 300)"


@pytest.mark.parametrize("limit", [256, 1_024, 65_536])
def test_shares_leave_a_third_of_the_limit_to_others(limit: int) -> None:
    shares = share_open_files(limit)

    assert shares.index + shares.readers + shares.segments <= limit * 2 // 3
