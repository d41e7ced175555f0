"""Pieces: a request cut into messages, and put together again."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

from penstock.errors import InvalidError
from penstock.wire.body import BodyLimits, read_body
from penstock.wire.frame import WORD_BYTES, Draft, Frame, FrameKind, decode_frame
from penstock.wire.piece import Assembly, Pieces

BATCH = pa.record_batch({"id": list(range(5_000)), "note": [f"note {n}" for n in range(5_000)]})


def pieces(bytes_max: int = 1_024, call_id: int = 7) -> Iterator[Frame]:
    draft = Draft(FrameKind.REQUEST, {"id": call_id, "call": "write"}, [BATCH])
    for piece, _ in Pieces(call_id, draft, bytes_max):
        assert piece.size <= bytes_max
        yield decode_frame(piece)


@pytest.mark.parametrize("bytes_max", [600, 1_024, 65_536, 1 << 30])
def test_request_is_put_together_as_it_was_with_its_columns_at_words(bytes_max: int) -> None:
    first, *rest = pieces(bytes_max)
    assembly = Assembly(first)
    assert [assembly.add(piece) for piece in rest] == [False] * (len(rest) - 1) + [True]

    frame = decode_frame(assembly.request)
    assert (frame.kind, frame.header) == (FrameKind.REQUEST, {"id": 7, "call": "write"})
    assert frame.bodies[0].address % WORD_BYTES == 0
    assert read_body(frame.bodies[0], BodyLimits()) == BATCH


def test_piece_out_of_turn_or_of_another_request_is_refused() -> None:
    first, second, third, *_ = pieces()
    stranger = list(pieces(call_id=8))[1]
    for wrong in (third, first, stranger, Frame(FrameKind.PIECE, {"id": 7, "start": 0})):
        with pytest.raises(InvalidError, match="send all of it again"):
            Assembly(first).add(wrong)
    assembly = Assembly(first)
    assembly.add(second)
    with pytest.raises(InvalidError, match="send all of it again"):
        assembly.add(second)


def test_more_bytes_than_were_announced_are_refused() -> None:
    _, second, *_ = pieces()
    assembly = Assembly(Frame(FrameKind.PIECE, {"id": 7, "total": 100}))

    with pytest.raises(InvalidError, match="other bytes than were announced"):
        assembly.add(second)


@pytest.mark.parametrize(
    "header", [{}, {"total": 0}, {"total": -1}, {"total": True}, {"total": "9"}, {"total": 1 << 64}]
)
def test_first_piece_that_announces_no_size_is_refused(header: dict[str, object]) -> None:
    with pytest.raises(InvalidError, match="the first piece says"):
        Assembly(Frame(FrameKind.PIECE, header))
