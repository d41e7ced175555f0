"""The options of a write, from the arguments of the functions that write."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from penstock.model.words.names import name_list
from penstock.spark.session.option_use import check_use
from penstock.spark.session.options import Options


def write_options(
    url: str | None,
    table: str,
    *,
    operation: str | None,
    columns: Iterable[str] | None,
    agg_mode: str | None,
    order_by: str | Iterable[str] | None,
    others: Mapping[str, Any],
) -> Options:
    """Return the options, with the server's url: executors do not have the driver's environment.

    Raises:
        InvalidError: an option is unknown or of another use, or no server is named.
    """
    given = {
        "url": url,
        "table": table,
        "operation": operation,
        "columns": None if columns is None else name_list(columns),
        "agg_mode": agg_mode,
        "order_by": order_by if order_by is None or isinstance(order_by, str) else list(order_by),
    }
    checked = check_use(Options(given | dict(others)), "write")
    return Options(checked.for_spark() | {"url": checked.url})
