"""The data source `penstock`: what Spark asks for, and the class that answers.

Filters and columns come as options or by `.schema(...)`, never through Spark's `pushFilters`: there one
mutable state serves every scan of a relation, and a second query would read under the filter of the first.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from penstock.client.scan.request import ScanSource
from penstock.errors import InvalidError, PenstockError
from penstock.spark.reading.read_request import ReadRequest, offered, source_of
from penstock.spark.session.links import planning_link
from penstock.spark.session.options import Options
from penstock.spark.session.spark_types import spark_schema

if TYPE_CHECKING:
    from collections.abc import MutableMapping


class PenstockDataSource(DataSource):
    """Tables of a Penstock server."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self._checked = _with_url(options)

    @classmethod
    def name(cls) -> str:
        """Return the format's name."""
        return "penstock"

    def schema(self) -> StructType:
        """Return the table's columns; of its log, with what a change adds."""
        link = planning_link(self._checked)
        info = link.retry.run(lambda: link.node.catalog.table(self._checked.table))
        source = source_of(self._checked)
        if source is ScanSource.LOG:
            from penstock.spark.sources.read_options import check_read_options  # noqa: PLC0415 - as below

            check_read_options(self._checked, link, info)
        return spark_schema(offered(info, source, self._checked.names("columns")))

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the planner and reader of a batch."""
        # Here, not above: every use of the source pays for its imports, in a fresh process each time.
        from penstock.spark.reading.batch_reader import BatchReader  # noqa: PLC0415
        from penstock.spark.reading.change_reader import ChangeReader  # noqa: PLC0415
        from penstock.spark.reading.snapshot_reader import SnapshotReader  # noqa: PLC0415

        request = ReadRequest.of(self._checked, planning_link(self._checked), schema)
        if request.source is ScanSource.LOG:
            return ChangeReader(request)
        return SnapshotReader(request) if request.source is ScanSource.SNAPSHOT else BatchReader(request)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """Return the planner and reader of micro-batches."""
        from penstock.spark.streaming.stream_reader import RefusedStream, StreamReader  # noqa: PLC0415

        try:
            return StreamReader(self._checked, schema)
        except PenstockError as error:
            return RefusedStream(error)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Return the writer of a batch."""
        from penstock.spark.writing.batch_writer import BatchWriter  # noqa: PLC0415

        return BatchWriter(self._checked, schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802 - Spark's name
        """Return the writer of micro-batches."""
        from penstock.spark.writing.stream_writer import StreamWriter  # noqa: PLC0415

        return StreamWriter(self._checked, schema, overwrite)


def _with_url(given: Mapping[str, Any]) -> Options:
    """Return the options with the server's url: executors do not have the driver's environment."""
    if not given or "provider" in given:
        raise InvalidError(
            "name the server and the table by the options url and table. Spark's own catalog keeps none for its "
            "tables: use CREATE TEMP VIEW ... USING penstock or pks.views, and create tables by pks.create_table"
        )
    options = Options(given)
    return Options(options.for_spark() | {"url": options.url})
