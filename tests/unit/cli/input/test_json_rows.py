"""JSON lines, as they come, and arrays, whole."""

from __future__ import annotations

import io
import time

import pyarrow as pa
import pytest

from penstock.cli.input.json_rows import BLOCK_BYTES, BLOCK_ROWS, read_json
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

    blocks = [(block.data["id"], list(block.numbers)) for block in read_json(pipe, SCHEMA, "stdin")]

    assert blocks == [([1], [1]), ([2], [2]), ([3], [4])]


def test_numbers_of_lines_go_on_over_blocks() -> None:
    line = b'{"id": 1}' + b" " * 91
    text = b"\n".join([line] * (3 * BLOCK_BYTES // 100)) + b"\nbad\n"

    with pytest.raises(SchemaMismatchError, match=f"line={text.count(b'{') + 1} "):
        list(read_json(io.BytesIO(text), SCHEMA, "rows"))


def test_rows_of_a_block_have_the_same_names() -> None:
    text = b'{"id": 1}\n{"id": 2}\n{"id": 3, "note": "x"}\n{"note": "y", "id": 4}\n{"id": 5}\n'

    blocks = [(block.data, list(block.numbers)) for block in read_json(io.BytesIO(text), SCHEMA, "rows")]

    assert blocks == [({"id": [1, 2]}, [1, 2]), ({"id": [3, 4], "note": ["x", "y"]}, [3, 4]), ({"id": [5]}, [5])]


@pytest.mark.parametrize(
    "text",
    [
        b'[{"id": 1, "note": null}, {"id": 2, "note": "x"}]',
        b'\n\n [\n{"id": 1, "note": null},\n{"note": "x", "id": 2}\n]\n',
    ],
)
def test_array_is_rows(text: bytes) -> None:
    pipe = io.BufferedReader(Trickle(*(text[i : i + 1] for i in range(len(text)))))

    (block,) = read_json(pipe, SCHEMA, "rows")

    assert block.data == {"id": [1, 2], "note": [None, "x"]}
    assert (block.rows, block.unit, list(block.numbers)) == (2, "row", [1, 2])


def test_array_on_one_line_is_read_in_time_that_grows_with_it() -> None:
    text = b'[{"id": 1},' + b" " * (8 << 20) + b'{"id": 2}]'
    pipe = io.BufferedReader(Trickle(*(text[start : start + 512] for start in range(0, len(text), 512))), 512)
    began = time.process_time()

    (block,) = read_json(pipe, SCHEMA, "stdin")

    assert block.data["id"] == [1, 2]
    # Seconds, where what was read so far was copied for every piece.
    assert time.process_time() - began < 2


def test_array_of_many_rows_is_some_blocks() -> None:
    text = b"[" + b",".join(b'{"id": %d}' % n for n in range(BLOCK_ROWS + 1)) + b"]"

    blocks = list(read_json(io.BytesIO(text), SCHEMA, "rows"))

    assert [n for block in blocks for n in block.data["id"]] == list(range(BLOCK_ROWS + 1))
    assert blocks[1].numbers == range(BLOCK_ROWS + 1, BLOCK_ROWS + 2)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            b'[{"id": 1},\n{"id": 2}\n{"id": 3}]',
            r"nothing of it was written file=rows line=3 .*Expecting ',' delimiter",
        ),
        (b'[{"id": 1},\n{"id"', "line=2 "),
        (b'[{"id": 1}]\n{"id": 2}', "line=2 .*Extra data"),
        (b'[{"id": 1}, 7]', "no json object file=rows row=2"),
        (b'[{"id": 1}, {"id": "\xff"}]', "no json; .*utf-8"),
        (b"[" * 200_000, "no json; "),
        (b'{"a":' * 200_000, "the line is no json file=rows line=1"),
        (b'{"id": 1}\n[{"id": 1}]', "no json object file=rows line=2"),
    ],
    ids=["comma", "cut", "extra", "number", "bytes", "depth", "line depth", "array in lines"],
)
def test_place_in_bad_json_is_named(text: bytes, told: str) -> None:
    with pytest.raises(SchemaMismatchError, match=told):
        list(read_json(io.BytesIO(text), SCHEMA, "rows"))


@pytest.mark.parametrize("text", [b"", b"\n \n", b"[]", b" [ ] "])
def test_no_rows_are_no_blocks(text: bytes) -> None:
    assert list(read_json(io.BytesIO(text), SCHEMA, "rows")) == []
