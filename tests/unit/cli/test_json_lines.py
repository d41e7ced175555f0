"""JSON lines, as they come."""

from __future__ import annotations

import io

import pyarrow as pa
import pytest

from penstock.cli.json_lines import BLOCK_BYTES, read_json_lines
from penstock.errors import SchemaMismatchError

SCHEMA = pa.schema([("id", pa.int64())])


class Trickle(io.RawIOBase):
    """A pipe whose writer writes a piece at a time."""

    def __init__(self, *pieces: bytes) -> None:
        self._pieces = list(pieces)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        piece = self._pieces.pop(0) if self._pieces else b""
        buffer[: len(piece)] = piece
        return len(piece)


def test_lines_are_handed_on_as_soon_as_they_are_whole() -> None:
    pipe = io.BufferedReader(Trickle(b'{"id": 1}\n{"i', b'd": 2}\n', b'\n{"id": 3}'))

    blocks = [(block.data["id"], list(block.numbers)) for block in read_json_lines(pipe, SCHEMA, "stdin")]

    assert blocks == [([1], [1]), ([2], [2]), ([3], [4])]


def test_numbers_of_lines_go_on_over_blocks() -> None:
    line = b'{"id": 1}' + b" " * 91
    text = b"\n".join([line] * (3 * BLOCK_BYTES // 100)) + b"\nbad\n"

    with pytest.raises(SchemaMismatchError, match=f"line={text.count(b'{') + 1} "):
        list(read_json_lines(io.BytesIO(text), SCHEMA, "rows"))


def test_name_that_some_lines_lack_is_null_there() -> None:
    (block,) = read_json_lines(io.BytesIO(b'{"id": 1}\n{"note": "x"}\n'), SCHEMA, "rows")

    assert block.data == {"id": [1, None], "note": [None, "x"]}
