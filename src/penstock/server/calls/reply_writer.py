"""The way out of one stream: each reply as the transport's own data where its batches fit, else as a frame."""

from __future__ import annotations

import pyarrow as pa
from pyarrow import flight

from penstock.errors import LimitError
from penstock.wire.reply import DataSchema, Reply


class ReplyWriter:
    """Sends the replies of a stream. The first one with batches says of which schema the stream's data is."""

    def __init__(self, writer: flight.MetadataRecordBatchWriter, bytes_max: int) -> None:
        self._writer = writer
        self._bytes_max = bytes_max
        self._data: DataSchema | None = None

    def send(self, reply: Reply) -> int:
        """Send a reply; return how many bytes it had, about.

        Raises:
            LimitError: it is larger than any may be; nothing was sent.
            FlightError: the client went away.
        """
        if not reply.batches:
            return self._send_frame(reply)
        size = reply.bytes
        if size > self._bytes_max:
            raise LimitError("the message is too large; ask for less", bytes=size, most=self._bytes_max)
        if self._data is None:
            self._data = DataSchema(reply.batches[0])
            self._writer.begin(self._data.schema)
        if not self._data.fits(reply):
            return self._send_frame(reply)
        for batch, metadata in self._data.messages(reply):
            size += metadata.size
            self._writer.write_with_metadata(batch, metadata)
        return size

    def _send_frame(self, reply: Reply) -> int:
        frame: pa.Buffer = reply.frame()
        self._writer.write_metadata(frame)
        return int(frame.size)
