"""An answer that came from a server, before it is decoded."""

from __future__ import annotations

from typing import NamedTuple

import pyarrow as pa


class RawReply(NamedTuple):
    """A frame, and the batches that came beside it."""

    frame: pa.Buffer
    batches: list[pa.RecordBatch]
