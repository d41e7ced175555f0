"""Tables whose columns change lead random lives beside an oracle: writers and readers of before, epochs, crashes.

`pytest tests/property/test_altered_tables.py -k "[17]"` replays a seed.
"""

from __future__ import annotations

from random import Random

import pytest
from tests.kit.altered_life import AlteredLife


def lead_a_life(seed: int, steps: int) -> None:
    life = AlteredLife(Random(seed))
    print(f"seed={seed} merge_engine={life.engine}")
    try:
        life.play(steps)
    finally:
        print(f"steps={life.counts}")
        life.node.close()


@pytest.mark.parametrize("seed", range(40))
def test_altered_table_answers_as_its_oracle_does(seed: int) -> None:
    lead_a_life(seed, steps=60)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1_000, 1_400))
def test_altered_table_answers_as_its_oracle_does_for_long(seed: int) -> None:
    lead_a_life(seed, steps=200)
