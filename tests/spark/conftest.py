"""One Spark for all tests, and a served Penstock for each module."""

from __future__ import annotations

import os
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pyspark
import pytest
from pyspark.sql import SparkSession

import penstock
import penstock.spark as pks
from penstock.spark.session.java import use_java
from penstock.testing.server import server

SOURCE = Path(__file__).parents[2] / "src"
QUIET = """
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n
"""


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Return a local Spark that retries tasks, as a cluster does."""
    home = tmp_path_factory.mktemp("spark")
    (home / "log4j2.properties").write_text(QUIET)
    use_java()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(SOURCE), os.environ.get("PYTHONPATH"))))
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    session = (
        SparkSession.builder.master("local[2,4]")
        .appName("penstock-tests")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.warehouse.dir", str(home / "warehouse"))
        .config("spark.local.dir", str(home / "local"))
        .config("spark.driver.memory", "1g")
        .config("spark.driver.extraJavaOptions", f"-Dlog4j2.configurationFile={home / 'log4j2.properties'}")
        .config(
            "spark.sql.streaming.checkpointFileManagerClass",
            "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager",
        )
        .getOrCreate()
    )
    yield session
    session.stop()


@pytest.fixture
def new_session(spark: SparkSession) -> SparkSession:
    """Return a session of its own.

    Spark looks for its own jar under a URL's spelling of the path. Where that differs, in a clone whose folder has
    a space or an umlaut, Spark finds no format by itself, in any session.
    """
    session = spark.newSession()
    if quote(pyspark.__file__) != pyspark.__file__:
        pks.register(session)
    return session


@pytest.fixture
def by_tasks(spark: SparkSession) -> Iterator[None]:
    """Let tasks write also what is little enough for the driver."""
    spark.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")
    yield
    spark.conf.unset("spark.sql.autoBroadcastJoinThreshold")


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """Return the url of a server that lasts as long as the module's tests."""
    with server() as running:
        yield running.url


@pytest.fixture(scope="module")
def connection(url: str) -> Iterator[penstock.Connection]:
    """Return a connection to the module's server, which has the database `shop`."""
    with penstock.connect(url) as made:
        made.create_database("shop", if_not_exists=True)
        yield made


@pytest.fixture
def path() -> str:
    """Return the path of a table that no other test uses."""
    return f"shop.t_{uuid.uuid4().hex[:8]}"


@pytest.fixture
def orders(connection: penstock.Connection, path: str) -> penstock.Table:
    """Return a table of a thousand orders in two buckets, some of them updated and deleted."""
    table = connection.create_table(path, "id BIGINT, city STRING, amount DOUBLE, PRIMARY KEY (id)", buckets=2)
    table.upsert([{"id": number, "city": f"c{number % 7}", "amount": number * 0.5} for number in range(1000)])
    table.upsert([{"id": number, "city": "moved", "amount": None} for number in range(0, 1000, 50)])
    table.delete([{"id": number} for number in range(0, 1000, 100)])
    return table
