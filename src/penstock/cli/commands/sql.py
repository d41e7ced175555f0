"""`penstock sql`: DuckDB over tables, each at one cut."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import pyarrow as pa
import typer

from penstock.cli.commands.access import open_connection
from penstock.cli.commands.query import Query, TableName
from penstock.cli.commands.sql_statement import answer_statement
from penstock.cli.terminal.options import Output, ReadOnly, Url
from penstock.cli.terminal.output import write_batches
from penstock.cli.terminal.words import examples
from penstock.errors import InvalidError, PenstockError
from penstock.runtime.packages import needs_extra

if TYPE_CHECKING:
    from penstock.client.connection import Connection

BATCH_ROWS: Final = 65_536

app = typer.Typer(rich_markup_mode="rich", add_completion=False)


@app.command(
    epilog=examples(
        'penstock sql "SELECT city, sum(amount) AS revenue FROM shop.orders GROUP BY city ORDER BY revenue DESC"',
        "penstock sql \"SELECT * FROM shop.orders o JOIN 'cities.csv' c USING (city)\" --output csv",
        'penstock sql "SHOW TABLES"',
        'penstock sql "DESCRIBE shop.orders"',
        "penstock sql --file report.sql --output parquet > report.parquet",
    )
)
def sql(
    context: typer.Context,
    query: Annotated[str | None, typer.Argument(metavar="SELECT", help="One SELECT, in DuckDB's SQL.")] = None,
    *,
    file: Annotated[str | None, typer.Option(metavar="FILE", help="Read the SELECT from a file; - is stdin.")] = None,
    output: Output = None,
    read_only: ReadOnly = False,
    url: Url = None,
) -> None:
    """Query tables with SQL, each at one consistent cut.

    The cuts of all tables named are taken before the first row is read; the rows stream through DuckDB in this
    process. Names are database.table; files work too. SHOW TABLES, SHOW DATABASES and DESCRIBE answer from the catalog.
    """
    if (query is None) == (file is None):
        raise InvalidError("give one SELECT, or --file")
    text = query if file is None else _read(file)
    duckdb = _duckdb()
    with open_connection(context, url, read_only=read_only) as connection, closing(_open(duckdb)) as database:
        answer = answer_statement(connection, text or "")
        if answer is not None:
            write_batches(output, answer.schema, answer.to_batches())
            return
        sources: list[TableAtCut] = []
        try:
            asked = Query.parse(database, text or "")
            sources += [TableAtCut(connection, name.path, asked) for name in asked.tables]
            for name, source in zip(asked.tables, sources, strict=True):
                _register(database, name, source)
            # Closed before the database is: it holds on to it.
            with closing(database.sql(asked.text).to_arrow_reader(BATCH_ROWS)) as reader:
                write_batches(output, reader.schema, _batches(reader, duckdb))
        except (duckdb.Error, _QueryError) as error:
            failure = next((source.failure for source in sources if source.failure), None)
            raise failure or InvalidError(f"duckdb refuses the query: {error}") from error


class _QueryError(Exception):
    """A query that failed while its rows were read."""


class TableAtCut:
    """A table at one cut, for DuckDB to read as often as a query needs it."""

    def __init__(self, connection: Connection, path: str, asked: Query) -> None:
        self._table = connection.table(path)
        # A count of rows names no column; one has to be read all the same.
        self._columns = asked.columns_of(self._table.schema.names) or self._table.schema.names[:1]
        self.name = f"penstock {path}"
        self.failure: PenstockError | None = None
        self._cut = self._table.cut()
        self._schema = pa.schema([self._table.schema.field(name) for name in self._columns])

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Hand DuckDB the rows; nothing is opened before it reads the first, for it often wants the schema only."""
        return pa.RecordBatchReader.from_batches(self._schema, self._rows()).__arrow_c_stream__(requested_schema)

    def _rows(self) -> Iterator[pa.RecordBatch]:
        try:
            with self._table.scan(self._columns, as_of=self._cut) as scan:
                for batch in scan:
                    yield batch.select(self._columns)
        except PenstockError as error:
            # On its way through DuckDB it would lose its kind.
            self.failure = error
            raise


def _register(database: Any, name: TableName, source: TableAtCut) -> None:
    database.register(source.name, source)
    if name.database is not None:
        database.execute(f"CREATE SCHEMA IF NOT EXISTS {_quoted(name.database)}")
    database.execute(f"CREATE VIEW {name.quoted} AS SELECT * FROM {_quoted(source.name)}")


def _batches(reader: Any, duckdb: Any) -> Iterator[pa.RecordBatch]:
    try:
        yield from reader
    except (pa.ArrowException, OSError, duckdb.Error) as error:
        raise _QueryError(str(error).splitlines()[0]) from error


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _open(duckdb: Any) -> Any:
    # A name means a table or a file, never a variable of this program.
    database = duckdb.connect(config={"python_enable_replacements": "false"})
    # An instant's day is that of UTC, as everywhere in Penstock, not that of this machine.
    database.execute("SET TimeZone = 'UTC'")
    return database


def _duckdb() -> Any:
    with needs_extra("sql", "duckdb", "sql"):
        import duckdb  # noqa: PLC0415
    return duckdb


def _read(file: str) -> str:
    return sys.stdin.read() if file == "-" else Path(file).read_text()
