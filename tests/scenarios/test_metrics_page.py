"""The page of metrics names every metric that a server has, with its kind and labels, and no other."""

from __future__ import annotations

import re
import urllib.request
from pathlib import Path

import pytest

import penstock
from penstock.engine.engine import Engine

PAGE = Path(__file__).parents[2] / "docs/guide/metrics.md"
ROW = re.compile(r"^\| `(penstock_\w+)` \| (\w+) \| (?:`(\w+)`)? ?\|", re.M)
SCHEMA = "id BIGINT, PRIMARY KEY (id)"


@pytest.fixture(scope="module")
def scraped(tmp_path_factory: pytest.TempPathFactory) -> str:
    with penstock.serve(tmp_path_factory.mktemp("metrics")) as server, penstock.connect(server.url) as connection:
        table = connection.create_table("t", SCHEMA)
        table.upsert({"id": [1, 2]})
        table.scan().to_arrow()
        with pytest.raises(penstock.errors.TableNotFoundError):
            connection.table("missing")
        assert isinstance(server.node, Engine)
        # A task that never failed has no series.
        server.node.metrics.set_gauges("penstock_background_failures", "task", {"maintenance": 0})
        server.node.node_metrics.run()
        server.node.metrics.set_gauges("penstock_background_failures", "task", {"maintenance": 0})
        with urllib.request.urlopen(f"{server.http_url}/metrics") as reply:
            return str(reply.read().decode())


def test_page_names_every_metric_with_its_kind(scraped: str) -> None:
    served = dict(re.findall(r"^# TYPE (penstock_\w+) (\w+)$", scraped, re.M))

    assert {name: kind for name, kind, _ in ROW.findall(PAGE.read_text())} == served


def test_page_names_the_label_of_each_metric(scraped: str) -> None:
    labels: dict[str, str] = {}
    for name, inside in re.findall(r"^(penstock_\w+)\{([^}]*)\}", scraped, re.M):
        found = [label for label in re.findall(r"(\w+)=", inside) if label != "le"]
        if found:
            labels[re.sub(r"_(bucket|sum|count)$", "", name)] = found[0]

    assert {name: label for name, _, label in ROW.findall(PAGE.read_text()) if label} == labels


def test_figures_of_a_table_are_in_the_metrics(scraped: str) -> None:
    assert 'penstock_table_live_rows{table="default.t"} 2.0' in scraped
