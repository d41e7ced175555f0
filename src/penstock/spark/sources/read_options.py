"""The options of a read, checked before Spark starts anything: what it says of an error in a reader hides the cause."""

from __future__ import annotations

from penstock.client.link.link import Link
from penstock.client.scan.request import compile_filter
from penstock.model.table.table import TableInfo
from penstock.spark.reading.change_reader import images_of, parse_start
from penstock.spark.reading.read_cut import as_of_offsets
from penstock.spark.reading.read_request import offered, source_of
from penstock.spark.session.options import Options
from penstock.spark.streaming.stream_limit import StreamLimit
from penstock.spark.streaming.stream_plan import SNAPSHOT


def check_read_options(options: Options, link: Link, info: TableInfo) -> None:
    """Refuse options that no read of the table could follow.

    Raises:
        InvalidError: one is not understood, or names what the table does not have.
    """
    offered(info, source_of(options), options.names("columns"))
    compile_filter(options.get("filter"), info.schema)
    for text in filter(None, (options.get("as_of"), options.get("end"))):
        as_of_offsets(link, info, text)
    for text in filter(None, (options.get("start"), options.get("starting"))):
        if text.lstrip().startswith("{"):
            as_of_offsets(link, info, text)
        elif text.strip().lower() != SNAPSHOT:
            parse_start(text)
    images_of(options)
    StreamLimit(options)
    options.count("split_rows")
    options.flag("fail_on_data_loss")
    options.duration_ms("retain")
