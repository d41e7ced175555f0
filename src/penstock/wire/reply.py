"""A reply on its way out: as one frame, or its header beside its batches as the transport's own data.

A frame copies the batches that it carries. As data they travel from where they lie, but all data of
one stream is of one schema: that of the first reply sent so. Whatever does not fit goes as a frame.

A reply as data is a message per batch. The last one's metadata is the reply's header frame, which
counts the batches (`data`); that of the others is a mark that tells whether the scan goes on after
this page, so that a reader that wants the next one need not wait for the rest of this. Blanks fill the
metadata up, so that the columns of a large batch lie at words once the transport has put it down.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import pyarrow as pa

from penstock.wire.frame import HEAD_BYTES, WORD_BYTES, FrameKind, encode_frame, encode_header, frame_of

BLANK: Final = 0x20
GOES_ON: Final = 0x2B
# A message up to this size is part of what the transport read at once, and comes to lie anywhere.
_SMALL_BYTES: Final = 1 << 14
_BLANK_BYTE: Final = bytes([BLANK])
_GOES_ON_BYTE: Final = bytes([GOES_ON])
_DATA: Final = "data"


class Reply:
    """What is answered to one request; `scanner_id` is the scanner that has more, if it is a page of one."""

    __slots__ = ("batches", "header", "kind", "scanner_id", "sizes")

    def __init__(self, kind: FrameKind, header: dict[str, Any], batches: Sequence[pa.RecordBatch] = ()) -> None:
        self.kind = kind
        self.scanner_id: str | None = None
        self.header = header
        self.batches = batches
        self.sizes: list[int] = [pa.ipc.get_record_batch_size(batch) for batch in batches]

    @property
    def bytes(self) -> int:
        """Return about how many bytes the reply has."""
        return sum(self.sizes)

    def frame(self) -> pa.Buffer:
        """Return the reply as one frame.

        Raises:
            LimitError: it would be larger than any may be.
        """
        return encode_frame(self.kind, self.header, self.batches)


class DataSchema:
    """The one schema of the data of a stream."""

    __slots__ = ("_ahead_bytes", "schema")

    def __init__(self, batch: pa.RecordBatch) -> None:
        """Take the schema of the first batch to be sent."""
        self.schema = batch.schema
        # Arrow's own header of a batch has one length for all batches with rows of a schema.
        header = int(pa.ipc.read_message(batch.slice(0, 1).serialize()).metadata.size)
        self._ahead_bytes = 1 + _varint_bytes(header) + header

    def fits(self, reply: Reply) -> bool:
        """Tell whether all batches of a reply are of the schema."""
        return all(batch.schema.equals(self.schema, check_metadata=True) for batch in reply.batches)

    def messages(self, reply: Reply) -> Iterator[tuple[pa.RecordBatch, pa.Buffer]]:
        """Yield each batch of a reply with the metadata that goes with it.

        Raises:
            LimitError: the header is larger than any may be.
        """
        last = len(reply.batches) - 1
        for batch, size in zip(reply.batches[:last], reply.sizes, strict=False):
            mark = _BLANK_BYTE if reply.scanner_id is None else _GOES_ON_BYTE
            yield batch, pa.py_buffer(mark + _BLANK_BYTE * self._filling(size, 1))
        text = encode_header({**reply.header, _DATA: last + 1})
        filling = self._filling(reply.sizes[last], HEAD_BYTES + len(text))
        yield reply.batches[last], pa.py_buffer(frame_of(reply.kind, text + _BLANK_BYTE * filling))

    def _filling(self, size: int, metadata_bytes: int) -> int:
        """Return how many bytes metadata lacks for the batch of that size behind it to lie at words on arrival."""
        # In front: Arrow's header and the metadata, each behind a tag of one byte and its length as a varint;
        # then the tag of the columns, two bytes, and their length.
        if size < _SMALL_BYTES:
            return 0
        start = self._ahead_bytes + 1 + _varint_bytes(metadata_bytes) + metadata_bytes + 2 + _varint_bytes(size)
        return -start % WORD_BYTES


def count_data(header: dict[str, Any]) -> object:
    """Return how many batches belong to a header, as it says; it does not say so any more."""
    return header.pop(_DATA, 0)


def is_last(metadata: pa.Buffer | None) -> bool:
    """Tell whether a message is the last one of a reply: its metadata is more than a mark."""
    return metadata is not None and metadata.size > 0 and metadata[0] not in (BLANK, GOES_ON)


def goes_on(metadata: pa.Buffer | None) -> bool:
    """Tell whether a message is of a page after which the scan goes on, and more of the page is to come."""
    return metadata is not None and metadata.size > 0 and metadata[0] == GOES_ON


def _varint_bytes(number: int) -> int:
    return -(-max(number, 1).bit_length() // 7)
