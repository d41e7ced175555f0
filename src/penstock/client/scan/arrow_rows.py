"""Rows that any library takes: what scans, change streams and tables have in common when they are handed over whole."""

from __future__ import annotations

import importlib
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, Final

import pyarrow as pa

from penstock.errors import UnsupportedError
from penstock.runtime.packages import needs_extra

_CALLERS_MAX: Final = 8
"""How far up polars calls from its `from_arrow`."""


class ArrowRows(ABC):
    """Rows as record batches of one schema. A library that reads Arrow streams takes the object as it is."""

    @property
    @abstractmethod
    def schema(self) -> pa.Schema:
        """Return the schema of the batches."""

    @abstractmethod
    def _all_rows(self) -> Iterable[pa.RecordBatch]:
        """Return the batches for a reader of all of them; nothing is read before the first is asked for."""

    def to_arrow(self) -> pa.Table:
        """Return the rows as a table."""
        return pa.Table.from_batches(self._all_rows(), schema=self.schema)

    def to_pandas(self) -> Any:
        """Return the rows as a pandas DataFrame."""
        with needs_extra("to_pandas", "pandas", "pandas"):
            importlib.import_module("pandas")
        return self.to_arrow().to_pandas()

    def to_polars(self) -> Any:
        """Return the rows as a polars DataFrame."""
        with needs_extra("to_polars", "polars", "polars"):
            polars = importlib.import_module("polars")
        return polars.from_arrow(self.to_arrow())

    def to_duckdb(self, connection: Any = None) -> Any:
        """Return the rows as a DuckDB relation, in a DuckDB connection if one is given."""
        if connection is None:
            with needs_extra("to_duckdb", "duckdb", "sql"):
                connection = importlib.import_module("duckdb")
        return connection.from_arrow(self.to_arrow())

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Hand the rows to any library that takes Arrow streams.

        Raises:
            UnsupportedError: `polars.from_arrow` asks, which makes one column of structs of a stream.
        """
        _refuse_structs()
        reader = pa.RecordBatchReader.from_batches(self.schema, self._all_rows())
        return reader.__arrow_c_stream__(requested_schema)


def _refuse_structs() -> None:
    frame = sys._getframe(2)
    for _ in range(_CALLERS_MAX):
        if frame.f_code.co_name == "from_arrow" and frame.f_globals.get("__name__", "").startswith("polars."):
            raise UnsupportedError(
                "polars.from_arrow makes one column of structs of a stream; "
                "take polars.DataFrame(rows), or rows.to_polars()"
            )
        if frame.f_back is None:
            return
        frame = frame.f_back
