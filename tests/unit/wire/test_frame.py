"""Frames: bytes and back, and everything that is no frame."""

from __future__ import annotations

import json
import random
import struct

import pyarrow as pa
import pytest

from penstock.errors import InvalidError, LimitError, PenstockError, UnsupportedError
from penstock.wire.body import BodyLimits, read_body
from penstock.wire.frame import HEADER_VALUES_MAX, PROTOCOL_VERSION, FrameKind, decode_frame, encode_frame, is_reply

BATCH = pa.record_batch({"id": [1, 2, 3], "name": ["a", None, "c"]})


def raw(header: bytes, *, version: int = PROTOCOL_VERSION, kind: int = 0, rest: bytes = b"") -> pa.Buffer:
    return pa.py_buffer(struct.pack("<2sBBI", b"PS", version, kind, len(header)) + header + rest)


def test_frame_reads_back_as_it_was_written() -> None:
    frame = decode_frame(encode_frame(FrameKind.REQUEST, {"id": 7, "call": "write"}, [BATCH, BATCH.slice(1)]))

    assert (frame.kind, frame.header) == (FrameKind.REQUEST, {"id": 7, "call": "write"})
    assert [read_body(body, BodyLimits()) for body in frame.bodies] == [BATCH, BATCH.slice(1)]


def test_newer_protocol_is_refused_by_name() -> None:
    with pytest.raises(UnsupportedError, match="speaks another protocol") as caught:
        decode_frame(raw(b"{}", version=PROTOCOL_VERSION + 1))

    assert caught.value.facts == {"protocol": PROTOCOL_VERSION + 1, "known": PROTOCOL_VERSION}


@pytest.mark.parametrize(
    "message",
    [
        pa.py_buffer(b""),
        pa.py_buffer(b"PS\x01"),
        pa.py_buffer(b"XX\x01\x00\x02\x00\x00\x00{}"),
        raw(b"{}", kind=9),
        raw(b"{"),
        raw(b"\xff\xfe"),
        raw(b"[]"),
        raw(b"[" * 100_000),
        raw(b"{}", rest=b"more"),
        raw(b'{"bodies":3}'),
        raw(b'{"bodies":[-1]}'),
        raw(b'{"bodies":[true]}'),
        raw(b'{"bodies":[99]}'),
        raw(json.dumps({"bodies": [0] * 70_000}).encode()),
    ],
)
def test_what_is_no_frame_is_refused(message: pa.Buffer) -> None:
    with pytest.raises(InvalidError):
        decode_frame(message)


def test_header_that_claims_too_much_is_refused_before_it_is_read() -> None:
    with pytest.raises(LimitError, match="header is too large"):
        decode_frame(pa.py_buffer(struct.pack("<2sBBI", b"PS", PROTOCOL_VERSION, 0, 1 << 31)))


def test_header_of_more_values_than_any_call_has_is_refused_before_it_is_read() -> None:
    header = b'{"id":1,"call":"list_databases","args":[' + b"[]," * HEADER_VALUES_MAX + b"[]]}"

    with pytest.raises(LimitError, match="too many values"):
        decode_frame(raw(header))


def test_mutated_frames_are_refused_or_read_but_never_break() -> None:
    seed = 11
    print(f"seed={seed}")
    dice = random.Random(seed)
    good = bytearray(encode_frame(FrameKind.REQUEST, {"id": 1, "call": "write"}, [BATCH]).to_pybytes())
    refused = 0
    for _ in range(3_000):
        bad = bytearray(good)
        for _ in range(dice.randint(1, 4)):
            bad[dice.randrange(len(bad))] = dice.randrange(256)
        try:
            for body in decode_frame(pa.py_buffer(bytes(bad))).bodies:
                read_body(body, BodyLimits())
        except PenstockError:
            refused += 1
    assert refused > 1_000


def test_only_answers_count_as_replies() -> None:
    assert is_reply(encode_frame(FrameKind.REPLY, {}))
    assert not is_reply(encode_frame(FrameKind.ERROR, {}))
    assert not is_reply(pa.py_buffer(b""))


@pytest.mark.parametrize("rows", [200, 20_000, 50_000, 150_000])
@pytest.mark.parametrize("word", ["", "x", "xyz", "longer"])
def test_bodies_lie_at_words_where_flight_puts_the_message(rows: int, word: str) -> None:
    batch = pa.record_batch({"id": pa.array(range(rows), pa.int64()), "note": ["n"] * rows})

    frame = encode_frame(FrameKind.REPLY, {"word": word}, [batch, batch.slice(1), batch])
    length_bytes = -(-frame.size.bit_length() // 7)

    decoded = decode_frame(frame)
    assert [read_body(body, BodyLimits()) for body in decoded.bodies] == [batch, batch.slice(1), batch]
    assert {(1 + length_bytes + body.address - frame.address) % 8 for body in decoded.bodies} == {0}
