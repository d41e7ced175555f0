"""Arrow batches as bytes: one IPC stream of a schema and one batch, checked before anything reads it.

Mutated batches crash a process that trusts them. So the order here matters: the messages are
counted, compression is refused (a small body could unfold into any amount of memory), the schema is
measured, the batch is decoded, its claimed size is compared with what may be, and only then is every
value looked at.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import pyarrow as pa
from pyarrow import lib

from penstock.errors import InvalidError, LimitError, SchemaMismatchError

_WRITE: Final = pa.ipc.IpcWriteOptions(use_threads=False)
_NUMBERS: Final = (
    "INT8",
    "INT16",
    "INT32",
    "INT64",
    "UINT8",
    "UINT16",
    "UINT32",
    "UINT64",
    "HALF_FLOAT",
    "FLOAT",
    "DOUBLE",
)
_DECIMALS: Final = ("DECIMAL32", "DECIMAL64", "DECIMAL128", "DECIMAL256")
_TIMES: Final = ("DATE32", "DATE64", "TIME32", "TIME64", "TIMESTAMP", "DURATION", "INTERVAL_MONTH_DAY_NANO")
_BYTES: Final = ("BOOL", "STRING", "LARGE_STRING", "BINARY", "LARGE_BINARY", "FIXED_SIZE_BINARY")
_NESTED: Final = ("LIST", "LARGE_LIST", "FIXED_SIZE_LIST", "STRUCT", "MAP")
_PLAIN: Final = frozenset(getattr(lib, f"Type_{name}") for name in (*_NUMBERS, *_DECIMALS, *_TIMES, *_BYTES, *_NESTED))
_END: Final = b"\xff\xff\xff\xff\x00\x00\x00\x00"
_SMALL_BYTES: Final = 1 << 16
_ALIGNMENT: Final = 8
_BUFFERS_MAX: Final = 3
_COMPRESSION_SLOT: Final = 3
_HEADER_SLOT: Final = 2


@dataclass(frozen=True, slots=True)
class BodyLimits:
    """What a batch from the other end may be at most."""

    bytes_max: int = 64 << 20
    rows_max: int = 1 << 24
    fields_max: int = 8_192
    depth_max: int = 16
    name_bytes_max: int = 4_096


class Body:
    """One batch on its way out."""

    __slots__ = ("_batch", "_schema", "size")

    def __init__(self, batch: pa.RecordBatch) -> None:
        self._batch = batch
        self._schema: pa.Buffer = batch.schema.serialize()
        self.size: int = self._schema.size + pa.ipc.get_record_batch_size(batch) + len(_END)

    def write_to(self, sink: pa.NativeFile) -> None:
        """Write the batch as an IPC stream."""
        if self.size > _SMALL_BYTES:
            with pa.ipc.new_stream(sink, self._batch.schema, options=_WRITE) as writer:
                writer.write_batch(self._batch)
        else:
            # The same bytes; a copy of a few is cheaper than a writer.
            sink.write(self._schema)
            sink.write(self._batch.serialize())
            sink.write(_END)


def read_body(body: pa.Buffer, limits: BodyLimits, *, full: bool = True) -> pa.RecordBatch:
    """Return the batch that the bytes hold; with `full` every value of it is checked.

    Raises:
        InvalidError: the bytes are not one whole valid batch.
        LimitError: the batch or its schema is larger than the limits.
        SchemaMismatchError: a column is of an encoding that is not sent.
    """
    try:
        schema, message = _read_messages(_aligned(body))
        batch = pa.ipc.read_record_batch(message, _schema_of(schema, limits))
        batch.validate()
        _check_size(batch, body, limits)
        if full:
            batch.validate(full=True)
    except (pa.ArrowException, OSError, StopIteration, struct.error, UnicodeDecodeError) as error:
        raise InvalidError("the batch is not valid arrow data", cause=_first_line(error)) from error
    return batch


def check_attached(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return a batch that came as the transport's own data, looked at in shape, with its columns at words.

    Raises:
        InvalidError: it is not a valid batch.
    """
    try:
        batch.validate()
        for place in range(batch.num_columns):
            for buffer in batch.column(place).buffers():
                if buffer is not None and buffer.size:
                    # All lie a number of words behind each other, so one shows it for all.
                    return batch if buffer.address % _ALIGNMENT == 0 else _copied(batch)
    except (pa.ArrowException, OSError) as error:
        raise InvalidError("the batch is not valid arrow data", cause=_first_line(error)) from error
    return batch


def check_schema(schema: pa.Schema, limits: BodyLimits) -> None:
    """Refuse a schema that is too wide, too deep, or uses an encoding that is not sent.

    Raises:
        LimitError: it has too many fields, too deep a nesting or too long a name.
        SchemaMismatchError: a column is dictionary, run-end or view encoded, or an extension type.
    """
    for count, (field, depth) in enumerate(_walk(schema, limits.depth_max), 1):
        if count > limits.fields_max:
            raise LimitError("the batch has too many columns", most=limits.fields_max)
        if depth > limits.depth_max:
            raise LimitError("a column is nested too deeply", column=field.name[:80], most=limits.depth_max)
        if len(field.name) > limits.name_bytes_max:
            raise LimitError("a column's name is too long", column=field.name[:80], most=limits.name_bytes_max)
        if not is_plain(field.type) and not (depth == 1 and pa.types.is_null(field.type)):
            raise SchemaMismatchError(
                "the column's encoding is not sent; cast it to its plain type", column=field.name, type=str(field.type)
            )


def is_plain(type_: pa.DataType) -> bool:
    """Tell whether a type is sent as it is, its children apart."""
    if type_.id not in _PLAIN:
        return False
    # Nested types of no width claim any number of rows in no bytes.
    if type_.id == lib.Type_FIXED_SIZE_BINARY:
        return bool(type_.byte_width > 0)
    if type_.id == lib.Type_FIXED_SIZE_LIST:
        return bool(type_.list_size > 0)
    return type_.id != lib.Type_STRUCT or bool(type_.num_fields)


def _walk(schema: pa.Schema, depth_max: int) -> Iterator[tuple[pa.Field, int]]:
    waiting = [(field, 1) for field in schema]
    while waiting:
        field, depth = waiting.pop()
        yield field, depth
        if depth <= depth_max:
            waiting += [(field.type.field(child), depth + 1) for child in range(field.type.num_fields)]


def _aligned(body: pa.Buffer) -> pa.Buffer:
    # The transport puts bytes anywhere; what reads the columns may want them where its words lie.
    if body.address % _ALIGNMENT == 0:
        return body
    copy = pa.allocate_buffer(body.size)
    with pa.FixedSizeBufferWriter(copy) as sink:
        sink.write(body)
    return copy


def _copied(batch: pa.RecordBatch) -> pa.RecordBatch:
    return pa.ipc.read_record_batch(batch.serialize(), batch.schema)


def _read_messages(body: pa.Buffer) -> tuple[pa.Message, pa.Message]:
    messages = pa.ipc.MessageReader.open_stream(body)
    schema, batch = messages.read_next_message(), messages.read_next_message()
    if (schema.type, batch.type) != ("schema", "record batch") or _is_compressed(batch.metadata.to_pybytes()):
        found = f"{schema.type}, {batch.type}"
        raise InvalidError("a body holds one schema and one uncompressed batch", found=found)
    for more in messages:
        raise InvalidError("a body holds one schema and one uncompressed batch", found=more.type)
    return schema, batch


def _schema_of(message: pa.Message, limits: BodyLimits) -> pa.Schema:
    # One table's batches all bring the same schema; it is read and measured once, unless it is so
    # large that keeping some hundreds of its kind would cost a server its memory.
    metadata = message.metadata.to_pybytes()
    return (_known_schema if len(metadata) <= _SMALL_BYTES else _read_schema)(metadata, limits)


def _read_schema(metadata: bytes, limits: BodyLimits) -> pa.Schema:
    schema = pa.ipc.read_schema(pa.py_buffer(struct.pack("<Ii", 0xFFFFFFFF, len(metadata)) + metadata))
    check_schema(schema, limits)
    return schema


_known_schema = lru_cache(maxsize=256)(_read_schema)


def _is_compressed(metadata: bytes) -> bool:
    # Arrow has verified the flatbuffer; all that is left is to look into it. There is no public way.
    root = struct.unpack_from("<I", metadata, 0)[0]
    header = _slot(metadata, root, _HEADER_SLOT)
    if header is None:
        raise InvalidError("a body's message says nothing")
    table = header + struct.unpack_from("<I", metadata, header)[0]
    return _slot(metadata, table, _COMPRESSION_SLOT) is not None


def _slot(metadata: bytes, table: int, slot: int) -> int | None:
    vtable = table - struct.unpack_from("<i", metadata, table)[0]
    position = 4 + 2 * slot
    if vtable < 0 or position >= struct.unpack_from("<H", metadata, vtable)[0]:
        return None
    distance = struct.unpack_from("<H", metadata, vtable + position)[0]
    return table + distance if distance else None


def _check_size(batch: pa.RecordBatch, body: pa.Buffer, limits: BodyLimits) -> None:
    # A row of less than a byte is one of those of which a few bytes claim any number.
    if batch.num_rows > max(limits.rows_max, body.size):
        raise LimitError("the batch has too many rows; send smaller ones", rows=batch.num_rows, most=limits.rows_max)
    # Columns may share one buffer: what they claim together is what reading them costs. Where even all of
    # them over the whole body are within the limit, that need not be added up.
    if body.size * _BUFFERS_MAX * limits.fields_max > limits.bytes_max and batch.nbytes > limits.bytes_max:
        raise LimitError("the batch is too large; send smaller ones", bytes=batch.nbytes, most=limits.bytes_max)


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0][:200]
