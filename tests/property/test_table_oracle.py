"""Whole tables lead random lives beside an oracle, through the public API, across restarts.

`pytest tests/property/test_table_oracle.py -k "embedded and 17"` replays a seed.
"""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from tests.kit.node_house import NodeHouse
from tests.kit.table_life import TableLife

from penstock.model.table.merge_engine import MergeEngine

ENGINES = tuple(MergeEngine)


def lead_a_life(directory: Path, seed: int, *, steps: int, served: bool = False) -> dict[str, int]:
    random = Random(seed)
    # Small pages and segments, so that scans have many pages and buckets many files.
    settings = {"kv.scanner.page-bytes": "1KB", "log.segment-bytes": random.choice(("4KB", "64KB"))}
    if random.random() < 0.5:
        settings["kv.scanner.ttl"] = "20ms"
    if random.random() < 0.8:
        # No machine crashes here, and syncs are most of the time.
        settings["log.fsync"] = "never"
    engine = ENGINES[seed % len(ENGINES)]
    print(f"seed={seed} merge_engine={engine} settings={settings}")
    with NodeHouse(directory, served=served, settings=settings) as house:
        life = TableLife(random, house, engine)
        print(f"fields={life.plan.fields} buckets={life.plan.buckets} partitioned={life.plan.partitioned}")
        life.play(steps)
        print(f"steps={life.steps}")
        return life.steps


@pytest.mark.parametrize("seed", range(40))
def test_embedded_table_answers_as_its_oracle_does(seed: int, tmp_path: Path) -> None:
    lead_a_life(tmp_path / "data", seed, steps=70)


@pytest.mark.parametrize("seed", range(100, 108))
def test_served_table_answers_as_its_oracle_does(seed: int, tmp_path: Path) -> None:
    lead_a_life(tmp_path / "data", seed, steps=50, served=True)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1_000, 1_200))
def test_embedded_table_answers_as_its_oracle_does_for_long(seed: int, tmp_path: Path) -> None:
    lead_a_life(tmp_path / "data", seed, steps=300)
