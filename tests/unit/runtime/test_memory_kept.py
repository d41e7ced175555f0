"""Freed memory is kept for the next to ask."""

from __future__ import annotations

import resource
import subprocess
import sys

PROGRAM = """
import resource, sys
import numpy as np
from penstock.runtime.memory import keep_freed_memory

if sys.argv[1] == "keep":
    assert keep_freed_memory()
for _ in range(3):
    np.ones(1 << 21, np.uint8)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(50):
    blocks = [np.ones(1 << 21, np.uint8) for _ in range(4)]
    del blocks
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(how: str) -> int:
    run = subprocess.run((sys.executable, "-c", PROGRAM, how), capture_output=True, text=True, check=True)
    return int(run.stdout)


def test_blocks_are_handed_out_again_without_asking_the_kernel() -> None:
    pages = 4 * (1 << 21) // resource.getpagesize()

    assert faults("keep") < 3 * pages
