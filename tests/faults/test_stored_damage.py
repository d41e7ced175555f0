"""No damage to a stored file is read as if it were right: everything is as it was, or whoever asks is told.

Two directories have one of everything that is stored: one was closed, one was killed. A file of theirs has a bit
flipped, is cut, or is gone; then all that can be read is compared with what was written.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random

import pytest
from tests.faults.stored_damage import KINDS, Stored

SEED = 23


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Stored]:
    root = tmp_path_factory.mktemp("stored")
    return {how: Stored.make(how, root / how) for how in ("closed", "killed")}


def sweep(stored: Stored, how: str, kind: str, count: int, copy: Path) -> Counter[str]:
    """Damage files of a kind in so many ways; return how often each was told in which way."""
    print(f"seed={SEED}")
    ways = ["flip", "flip", "cut", "flip", "flip", "remove"]
    if (how, kind) == ("killed", "segment"):
        ways = ["flip"]  # nobody knows what stood behind a cut
    elif kind == "snapshot":
        ways = ["flip", "flip", "cut"]  # one that is gone looks like one that went by age
    told: Counter[str] = Counter()
    for damage in stored.damages(kind, count, Random(SEED), ways):
        outcome = stored.told(damage, copy)
        assert not outcome.startswith("silent"), (damage, outcome)
        told[outcome] += 1
    print(f"{how} {kind} {dict(told)}")
    return told


@pytest.mark.parametrize("how", ["closed", "killed"])
@pytest.mark.parametrize("kind", KINDS)
def test_damage_to_a_file_is_told_or_changes_nothing(
    stored: dict[str, Stored], how: str, kind: str, tmp_path: Path
) -> None:
    sweep(stored[how], how, kind, 6, tmp_path / "copy")


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("how", ["closed", "killed"])
@pytest.mark.parametrize("kind", KINDS)
def test_much_damage_to_a_file_is_told_or_changes_nothing(
    stored: dict[str, Stored], how: str, kind: str, tmp_path: Path
) -> None:
    sweep(stored[how], how, kind, 300, tmp_path / "copy")
