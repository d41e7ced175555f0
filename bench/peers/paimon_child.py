"""The side of Paimon's peer that runs in its own Python: imports nothing of ours."""

from __future__ import annotations

import json
import sys
from typing import Any

import pyarrow as pa
from pypaimon import CatalogFactory, Schema

SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("city", pa.string()),
        pa.field("amount", pa.float64()),
        pa.field("items", pa.int64()),
        pa.field("at", pa.timestamp("us")),
    ]
)


class Tables:
    """The catalog and its present table."""

    def __init__(self, directory: str) -> None:
        self._catalog = CatalogFactory.create({"warehouse": directory + "/paimon"})
        self._catalog.create_database("bench", True)
        self._number = 0
        self._table: Any = None

    def create(self) -> bytes:
        """Make a new table."""
        self._number += 1
        name = f"bench.t{self._number}"
        options = {"bucket": "1"}
        schema = Schema.from_pyarrow_schema(SCHEMA, primary_keys=["id"], options=options)
        self._catalog.create_table(name, schema, False)
        self._table = self._catalog.get_table(name)
        return b""

    def upsert(self, body: bytes) -> bytes:
        """Write the rows and commit."""
        rows = pa.ipc.open_stream(body).read_all().cast(SCHEMA)
        builder = self._table.new_batch_write_builder()
        write, commit = builder.new_write(), builder.new_commit()
        write.write_arrow(rows)
        commit.commit(write.prepare_commit())
        write.close()
        commit.close()
        return b""

    def scan(self, columns: list[str], items: int | None) -> bytes:
        """Read the rows."""
        builder = self._table.new_read_builder()
        if items is not None:
            builder = builder.with_filter(builder.new_predicate_builder().equal("items", items))
        builder = builder.with_projection(columns)
        rows = builder.new_read().to_arrow(builder.new_scan().plan().splits())
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, rows.schema) as writer:
            writer.write_table(rows)
        return bytes(sink.getvalue())


def main() -> None:
    """Answer requests until the pipe ends."""
    # Libraries may print: only answers go to the pipe.
    pipe, sys.stdout = sys.stdout.buffer, sys.stderr
    tables = Tables(sys.argv[1])
    while line := sys.stdin.buffer.readline():
        request = json.loads(line)
        body = sys.stdin.buffer.read(request["bytes"])
        if request["do"] == "create":
            answer = tables.create()
        elif request["do"] == "upsert":
            answer = tables.upsert(body)
        else:
            answer = tables.scan(request["columns"], request["items"])
        pipe.write(json.dumps({"bytes": len(answer)}).encode() + b"\n" + answer)
        pipe.flush()


if __name__ == "__main__":
    main()
