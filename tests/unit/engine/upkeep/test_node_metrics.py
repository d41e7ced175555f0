from __future__ import annotations

from pathlib import Path

from tests.kit.node_house import NodeHouse

from penstock.engine.upkeep.node_metrics import NodeMetrics
from penstock.runtime.metrics import Metrics

SCHEMA = "id BIGINT, n BIGINT, PRIMARY KEY (id)"


def observed(house: NodeHouse, metrics: Metrics) -> NodeMetrics:
    engine = house.engine
    return NodeMetrics(engine._tables.all, engine._storage.disk, metrics, lambda: {"maintenance": 2})


def test_every_open_table_has_its_figures(tmp_path: Path) -> None:
    metrics = Metrics()
    with NodeHouse(tmp_path / "data") as house:
        table = house.connection.create_table("t", SCHEMA, buckets=2)
        table.upsert({"id": [1, 2, 3], "n": [1, 2, 3]})
        table.upsert({"id": [1], "n": [9]})
        table.delete([2])

        observed(house, metrics).run()

    numbers = metrics.snapshot()
    assert numbers["penstock_table_live_rows{table=default.t}"] == 2
    assert numbers["penstock_table_changes{table=default.t}"] == 5
    assert numbers["penstock_table_failed_buckets{table=default.t}"] == 0
    assert numbers["penstock_table_bytes{table=default.t}"] > 0
    assert numbers["penstock_background_failures{task=maintenance}"] == 2
    assert 0 < numbers["penstock_disk_free_bytes"] <= numbers["penstock_disk_size_bytes"]


def test_dropped_table_has_no_figures_any_more(tmp_path: Path) -> None:
    metrics = Metrics()
    with NodeHouse(tmp_path / "data") as house:
        connection = house.connection
        for name in ("kept", "gone"):
            connection.create_table(name, SCHEMA).upsert({"id": [1], "n": [1]})
        figures = observed(house, metrics)
        figures.run()
        connection.drop_table("gone")

        figures.run()

    tables = {name for name in metrics.snapshot() if name.startswith("penstock_table_rows")}
    assert tables == {"penstock_table_rows{table=default.kept}"}
