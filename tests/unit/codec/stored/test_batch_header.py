import struct

import google_crc32c
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.codec.stored.batch_header import (
    ALIGNMENT,
    HEADER_BYTES_MIN,
    batch_end,
    body_is_intact,
    decode_header,
    encode_batch,
    header_length,
)
from penstock.errors import UnsupportedError
from penstock.model.place.change import BatchKind
from penstock.model.place.facts import BatchFacts

int64s = st.integers(-(1 << 63), (1 << 63) - 1)
facts_of_any_kind = st.builds(
    BatchFacts,
    base_offset=st.integers(0, 1 << 62),
    rows=st.integers(0, 1 << 31),
    timestamp_ms=int64s,
    term=int64s,
    schema_id=st.integers(0, 1 << 31),
    kind=st.sampled_from(BatchKind),
    writer_id=st.binary(min_size=16, max_size=16),
    sequence=int64s,
    owner=int64s,
    fence=int64s,
    epoch=int64s,
    attempt=st.binary(min_size=16, max_size=16),
    columns=st.none() | st.lists(st.integers(0, (1 << 32) - 1), max_size=9).map(tuple),
)


def whole_batch(facts: BatchFacts, position: int, body: bytes, *, synced_end: int = 0) -> bytes:
    return encode_batch(facts, position, body, synced_end=synced_end) + body + batch_end(len(body))


SMALL = BatchFacts(base_offset=7, rows=2, timestamp_ms=9, term=1, schema_id=3, columns=(1, 4, 5))


@given(facts=facts_of_any_kind, body=st.binary(max_size=50), place=st.integers(0, 99))
def test_facts_and_place_come_back(facts: BatchFacts, body: bytes, place: int) -> None:
    position = place * ALIGNMENT
    data = memoryview(bytes(position) + whole_batch(facts, position, body, synced_end=position // 2))

    header = decode_header(data, position)

    assert header is not None
    assert header.facts == facts
    assert (header.position, header.synced_end) == (position, position // 2)
    assert bytes(data[header.body_position :][: header.body_bytes]) == body
    assert header.end == len(data)
    assert header.end % ALIGNMENT == 0
    assert body_is_intact(header, data)


@pytest.mark.parametrize("wrap", [bytes, memoryview, pa.py_buffer])
def test_any_kind_of_buffer_gives_the_same_header(wrap: type) -> None:
    assert encode_batch(SMALL, 8, wrap(b"12345"), synced_end=0) == encode_batch(SMALL, 8, b"12345", synced_end=0)


def test_every_flipped_bit_is_found() -> None:
    data = whole_batch(SMALL, 0, b"body of the batch")

    for position in range(len(data)):
        for bit in range(8):
            damaged = bytearray(data)
            damaged[position] ^= 1 << bit
            view = memoryview(bytes(damaged))
            header = decode_header(view, 0)
            assert header is None or not body_is_intact(header, view), (position, bit)


def test_every_truncation_is_found() -> None:
    data = whole_batch(SMALL, 0, b"body of the batch")

    for length in range(len(data)):
        view = memoryview(data)[:length]
        header = decode_header(view, 0)
        assert header is None or not body_is_intact(header, view), length


def test_moved_header_tells_where_it_was_written() -> None:
    data = memoryview(bytes(16) + whole_batch(SMALL, 64, b""))

    header = decode_header(data, 16)

    assert header is not None
    assert header.position == 64


def test_batch_never_ends_in_zeros() -> None:
    for length in range(20):
        assert batch_end(length)[-1] != 0


def test_claimed_header_length_needs_no_checksum() -> None:
    data = bytearray(whole_batch(SMALL, 0, b""))
    data[100] ^= 1

    assert header_length(memoryview(data), 0) == HEADER_BYTES_MIN + 16
    assert header_length(memoryview(bytes(200)), 0) is None


@pytest.mark.parametrize(("field", "value"), [(8, 3), (10, 77)])
def test_newer_version_or_kind_is_refused_by_name(field: int, value: int) -> None:
    header = bytearray(encode_batch(SMALL, 0, b"", synced_end=0))
    header[field] = value
    header[4:8] = bytes(4)
    header[4:8] = struct.pack("<I", google_crc32c.value(bytes(header)))

    with pytest.raises(UnsupportedError, match="upgrade"):
        decode_header(memoryview(bytes(header)), 0)
    assert decode_header(memoryview(bytes(8) + bytes(header)), 8) is None
