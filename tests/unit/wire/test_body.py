"""Bodies: batches as bytes, and every way in which bytes can lie about being one."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from penstock.errors import InvalidError, LimitError, PenstockError
from penstock.wire.body import Body, BodyLimits, read_body
from penstock.wire.plain import plain_batch

LIMITS = BodyLimits()


def stream(*batches: pa.RecordBatch, **options: Any) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batches[0].schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return sink.getvalue()


def test_size_is_known_before_writing() -> None:
    batch = pa.record_batch({"id": list(range(1000)), "name": ["x" * 10] * 1000}).slice(10, 77)
    body = Body(batch)
    sink = pa.BufferOutputStream()

    body.write_to(sink)

    assert sink.getvalue().size == body.size


@pytest.mark.parametrize("compression", ["zstd", "lz4"])
def test_compression_is_refused_before_it_unfolds(compression: str) -> None:
    with pytest.raises(InvalidError, match="uncompressed"):
        read_body(stream(pa.record_batch({"x": ["a" * 1000] * 100}), compression=compression), LIMITS)


def test_body_holds_exactly_one_batch() -> None:
    batch = pa.record_batch({"x": [1]})
    for body in (stream(batch, batch), pa.py_buffer(b""), pa.py_buffer(b"x" * 64), stream(batch).slice(0, 100)):
        with pytest.raises(InvalidError):
            read_body(body, LIMITS)


def test_offsets_that_point_outside_are_refused() -> None:
    offsets = pa.py_buffer(b"\x00\x00\x00\x00\xff\x00\x00\x00\x02\x00\x00\x00")
    column = pa.Array.from_buffers(pa.string(), 2, [None, offsets, pa.py_buffer(b"ab")])

    with pytest.raises(InvalidError, match="not valid arrow data"):
        read_body(stream(pa.RecordBatch.from_arrays([column], ["x"])), LIMITS)


def test_text_that_is_no_utf8_is_refused() -> None:
    offsets = pa.py_buffer(b"\x00\x00\x00\x00\x02\x00\x00\x00")
    column = pa.Array.from_buffers(pa.string(), 1, [None, offsets, pa.py_buffer(b"\xff\xff")])

    with pytest.raises(InvalidError, match="not valid arrow data"):
        read_body(stream(pa.RecordBatch.from_arrays([column], ["x"])), LIMITS)


def test_columns_that_share_a_buffer_count_each() -> None:
    shared = pa.array(range(1000))
    body = stream(pa.RecordBatch.from_arrays([shared] * 50, [str(n) for n in range(50)]))

    with pytest.raises(LimitError, match="too large"):
        read_body(body, BodyLimits(bytes_max=200_000))


def test_rows_without_bytes_are_capped() -> None:
    with pytest.raises(LimitError, match="too many rows"):
        read_body(stream(pa.record_batch({"x": pa.nulls(1 << 25)})), LIMITS)


@pytest.mark.parametrize(
    "column",
    [
        pa.array(["a"]).dictionary_encode(),
        pa.array(["a"], pa.string_view()),
        pa.array([b"a"], pa.binary_view()),
        pa.RunEndEncodedArray.from_arrays(pa.array([1], pa.int32()), pa.array(["a"])),
        pa.array([[None]], pa.list_(pa.null())),
        pa.array([{}], pa.struct([])),
        pa.array([b""], pa.binary(0)),
        pa.array(["00000000-0000-0000-0000-000000000000".replace("-", "")[:16].encode()], pa.binary(16)).cast(
            pa.uuid()
        ),
    ],
    ids=lambda column: str(column.type),
)
def test_encodings_in_which_few_bytes_stand_for_many_are_refused(column: pa.Array) -> None:
    with pytest.raises(InvalidError):
        read_body(stream(pa.RecordBatch.from_arrays([column], ["x"])), LIMITS)


def test_deep_and_wide_schemas_are_refused() -> None:
    deep = pa.int64()
    for _ in range(20):
        deep = pa.list_(deep)
    wide = pa.schema([(f"c{n}", pa.int64()) for n in range(9_000)])
    for schema in (pa.schema([("x", deep)]), wide, pa.schema([("n" * 5_000, pa.int64())])):
        with pytest.raises(LimitError):
            read_body(stream(_empty(schema)), LIMITS)


def _empty(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([], schema=schema)


@pytest.mark.parametrize(
    "column",
    [
        pa.array(["a", None, "b"]).dictionary_encode(),
        pa.array(["a", None, "b"], pa.string_view()),
        pa.array([[b"a"], None, []], pa.list_(pa.binary_view())),
        pa.array([{"x": "a"}, None, {"x": None}], pa.struct([("x", pa.string_view())])),
        pa.RunEndEncodedArray.from_arrays(pa.array([2, 3], pa.int32()), pa.array(["a", None])),
        pa.array([1, 2, 3]),
    ],
    ids=lambda column: str(column.type),
)
def test_sender_unfolds_its_own_encodings(column: pa.Array) -> None:
    batch = pa.RecordBatch.from_arrays([column], ["x"])

    sent = read_body(stream(plain_batch(batch)), LIMITS)

    assert sent.to_pylist() == batch.to_pylist()


def test_decoded_columns_are_aligned_wherever_the_bytes_lie() -> None:
    body = stream(pa.record_batch({"x": list(range(100))}))
    shifted = pa.py_buffer(b"!" + body.to_pybytes()).slice(1)

    column = read_body(shifted, LIMITS).column(0)

    assert column.buffers()[1].address % 8 == 0


def test_every_truncation_is_refused() -> None:
    body = stream(pa.record_batch({"id": [1, 2], "name": ["a", "b"]}))
    whole = read_body(body, LIMITS)
    for length in range(0, body.size, 7):
        try:
            assert read_body(body.slice(0, length), LIMITS) == whole, "only the end-of-stream mark may be missing"
        except PenstockError:
            continue
