"""The recipes meet what their sources really send: see `docs/guide/recipes.md`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from examples import airflow_load, debezium, fastapi_service
from fastapi.testclient import TestClient

import penstock

INTERVAL = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture(params=["embedded", "served"])
def conn(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[penstock.Connection]:
    if request.param == "embedded":
        with penstock.connect(tmp_path / "data") as connection:
            yield connection
    else:
        with penstock.serve(tmp_path / "data") as server, penstock.connect(server.url) as connection:
            yield connection


@pytest.fixture
def people(conn: penstock.Connection) -> penstock.Table:
    return conn.create_table("people", "id BIGINT, city STRING, PRIMARY KEY (id)", buckets=2)


def cities(table: penstock.Table) -> dict[int, str]:
    return {row["id"]: row["city"] for row in table.scan().to_arrow().to_pylist()}


@pytest.mark.parametrize("schema", [False, True], ids=["schemaless", "with a schema"])
def test_events_of_each_kind_are_applied(people: penstock.Table, schema: bool) -> None:
    event = debezium.event

    debezium.apply_events(people, [event("r", 1, "Ulm", 1, schema=schema), event("r", 2, "Bonn", 1, schema=schema)])
    debezium.apply_events(people, [event("c", 3, "Kiel", 2, schema=schema), event("u", 1, "Jena", 3, schema=schema)])
    debezium.apply_events(people, [event("d", 2, None, 4, schema=schema), (b'{"id": 2}', None)])

    assert cities(people) == {1: "Jena", 3: "Kiel"}


def test_events_of_a_batch_are_applied_in_the_order_of_their_source(people: penstock.Table) -> None:
    event = debezium.event

    debezium.apply_events(people, [event("d", 1, None, 9), event("u", 1, "Jena", 8), event("c", 1, "Ulm", 7)])
    debezium.apply_events(people, [event("u", 2, "Bonn", 12), event("c", 2, "Ulm", 11)])

    assert cities(people) == {2: "Bonn"}


def test_events_delivered_again_end_where_they_ended(people: penstock.Table) -> None:
    event = debezium.event
    events = [event("c", 1, "Ulm", 1), event("u", 1, "Bonn", 2), event("c", 2, "Kiel", 3), event("d", 2, None, 4)]

    for batch in (events, events[2:], events):
        debezium.apply_events(people, batch)

    assert cities(people) == {1: "Bonn"}


def test_key_that_comes_again_after_its_delete_is_there(people: penstock.Table) -> None:
    event = debezium.event

    debezium.apply_events(people, [event("c", 1, "Ulm", 1), event("d", 1, None, 2), event("c", 1, "Jena", 3)])

    assert cities(people) == {1: "Jena"}


def test_truncation_counts_for_what_came_before_it(people: penstock.Table) -> None:
    truncation = (b"null", json.dumps({"op": "t", "source": {"lsn": 5}}).encode())

    debezium.apply_events(people, [debezium.event("c", 1, "Ulm", 1), truncation, debezium.event("c", 2, "Bonn", 6)])

    assert cities(people) == {2: "Bonn"}


@pytest.mark.parametrize("city", [debezium.UNAVAILABLE, "Ulm"])
def test_event_that_cannot_be_applied_writes_nothing(people: penstock.Table, city: str) -> None:
    bad = debezium.event("u" if city == debezium.UNAVAILABLE else "x", 2, city, 2)

    with pytest.raises(ValueError, match=r"REPLICA IDENTITY|unknown operation"):
        debezium.apply_events(people, [debezium.event("c", 1, "Ulm", 1), bad])

    assert cities(people) == {}


@pytest.fixture
def sums(conn: penstock.Connection) -> penstock.Table:
    ddl = "id BIGINT, amount BIGINT SUM, PRIMARY KEY (id)"
    return conn.create_table("orders", ddl, merge_engine="aggregate")


def total(table: penstock.Table) -> Any:
    return sum(table.scan().to_arrow()["amount"].to_pylist())


def test_interval_that_failed_midway_is_loaded_once(conn: penstock.Connection, sums: penstock.Table) -> None:
    def failing() -> Iterator[airflow_load.Rows]:
        yield next(iter(airflow_load.extract(INTERVAL)))
        raise OSError("the source is gone")

    for _ in range(2):
        with pytest.raises(OSError, match="gone"):
            airflow_load.load(conn, INTERVAL, failing())
    outcomes = [airflow_load.load(conn, INTERVAL, airflow_load.extract(INTERVAL)) for _ in range(2)]

    assert outcomes == ["loaded", "skipped"]
    assert total(sums) == 45


def test_interval_before_the_last_one_is_refused(conn: penstock.Connection, sums: penstock.Table) -> None:
    later = INTERVAL + timedelta(hours=1)
    airflow_load.load(conn, later, airflow_load.extract(later))

    with pytest.raises(penstock.errors.ConflictError):
        airflow_load.load(conn, INTERVAL, airflow_load.extract(INTERVAL))

    assert total(sums) == 45


def test_stream_of_the_service_goes_on_after_the_last_event(conn: penstock.Connection) -> None:
    with TestClient(fastapi_service.make_app(conn)) as client:

        def put(id: int, city: str) -> None:
            client.put(f"/orders/{id}", json={"city": city, "amount": 1.5}).raise_for_status()

        def events(**headers: str) -> tuple[list[str], list[dict[str, Any]]]:
            lines = client.get("/changes", params={"timeout": "200ms"}, headers=headers).text.splitlines()
            rows = [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: ")]
            return [line.removeprefix("id: ") for line in lines if line.startswith("id: ")], list(
                chain.from_iterable(rows)
            )

        put(1, "Ulm")
        places, first = events()
        put(1, "Bonn")
        put(2, "Kiel")
        _, later = events(**{"Last-Event-ID": places[-1]})

        assert [(row["_change_type"], row["city"]) for row in first] == [("+I", "Ulm")]
        assert [(row["_change_type"], row["city"]) for row in later] == [("-U", "Ulm"), ("+U", "Bonn"), ("+I", "Kiel")]
        assert client.get("/orders/2").json() == {"id": 2, "city": "Kiel", "amount": 1.5}
        assert client.get("/orders/3").status_code == 404
        assert client.put("/orders/4", json={"city": "Ulm"}).status_code == 422
