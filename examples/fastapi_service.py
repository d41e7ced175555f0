"""A small web service over a table: a row by its key, upserts, and changes as server-sent events.

    python examples/fastapi_service.py [directory]

Elsewhere: `uvicorn --factory examples.fastapi_service:from_environment`, with the server's address in PENSTOCK_URL.
A browser's `EventSource` sends the last id that it got; the stream goes on from there, and misses nothing.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

from fastapi import FastAPI, Header, HTTPException
from fastapi.responses import StreamingResponse
from pydantic import BaseModel

import penstock


class Order(BaseModel):
    city: str
    amount: float


def events(orders: penstock.Table, start: Any, timeout: str) -> Iterator[str]:
    """Give each batch of changes as an event; its id is the place after it."""
    with orders.changes(start=start, follow=True, timeout=timeout) as stream:
        for batch in stream:
            rows = batch.select(["_change_type", "id", "city", "amount"]).to_pylist()
            yield f"id: {stream.position}\ndata: {json.dumps(rows)}\n\n"


def make_app(conn: penstock.Connection) -> FastAPI:
    """Return the service over a connection."""
    orders = conn.create_table("orders", "id BIGINT, city STRING, amount DOUBLE, PRIMARY KEY (id)", if_not_exists=True)
    app = FastAPI(title="orders")

    @app.get("/orders/{id}")
    def get(id: int) -> dict[str, Any]:
        row = orders.get(id=id)
        if row is None:
            raise HTTPException(404, "no such order")
        return row

    @app.put("/orders/{id}")
    def put(id: int, order: Order) -> dict[str, int]:
        return {"changes": orders.upsert([{"id": id, **order.model_dump()}]).changes}

    @app.get("/changes")
    def changes(timeout: str = "1h", last_event_id: Annotated[str | None, Header()] = None) -> StreamingResponse:
        start = penstock.EARLIEST if last_event_id is None else last_event_id
        return StreamingResponse(events(orders, start, timeout), media_type="text/event-stream")

    return app


def from_environment() -> FastAPI:
    """Return the service over the server that PENSTOCK_URL names."""
    return make_app(penstock.connect(os.environ["PENSTOCK_URL"], token=os.environ.get("PENSTOCK_TOKEN")))


def main(directory: str) -> None:
    from fastapi.testclient import TestClient  # noqa: PLC0415 - the service itself needs no client

    with penstock.connect(Path(directory) / "data") as conn, TestClient(make_app(conn)) as client:
        client.put("/orders/1", json={"city": "Ulm", "amount": 9.5}).raise_for_status()
        print("order 1:", client.get("/orders/1").json())
        print("order 2:", client.get("/orders/2").status_code)
        print(client.get("/changes", params={"timeout": "200ms"}).text.splitlines()[1])


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(sys.argv[1])
    else:
        with tempfile.TemporaryDirectory() as directory:
            main(directory)
