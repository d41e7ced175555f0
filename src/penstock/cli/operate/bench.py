"""`penstock bench`: how fast this machine, or that server, is at the plain things."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any, Final

import numpy as np
import pyarrow as pa
import typer

from penstock.cli.commands.access import URL_VARIABLE, Access, open_connection
from penstock.cli.terminal.options import Output, Url
from penstock.cli.terminal.output import write_records
from penstock.cli.terminal.words import examples, say
from penstock.client.connection import Connection, connect
from penstock.client.table import Table
from penstock.errors import NotFoundError

SEED: Final = 1
SOURCE_TREE: Final = Path(__file__).parents[3]
LOOKUPS: Final = 10_000
FIGURES: Final = pa.schema(
    [("work", pa.string()), ("rows", pa.int64()), ("seconds", pa.float64()), ("rows_per_s", pa.int64())]
)

app = typer.Typer(rich_markup_mode="rich", add_completion=False)


@app.command(
    epilog=examples(
        "penstock bench",
        "penstock bench --rows 5000000",
        "penstock bench --url penstock://127.0.0.1:9123 --output json",
        "penstock bench --peers --rows 100000",
    )
)
def bench(
    context: typer.Context,
    *,
    rows: Annotated[int, typer.Option(min=1_000, help="How many rows the table has.")] = 500_000,
    batch_rows: Annotated[int, typer.Option(min=1, help="How many rows a call writes.")] = 20_000,
    buckets: Annotated[int, typer.Option(min=1, help="How many buckets the table has.")] = 1,
    peers: Annotated[bool, typer.Option("--peers", help="Run all jobs beside other systems, as `make bench`.")] = False,
    output: Output = None,
    url: Url = None,
) -> None:
    """Measure inserts, updates, scans, lookups and changes.

    Writes a table of five columns and drops it again: on the server, or in the directory, that --url or PENSTOCK_URL
    names, else in a temporary directory. With --peers, runs the harness of the source tree instead: every job beside
    PostgreSQL, Redis, DuckDB, SQLite and more, those that are on this machine.
    """
    if peers:
        sizes = {"rows": rows, "batch_rows": batch_rows}
        # What was not asked for is the harness's to choose: it does far more with each row.
        asked = {name: size for name, size in sizes.items() if _was_asked(context, name)}
        raise typer.Exit(run_beside_peers(asked, SOURCE_TREE))
    with ExitStack() as stack:
        connection = _connection(stack, context, url)
        path = f"default.bench_{uuid.uuid4().hex[:12]}"
        ddl = "id BIGINT, city STRING, amount DOUBLE, day DATE, note STRING, PRIMARY KEY (id)"
        table = connection.create_table(path, ddl, buckets=buckets)
        stack.callback(connection.drop_table, path)
        write_records(output, FIGURES, list(measure(table, rows, batch_rows)))


def run_beside_peers(sizes: Mapping[str, int], tree: Path) -> int:
    """Run the benchmarks of the source tree; return their exit code.

    Raises:
        NotFoundError: this is an installed package without the source tree.
    """
    if not (tree / "bench" / "__main__.py").exists():
        raise NotFoundError("the benchmarks are in the source tree only; clone it and run `make bench`", looked_in=tree)
    options = [f"--{name.replace('_', '-')}={size}" for name, size in sizes.items()]
    return subprocess.run([sys.executable, "-m", "bench", "--quick", *options], cwd=tree, check=False).returncode


def _was_asked(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def measure(table: Table, rows: int, batch_rows: int) -> Iterator[dict[str, Any]]:
    """Yield the figures of each kind of work, in the order in which they are done."""
    random = np.random.default_rng(SEED)
    shuffled = random.permutation(rows)
    keys = {"id": random.integers(0, rows, LOOKUPS)}
    inserts = [_orders(np.arange(at, min(at + batch_rows, rows))) for at in range(0, rows, batch_rows)]
    updates = [_orders(shuffled[at : at + batch_rows]) for at in range(0, rows, batch_rows)]
    yield _timed("insert", rows, lambda: [table.upsert(batch) for batch in inserts])
    yield _timed("update in random order", rows, lambda: [table.upsert(batch) for batch in updates])
    yield _timed("scan", rows, lambda: [batch.num_rows for batch in table.scan()])
    yield _timed("scan of one column", rows, lambda: [batch.num_rows for batch in table.scan(columns=["amount"])])
    yield _timed("lookup", LOOKUPS, lambda: table.lookup(keys))
    yield _timed("changes", 3 * rows, lambda: [batch.num_rows for batch in table.changes()])


def _connection(stack: ExitStack, context: typer.Context, url: str | None) -> Connection:
    named = url or (context.find_object(Access) or Access()).url or os.environ.get(URL_VARIABLE)
    if not named:
        directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="penstock-bench-"))
        return stack.enter_context(connect(directory))
    return stack.enter_context(open_connection(context, url))


def _orders(ids: np.ndarray[Any, np.dtype[np.int64]]) -> pa.Table:
    cities = pa.array([f"city {number}" for number in range(100)])
    return pa.table(
        {
            "id": ids,
            "city": cities.take(pa.array(ids % 100)),
            "amount": ids * 0.25,
            "day": pa.array((ids % 365).astype(np.int32)).cast(pa.date32()),
            "note": cities.take(pa.array(ids % 7)),
        }
    )


def _timed(work: str, rows: int, run: Callable[[], object]) -> dict[str, Any]:
    say(f"{work} ...")
    began = time.perf_counter()
    run()
    seconds = time.perf_counter() - began
    return {"work": work, "rows": rows, "seconds": round(seconds, 3), "rows_per_s": round(rows / seconds)}
