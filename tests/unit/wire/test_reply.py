"""Replies whose batches travel beside them, as data of their own."""

from __future__ import annotations

import struct

import pyarrow as pa
import pytest

from penstock.errors import InvalidError, LimitError, UnsupportedError
from penstock.model.node.calls import Page
from penstock.wire.body import check_attached
from penstock.wire.calls import LIST_DATABASES, NEXT_PAGE
from penstock.wire.frame import HEADER_BYTES_MAX, PROTOCOL_VERSION, FrameKind, decode_frame, encode_frame
from penstock.wire.reply import DataSchema, Reply, count_data, is_last

ROWS = 10_000
BATCH = pa.record_batch({"id": list(range(ROWS)), "note": [f"note {n}" for n in range(ROWS)]})
SMALL = BATCH.slice(0, 3)


def page(*batches: pa.RecordBatch) -> Page:
    return Page("s-1", 9, batches, True, 12, b"token", inner_ends=tuple(range(len(batches) - 1)))


def varint(number: int) -> int:
    return len(bin(number)[2:]) // 7 + (len(bin(number)[2:]) % 7 > 0)


def place_of_columns(batch: pa.RecordBatch, metadata: pa.Buffer) -> int:
    """Return where in a Flight message the columns of a batch begin."""
    message = pa.ipc.read_message(batch.serialize())
    header, body = message.metadata.size, message.body.size
    return 1 + varint(header) + header + 1 + varint(metadata.size) + metadata.size + 2 + varint(body)


def test_batches_beside_a_reply_read_back_as_the_reply_had_them() -> None:
    reply = NEXT_PAGE.encode_reply(5, page(BATCH, SMALL))
    messages = list(DataSchema(BATCH).messages(reply))

    assert [batch for batch, _ in messages] == [BATCH, SMALL]
    assert [is_last(metadata) for _, metadata in messages] == [False, True]
    assert NEXT_PAGE.decode_reply(5, messages[-1][1], [BATCH, SMALL]) == page(BATCH, SMALL)


@pytest.mark.parametrize("columns", [["id"], ["id", "note"], ["note"]])
@pytest.mark.parametrize("rows", [2_500, 4_000, 9_999])
@pytest.mark.parametrize("word", ["", "x", "four", "eleven letters", "y" * 200])
def test_columns_of_a_large_batch_lie_at_words_on_arrival(columns: list[str], rows: int, word: str) -> None:
    batch = BATCH.select(columns).slice(0, rows)
    reply = Reply(FrameKind.REPLY, {"word": word}, [batch, batch])

    places = [place_of_columns(*message) % 8 for message in DataSchema(batch).messages(reply)]

    assert places == [0, 0]


def test_only_replies_of_the_schema_of_the_first_fit() -> None:
    data = DataSchema(BATCH)

    assert data.fits(Reply(FrameKind.REPLY, {}, [SMALL, BATCH]))
    assert not data.fits(Reply(FrameKind.REPLY, {}, [BATCH, BATCH.select(["id"])]))
    assert not data.fits(Reply(FrameKind.REPLY, {}, [BATCH.rename_columns(["id", "other"])]))
    assert not data.fits(Reply(FrameKind.REPLY, {}, [BATCH.replace_schema_metadata({"a": "b"})]))


def test_reply_with_other_batches_than_it_counts_is_refused() -> None:
    (_, blank), (_, last) = DataSchema(BATCH).messages(NEXT_PAGE.encode_reply(5, page(BATCH, SMALL)))

    assert not is_last(blank)
    for attached in ([], [BATCH], [BATCH, BATCH, BATCH]):
        with pytest.raises(InvalidError, match="lacks batches, or has too many"):
            NEXT_PAGE.decode_reply(5, last, attached)
    with pytest.raises(InvalidError, match="lacks batches, or has too many"):
        NEXT_PAGE.decode_reply(5, NEXT_PAGE.encode_reply(5, page(BATCH)).frame(), [BATCH])
    with pytest.raises(InvalidError, match="lacks batches, or has too many"):
        LIST_DATABASES.decode_reply(5, LIST_DATABASES.encode_reply(5, ["shop"]).frame(), [BATCH])


def test_count_of_batches_leaves_the_header() -> None:
    header = decode_frame(encode_frame(FrameKind.REPLY, {"id": 1, "data": 3})).header

    assert (count_data(header), header) == (3, {"id": 1})
    assert count_data(header) == 0


@pytest.mark.parametrize("metadata", [None, b"", b" ", b"    "])
def test_blank_metadata_ends_no_reply(metadata: bytes | None) -> None:
    assert not is_last(None if metadata is None else pa.py_buffer(metadata))


def test_header_beside_batches_is_limited_too() -> None:
    reply = Reply(FrameKind.REPLY, {"word": "x" * HEADER_BYTES_MAX}, [SMALL])

    with pytest.raises(LimitError, match="too large"):
        list(DataSchema(SMALL).messages(reply))


@pytest.mark.parametrize("shift", range(8))
def test_columns_that_lie_elsewhere_are_moved_to_words(shift: int) -> None:
    stream = SMALL.serialize().to_pybytes()
    shifted = pa.py_buffer(b" " * shift + stream).slice(shift)
    batch = check_attached(pa.ipc.read_record_batch(shifted, SMALL.schema))

    assert batch == SMALL
    for column in batch.columns:
        assert all(buffer is None or buffer.address % 8 == 0 for buffer in column.buffers())


def test_attached_batch_that_is_none_is_refused() -> None:
    batch = BATCH.select(["id"]).slice(0, 77)
    longer = batch.serialize().to_pybytes().replace(struct.pack("<q", 77), struct.pack("<q", 7_777), 2)

    with pytest.raises(InvalidError, match="not valid arrow data"):
        check_attached(pa.ipc.read_record_batch(pa.py_buffer(longer), batch.schema))


@pytest.mark.parametrize("version", [1, PROTOCOL_VERSION + 1])
def test_end_that_speaks_another_protocol_is_named(version: int) -> None:
    ours = NEXT_PAGE.encode_reply(5, page(SMALL)).frame().to_pybytes()
    # The version is the byte after the two that say what this is.
    theirs = pa.py_buffer(ours[:2] + bytes([version]) + ours[3:])

    with pytest.raises(UnsupportedError, match=f"upgrade the older one protocol={version} known={PROTOCOL_VERSION}"):
        NEXT_PAGE.decode_reply(5, theirs)
