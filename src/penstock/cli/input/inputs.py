"""Files of rows, and stdin, in any format, as blocks that fit a table.

The format is what the name ends in, or what is said. Text may be compressed with gzip (`.csv.gz`).
"""

from __future__ import annotations

import gzip
import io
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO, Final, cast

import pyarrow as pa
import pyarrow.parquet

from penstock.cli.input.bad_rows import BadRows
from penstock.cli.input.csv_file import read_csv
from penstock.cli.input.csv_rows import read_csv_rows
from penstock.cli.input.input_block import InputBlock
from penstock.cli.input.json_rows import Arrange, read_json
from penstock.cli.input.opened_text import opened_text
from penstock.cli.input.row_shapes import same_shapes
from penstock.cli.input.text_values import dates_as_timestamps
from penstock.cli.terminal.options import InputFormat
from penstock.errors import InvalidError, NotFoundError, SchemaMismatchError

STDIN: Final = "-"
BLOCK_ROWS: Final = 10_000
BLOCK_BYTES: Final = 4 << 20
_ENDINGS: Final = {
    ".csv": InputFormat.CSV,
    ".tsv": InputFormat.CSV,
    ".json": InputFormat.JSON,
    ".jsonl": InputFormat.NDJSON,
    ".ndjson": InputFormat.NDJSON,
    ".parquet": InputFormat.PARQUET,
    ".pq": InputFormat.PARQUET,
    ".arrow": InputFormat.ARROW,
    ".arrows": InputFormat.ARROW,
    ".feather": InputFormat.ARROW,
    ".ipc": InputFormat.ARROW,
}
_FILE_MAGIC: Final = b"ARROW1"


class InputFile:
    """A file to read rows from; it is looked at before anything is written."""

    def __init__(self, name: str, given: InputFormat | None, delimiter: str | None = None) -> None:
        self._given_delimiter = delimiter
        self.name = "stdin" if name == STDIN else name
        self._path = None if name == STDIN else Path(name)
        self.format = given or _guess(name)
        self.size = 0
        if self._path is not None:
            if not self._path.is_file():
                raise NotFoundError("no such file", file=name)
            self.size = self._path.stat().st_size
        self._stream: BinaryIO | None = None

    @property
    def position(self) -> int:
        """Return how many bytes of the file were read so far."""
        if self._stream is None or self._path is None:
            return 0
        return self.size if self._stream.closed else self._stream.tell()

    @property
    def uniform(self) -> bool:
        """Tell whether all rows have the same columns: those of a heading or a schema."""
        return self.format not in (InputFormat.JSON, InputFormat.NDJSON)

    def blocks(
        self,
        schema: pa.Schema,
        arrange: Arrange = same_shapes,
        bad: BadRows | None = None,
        *,
        keyed: bool = True,
    ) -> Iterator[InputBlock]:
        """Yield the rows, towards the types of a table; `arrange` cuts rows of JSON into pieces of the same names.

        Rows that are wrong are given to `bad`, if there is one; in a `keyed` table a row without values is none.

        Raises:
            SchemaMismatchError: the file is not of its format, or a value does not fit; names the place.
        """
        with ExitStack() as stack:
            if self._path is None:
                self._stream = sys.stdin.buffer
            else:
                self._stream = stack.enter_context(self._path.open("rb"))
            match self.format:
                case InputFormat.CSV:
                    text = opened_text(self._plain(), self.name)
                    if text is None or not text.peek().strip():
                        raise SchemaMismatchError("the csv is empty; its first line names the columns", file=self.name)
                    if bad is None:
                        yield from read_csv(text, schema, self.name, self._delimiter)
                    else:
                        yield from read_csv_rows(text, schema, self.name, self._delimiter, bad, keyed=keyed)
                case InputFormat.JSON | InputFormat.NDJSON:
                    text = opened_text(self._plain(), self.name)
                    if text is not None:
                        yield from read_json(text, schema, self.name, arrange, bad)
                case InputFormat.PARQUET:
                    yield from self._read_arrow(_parquet_batches(_seekable(self._stream, stack)), schema)
                case InputFormat.ARROW:
                    yield from self._read_arrow(_arrow_batches(self._stream, stack), schema)

    @property
    def _delimiter(self) -> str:
        if self._given_delimiter is not None:
            return self._given_delimiter
        return "\t" if self.name.removesuffix(".gz").endswith(".tsv") else ","

    def _plain(self) -> BinaryIO:
        assert self._stream is not None, "the file was opened"
        if not self.name.endswith(".gz"):
            return self._stream
        return cast(BinaryIO, gzip.GzipFile(fileobj=self._stream))

    def _read_arrow(self, batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> Iterator[InputBlock]:
        first = 1
        try:
            for read in batches:
                batch = dates_as_timestamps(read, schema)
                rows = max(1, min(BLOCK_ROWS, BLOCK_BYTES * batch.num_rows // max(1, batch.nbytes)))
                for start in range(0, batch.num_rows, rows):
                    part = batch.slice(start, rows)
                    numbers = range(first, first + part.num_rows)
                    yield InputBlock(part, part.num_rows, self.name, "row", numbers)
                    first += part.num_rows
        except pa.ArrowException as error:
            reason = str(error).splitlines()[0]
            raise SchemaMismatchError(f"not a readable {self.format} file", file=self.name, reason=reason) from error


def _guess(name: str) -> InputFormat:
    if name == STDIN:
        raise InvalidError(f"say what stdin holds: --format {'|'.join(InputFormat)}")
    found = _ENDINGS.get(Path(name.removesuffix(".gz")).suffix.lower())
    if found is None:
        raise InvalidError(f"the name does not say what {name} holds: --format {'|'.join(InputFormat)}")
    return found


def _parquet_batches(stream: BinaryIO) -> Iterator[pa.RecordBatch]:
    yield from pyarrow.parquet.ParquetFile(stream).iter_batches(batch_size=BLOCK_ROWS)


def _arrow_batches(stream: BinaryIO, stack: ExitStack) -> Iterator[pa.RecordBatch]:
    if _opening(stream) != _FILE_MAGIC:
        yield from pa.ipc.open_stream(stream)
        return
    reader = pa.ipc.open_file(_seekable(stream, stack))
    for index in range(reader.num_record_batches):
        yield reader.get_batch(index)


def _opening(stream: BinaryIO) -> bytes:
    if not stream.seekable():
        return bytes(cast(io.BufferedReader, stream).peek(len(_FILE_MAGIC))[: len(_FILE_MAGIC)])
    opening = stream.read(len(_FILE_MAGIC))
    stream.seek(-len(opening), io.SEEK_CUR)
    return opening


def _seekable(stream: BinaryIO, stack: ExitStack) -> BinaryIO:
    # These formats begin at their end, and a pipe has none until it was read.
    if stream.seekable():
        return stream
    whole = stack.enter_context(tempfile.TemporaryFile())  # noqa: SIM115 - the stack closes it
    shutil.copyfileobj(stream, whole)
    whole.seek(0)
    return cast(BinaryIO, whole)
